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
    receipt_of,
    record_to_json,
)
from memory_queue.groups import Group, ModelMember, ModelPartition
from memory_queue.log import Log, Stored
from queue_rules.predicates.expressions import Condition
from queue_rules.predicates.of_group import predicate_of
from queue_rules.predicates.single import matches
from queue_rules.streams.commit_request import (
    Owner,
    commit_requests_of,
    judge,
    refused_by,
    superseded,
)
from queue_rules.streams.cursor import Cursor
from queue_tables.groups.facts import Key


def poll(
    log: Log, group: Group, member: ModelMember, now: Micros, most: int
) -> list[dict[str, Any]]:
    """The next records of the member's partitions, at most `most`; what has expired is passed."""
    records: list[dict[str, Any]] = []
    predicate = predicate_of(group.config.options)
    for owned in group.in_turn(member):
        room = most - len(records)
        gapless = bool(member.request.gapless)
        records += _delivered(owned, _take(log, owned, predicate, now, room, gapless=gapless))
    return records


def _take(
    log: Log,
    owned: ModelPartition,
    predicate: Condition | None,
    now: Micros,
    most: int,
    *,
    gapless: bool,
) -> list[Stored]:
    """The next records that live and that the predicate takes; the position passes the others."""
    rows, cursor = log.of(*owned.key[1:]), owned.cursor
    some: list[Stored] = []
    following = len(rows)
    for row in islice(rows, cursor.delivered, None):
        if row.expires_at > now and (predicate is None or matches(predicate, row.record)):
            if len(some) == most:
                following = int(row.record.offset)
                break
            some.append(row)
    cursor.deliver_among([int(row.record.offset) for row in some], following)
    if not gapless and cursor.skip():
        cursor.made_durable(cursor.accepted)
        owned.committed = cursor.durable
    return some


def _delivered(owned: ModelPartition, rows: Iterable[Stored]) -> Iterable[dict[str, Any]]:
    for row in rows:
        offset = row.record.offset
        receipt = receipt_of(owned.key.topic_id, owned.key.partition, offset, owned.epoch)
        yield record_to_json(row.record, receipt)


def ack(
    log: Log, group: Group, member: ModelMember, request: AckRequest, ids: Mapping[str, str]
) -> AckAnswer:
    """Commit positions; `ids` maps names of topics to topic ids.

    Errors: `SkippedRecords`, `InvalidRequest`, `OffsetOutOfRange` (nothing has changed);
    `EpochSuperseded` with what was committed and refused.
    """
    wanted = commit_requests_of(group.name, request, ids)
    answer = AckAnswer()
    cursors: dict[Key, Cursor] = {}
    for key, parts in wanted.items():
        owned = group.owned.get(key)
        owner = None if owned is None else Owner(owned.topic, owned.owner or "", owned.epoch)
        refused = refused_by(owner, member.member_id, key, parts)
        if owned is None or refused:
            answer.refused += refused
            continue
        cursors[key] = cursor = replace(owned.cursor, gaps=dict(owned.cursor.gaps))
        judge(cursor, parts, log.end(*key[1:]), through=request.commit_through)
    for key, cursor in cursors.items():
        owned = group.owned[key]
        cursor.made_durable(cursor.accepted)
        owned.cursor, owned.committed = cursor, cursor.durable
        answer.committed.append(
            Committed(topic=owned.topic, partition=key.partition, offset=cursor.durable)
        )
    if answer.refused:
        raise superseded(answer)
    return answer
