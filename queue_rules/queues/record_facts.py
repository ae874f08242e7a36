"""Moves of a queue partition as facts: neighbours that say the same become one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakequeue.records import Offset
from queue_rules.queues.attempts import Move
from queue_tables.groups.facts import Fact
from queue_tables.groups.record_states import NEVER


def runs_of(moves: Iterable[Move]) -> Iterator[tuple[Move, int]]:
    """(first move, end offset) of each run of neighbouring offsets with the same content."""
    run: Move | None = None
    end = 0
    for move in moves:
        following = move.end or move.offset + 1
        # `until` first: of records that are delayed it is what differs, and they can be many.
        if run is not None and move.offset == end and move.until == run.until:  # noqa: SIM102
            if (move[0], *move[2:-1]) == (run[0], *run[2:-1]):
                end = following
                continue
        if run is not None:
            yield run, end
        run, end = move, following
    if run is not None:
        yield run, end


def record_facts(base: Fact, moves: Iterable[Move]) -> list[Fact]:
    """The facts of `moves`; `base` has the partition, its generation, epoch and time."""
    # In the order of the fields: `replace` takes five times as long, and there can be a million.
    where = (base.group, base.topic, base.topic_id, base.partition, base.generation, base.epoch)
    return [
        Fact(
            move.kind,
            *where,
            Offset(move.offset),
            move.member,
            base.mode,
            base.at,
            end_offset=Offset(end) if move.kind.of_records else None,
            attempt=move.attempt if move.kind.of_records else None,
            until=move.until or None,
            first_at=move.first_at or None,
            key_hash=move.key_hash or None,
            expires_at=None if move.expires_at == NEVER else move.expires_at,
            reason=move.reason,
            dead_letter=move.dead_letter,
        )
        for move, end in runs_of(moves)
    ]
