"""Polls and acknowledgements of stream groups. The cursor of a partition is the services' own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from lakequeue.clock import Micros
from lakequeue.wire import (
    AckAnswer,
    AckRequest,
    Committed,
    RefusedAck,
    receipt_of,
    record_to_json,
)
from memory_queue.groups import Group, Held, Member
from memory_queue.log import Log, Stored
from queue_rules.predicates.of_group import predicate_of
from queue_rules.predicates.single import matches
from queue_rules.predicates.terms import Condition
from queue_rules.streams.cursor import Cursor
from queue_rules.streams.wanted import Wanted, judge, superseded, wanted_of
from queue_tables.groups.facts import Key


def poll(log: Log, group: Group, member: Member, now: Micros, most: int) -> list[dict[str, Any]]:
    """The next records of the member's partitions, at most `most`; what has expired is passed."""
    records: list[dict[str, Any]] = []
    predicate = predicate_of(group.config.options)
    for held in group.in_turn(member):
        room = most - len(records)
        gapless = bool(member.request.gapless)
        records += _delivered(held, _take(log, held, predicate, now, room, gapless=gapless))
    return records


def _take(
    log: Log,
    held: Held,
    predicate: Condition | None,
    now: Micros,
    most: int,
    *,
    gapless: bool,
) -> list[Stored]:
    """The next records that live and that the predicate takes; the position passes the others."""
    rows, cursor = log.of(*held.key[1:]), held.cursor
    some: list[Stored] = []
    following = len(rows)
    for row in islice(rows, cursor.delivered, None):
        if row.expires_at > now and (predicate is None or matches(predicate, row.record)):
            if len(some) == most:
                following = int(row.record.offset)
                break
            some.append(row)
    cursor.deliver_among([int(row.record.offset) for row in some], following)
    if not gapless and cursor.pass_over():
        cursor.made_durable(cursor.accepted)
        held.committed = cursor.durable
    return some


def _delivered(held: Held, rows: Iterable[Stored]) -> Iterable[dict[str, Any]]:
    for row in rows:
        offset = row.record.offset
        receipt = receipt_of(held.key.topic_id, held.key.partition, offset, held.epoch)
        yield record_to_json(row.record, receipt)


def ack(
    log: Log, group: Group, member: Member, request: AckRequest, ids: Mapping[str, str]
) -> AckAnswer:
    """Commit positions; `ids` maps names of topics to topic ids.

    Errors: `SkippedRecords`, `InvalidRequest`, `OffsetOutOfRange` (nothing has changed);
    `EpochSuperseded` with what was committed and refused.
    """
    wanted = wanted_of(group.name, request, ids)
    answer = AckAnswer()
    cursors: dict[Key, Cursor] = {}
    for key, parts in wanted.items():
        held = group.held.get(key)
        stale = [part for part in parts if not _accepts(held, member, part.epoch)]
        if held is None or stale:
            answer.refused += [_refusal(key, held, part) for part in stale]
            continue
        cursors[key] = cursor = replace(held.cursor, gaps=dict(held.cursor.gaps))
        judge(cursor, parts, log.end(*key[1:]), through=request.commit_through)
    for key, cursor in cursors.items():
        held = group.held[key]
        cursor.made_durable(cursor.accepted)
        held.cursor, held.committed = cursor, cursor.durable
        answer.committed.append(
            Committed(topic=held.topic, partition=key.partition, offset=cursor.durable)
        )
    if answer.refused:
        raise superseded(answer)
    return answer


def _accepts(held: Held | None, member: Member, epoch: int | None) -> bool:
    if held is None or held.owner != member.member_id:
        return False
    return epoch is None or epoch == held.epoch


def _refusal(key: Key, held: Held | None, wanted: Wanted) -> RefusedAck:
    return RefusedAck(
        topic=wanted.topic if held is None else held.topic,
        partition=key.partition,
        epoch=wanted.epoch or 0,
        current_epoch=None if held is None else held.epoch or None,
    )
