"""What a node settles when a request arrives: whether to take it, times, partitions. Pure."""

from __future__ import annotations

from lakequeue.clock import Micros
from lakequeue.errors import ClockSkew, TooLarge
from lakequeue.partitioner import StickyRoundRobin
from lakequeue.settings import IngestSettings
from queue_rules.produce.rows import NO_PARTITION, NO_TIMESTAMP, Request, Rows
from queue_rules.produce.timing import due_of
from queue_rules.produce.validation import Limits
from queue_tables.schema.topic_rules import Topic
from queue_tables.schema.values.rules import values_of


def limits_of(topic: Topic, settings: IngestSettings) -> Limits:
    """What a request to a topic may hold, at a node with these settings."""
    most = settings.max_record_bytes
    return Limits(
        partitions=topic.partitions,
        partitioner=topic.partitioner,
        max_record_bytes=min(most, topic.max_record_bytes or most),
        max_records=settings.max_request_records,
        value_schema=values_of(topic.value_schema, topic.value_schema_type, topic.earlier_schemas),
        policy=topic.value_policy or "reject",
    )


def check_whole(
    request: Request, size: int, now: Micros, *, max_ahead_s: float, max_group_bytes: int
) -> None:
    """Raise `ClockSkew` or `TooLarge` for a request of `size` bytes that cannot be taken."""
    ahead_s = (request.after - now) / 1e6
    if ahead_s > max_ahead_s:
        raise ClockSkew(
            f"after = {request.after} is {ahead_s:.1f} s ahead of this node's clock",
            hint="a clock is wrong: fix NTP on this node, or on the node that gave the stamp",
            stored="no",
            retry_after_s=max(1.0, ahead_s - max_ahead_s),
        )
    if request.atomic and size > max_group_bytes:
        raise TooLarge(
            f"an atomic request of {size} bytes, at most {max_group_bytes} "
            "(max_group_bytes) fit into one commit",
            hint="send less in one atomic request",
            stored="no",
        )


def fill_in(rows: Rows, now: Micros, topic_ttl_ms: int | None) -> None:
    """The times of records that arrive now."""
    if NO_TIMESTAMP in rows.timestamps:
        rows.timestamps = [now if t == NO_TIMESTAMP else t for t in rows.timestamps]
    if rows.timings is not None:
        rows.dues = [due_of(timing, now, topic_ttl_ms) for timing in rows.timings]
    elif topic_ttl_ms is not None:
        rows.dues = [due_of(None, now, topic_ttl_ms)] * len(rows)


def spread(rows: Rows, rule: StickyRoundRobin, partitions: int) -> None:
    """Give records that have no partition one."""
    for i, partition in enumerate(rows.partitions):
        if partition == NO_PARTITION:
            rows.partitions[i] = rule.take(rows.sizes[i], partitions)
