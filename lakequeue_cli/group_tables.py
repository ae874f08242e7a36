"""What `lakequeue group` prints of groups, as columns and rows. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from lakequeue.wire import GroupDescription, RecordStatus, place_of

COLUMNS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "MEMBER",
    "NAME",
    "LEASE-EPOCH",
    "LEASE-EXPIRES",
    "PAUSED",
)

LAG_COLUMNS = ("TIME", "TOPIC", "LAG", "CHANGE")

QUEUE_COLUMNS = (
    "GROUP",
    "TOPIC",
    "PARTITION",
    "NEXT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "IN-FLIGHT",
    "PARKED",
    "DYING",
    "NODE",
    "LEASE-EPOCH",
    "PAUSED",
)

STATUS_COLUMNS = (
    "GROUP",
    "RECORD",
    "STATUS",
    "ATTEMPT",
    "MEMBER",
    "UNTIL",
    "REASON",
    "DEAD-LETTER",
)


def lag_of(group: GroupDescription) -> dict[str, int]:
    """Topic → records that are not settled. Pure."""
    lag: dict[str, int] = {}
    for p in group.partitions:
        lag[p.topic] = lag.get(p.topic, 0) + p.lag
    return lag


def queue_rows_of(group: GroupDescription) -> list[tuple[object, ...]]:
    """The rows of `describe` for a queue group. Pure."""
    return [
        (
            group.group,
            p.topic,
            p.partition,
            p.committed_offset,
            p.end_offset,
            p.lag,
            p.in_flight,
            p.parked,
            p.dying,
            p.node,
            p.epoch,
            "yes" if p.paused else None,
        )
        for p in group.partitions
    ]


def rows_of(group: GroupDescription) -> list[tuple[object, ...]]:
    """The rows of `describe`. Pure."""
    names = {m.member_id: m.host for m in group.members}
    return [
        (
            group.group,
            p.topic,
            p.partition,
            p.committed_offset,
            p.end_offset,
            p.lag,
            p.owner,
            names.get(p.owner or "") or None,
            p.epoch,
            None if p.lease_expires_ms is None else f"{p.lease_expires_ms / 1000:.1f}s",
            "yes" if p.paused else None,
        )
        for p in group.partitions
    ]


def status_row_of(found: RecordStatus) -> tuple[object, ...]:
    """The row of `status`. Pure."""
    until = found.deadline if found.due is None else found.due
    at = None if until is None else datetime.fromtimestamp(until / 1_000_000, UTC)
    letter = found.dead_letter
    return (
        found.group,
        place_of(found.topic, found.partition, found.offset),
        found.status,
        found.attempt,
        found.member,
        None if at is None else at.isoformat(timespec="milliseconds"),
        found.reason,
        None if letter is None else place_of(letter.topic, letter.partition, letter.offset),
    )
