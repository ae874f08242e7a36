"""Where groups are and where they go; and looking at records without a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lakequeue.clock import Micros
from lakequeue.errors import InvalidRequest, OffsetOutOfRange, UnknownRecord
from lakequeue.partitioner import partition_of
from lakequeue.records import Partition, checked_name
from lakequeue.wire import (
    BrowseAnswer,
    BrowseQuery,
    GroupDescription,
    MemberState,
    PartitionState,
    PurgeAnswer,
    Purged,
    PurgeRequest,
    RecordStatus,
    SeekAnswer,
    SeekMove,
    SeekRequest,
    TopicCounts,
    record_to_json,
)
from memory_queue.groups import NODE, Group, Groups, ModelPartition, options_of, refuse_if_active
from memory_queue.log import Log, Stored
from memory_queue.topics import Topics
from queue_rules.groups.group_config import GroupConfig, check_config
from queue_rules.groups.seek_targets import Bounds, check_request, chosen_of, target_of, topics_of
from queue_rules.groups.status_responses import (
    check_offset,
    not_consumed,
    response_of,
    stream_status,
)
from queue_rules.predicates.of_group import check_new, predicate_of
from queue_rules.streams.cursor import Cursor
from queue_tables.groups.backlog import LOOKED_AT, Counts, unseen_at
from queue_tables.groups.facts import Key
from queue_tables.groups.offset_ranges import NO_RANGES, count_from, ranges_of
from queue_tables.schema.topic_rules import Topic


def describe(groups: Groups, log: Log, name: str) -> GroupDescription:
    """Positions, lag, owners and members. Raises `UnknownGroup`."""
    group = groups.get(name)
    return GroupDescription(
        group=name,
        mode="queue" if group.is_queue else "stream",
        options=options_of(group.config),
        generation=max((owned.generation for owned in group.owned.values()), default=None),
        paused=group.pauses.paused(),
        partitions=[_row(group, owned, log) for _, owned in groups.partitions(group)],
        members=[
            MemberState(
                member_id=member.member_id,
                topics=member.request.topics,
                node=NODE,
                host=member.host or None,
                partitions=len(group.current.get(member.member_id, ())),
            )
            for member in group.members.values()
        ],
    )


def _row(group: Group, owned: ModelPartition, log: Log) -> PartitionState:
    end = log.end(*owned.key[1:])
    committed, open_now, seen = owned.committed, 0, 0
    counts: dict[str, Any] = {}
    if owned.queue is not None:
        committed = max(owned.queue.seen.first_gap, owned.committed or 0) or owned.committed
        seen = count_from(owned.queue.seen, committed or 0)
        dying = len(owned.queue.dying)
        in_flight, parked = owned.queue.open - dying, owned.queue.delayed
        counts = {"in_flight": in_flight, "parked": parked, "dying": dying}
        counts["held_back"] = owned.queue.held_back
        if (refused := owned.refused_letters.oldest) is not None:
            counts |= {"dying_because": refused.why, "dying_since": refused.since}
        open_now = in_flight + parked + dying
    return PartitionState(
        topic=owned.topic,
        topic_id=owned.key.topic_id,
        partition=owned.key.partition,
        committed_offset=committed,
        end_offset=end,
        lag=max(0, end - (committed or 0) - seen) + open_now,
        owner=owned.owner,
        node=None if owned.owner is None else NODE,
        epoch=None if owned.owner is None else owned.epoch,
        paused=group.pauses.paused(owned.topic, owned.key.partition),
        **counts,
    )


def status(
    groups: Groups, log: Log, group: Group, topic: Topic, partition: int, offset: int, now: Micros
) -> RecordStatus:
    """What became of a record in a group. Raises `UnknownRecord`, `UnknownGroup`."""
    topic.place(partition, field=None, error=UnknownRecord)
    key = Key(group.name, topic.topic_id, Partition(partition))
    check_offset(topic, partition, offset, 0, log.end(*key[1:]))
    owned = {owned.key: owned for _, owned in groups.partitions(group)}.get(key)
    if owned is None:
        raise not_consumed(group.name, topic.topic, exists=True)
    if owned.queue is not None:
        found = owned.queue.status(offset, now)
    else:
        cursor = Cursor(owned.committed or 0) if owned.owner is None else owned.cursor
        found = stream_status(cursor, owned.owner or "", offset)
    return response_of(
        key, topic.topic, offset, found, "tables" if owned.owner is None else "owner"
    )


def counts(groups: Groups, log: Log, name: str, topic: Topic, now: Micros) -> TopicCounts:
    """What a group has to do in a topic, as of now; see `TopicCounts`. Raises `InvalidName`."""
    checked_name(name, "group")
    group = groups.by_name.get(name)
    total = Counts(0, 0, 0, 0)
    for number in range(topic.partitions):
        key = Key(name, topic.topic_id, Partition(number))
        owned = None if group is None else group.owned.get(key)
        rows = log.of(*key[1:])
        if group is not None and not group.is_queue:
            committed = 0 if owned is None else owned.committed or 0
            total = total.plus(Counts(len(rows) - committed, 0, 0, 0))
            continue
        start, seen = 0, NO_RANGES
        if owned is not None and owned.queue is not None:
            seen = ranges_of(owned.queue.seen)
            start = owned.queue.seen.first_gap
            total = total.plus(owned.queue.counts(now))
        looked_at = rows[max(start, len(rows) - LOOKED_AT) :]
        new = np.array([row.new(keys=False) for row in looked_at], np.int64).reshape(-1, 4)
        dues = new[:, 0], new[:, 2], new[:, 3]
        total = total.plus(unseen_at(seen, start, len(rows), dues, now))
    return TopicCounts(group=name, topic=topic.topic, **total._asdict())


def seek(topics: Topics, groups: Groups, log: Log, name: str, request: SeekRequest) -> SeekAnswer:
    """Move a group that has no member. Raises `GroupActive`, `UnknownGroup`, `UnknownTopic`, …"""
    checked_name(name, "group")
    check_request(request)
    known = groups.by_name.get(name)
    if known is not None:
        refuse_if_active(known)
    options = {} if request.predicate is None else {"predicate": request.predicate}
    if known is None:
        check_new(options)
    predicate_of(options)
    group = known or Group(name, GroupConfig("stream", options))
    if options:
        check_config(name, group.config, GroupConfig("stream", options))
    chosen = _chosen(topics, groups, group, request)
    moves: list[tuple[ModelPartition, int]] = []
    answer = SeekAnswer(executed=not request.dry_run, partitions=[])
    for owned in chosen:
        bounds = Bounds(0, log.end(*owned.key[1:]))
        by_time = None
        if request.time is not None:
            by_time = _offset_at(log.of(*owned.key[1:]), request.time)
        to_offset = target_of(request, owned.committed, bounds, by_time)
        moves.append((owned, to_offset))
        answer.partitions.append(
            SeekMove(
                topic=owned.topic,
                partition=owned.key.partition,
                from_offset=owned.committed,
                to_offset=to_offset,
            )
        )
    if not request.dry_run:
        groups.by_name[name] = group
        for owned, to_offset in moves:
            group.owned[owned.key] = owned
            owned.generation += 1
            owned.committed = to_offset
            if group.is_queue:
                groups.open_queue(group, owned, to_offset)
    return answer


def _chosen(
    topics: Topics, groups: Groups, group: Group, request: SeekRequest
) -> list[ModelPartition]:
    known = {key.topic_id for key in group.owned}
    some = topics_of(group.name, request, known, topics.list(), topics.get)
    return [
        groups.look_at(group, Key(group.name, where.topic_id, where.partition))
        for where in chosen_of(some, request.partition)
    ]


def _offset_at(rows: Sequence[Stored], time: int) -> int:
    """The first offset whose time is not before `time`; the end if there is none."""
    found = (i for i, row in enumerate(rows) if row.record.timestamp >= time)
    return next(found, len(rows))


def purge(
    topics: Topics, groups: Groups, log: Log, name: str, request: PurgeRequest
) -> PurgeAnswer:
    """What is there now counts as settled. `UnknownGroup`, `UnknownTopic`, `InvalidRequest`."""
    group = groups.get(name)
    if not group.is_queue:
        raise InvalidRequest(
            f"group {name!r} is a stream group", hint="seek it to latest", field="group"
        )
    if request.topics is None:
        chosen = [owned for _, owned in groups.partitions(group)]
    else:
        named = [topics.get(topic) for topic in request.topics]
        chosen = [
            groups.hold(group, Key(name, topic.topic_id, Partition(number)))
            for topic in named
            for number in range(topic.partitions)
        ]
    answer = PurgeAnswer(partitions=[])
    for owned in sorted(chosen, key=lambda one: one.key):
        owned.generation += 1
        owned.committed = owned.start = end = log.end(*owned.key[1:])
        groups.open_queue(group, owned, end)
        answer.partitions.append(
            Purged(topic=owned.topic, partition=owned.key.partition, offset=end)
        )
    return answer


# -- without a group ------------------------------------------------------------------------------


def page(log: Log, topic: Topic, query: BrowseQuery) -> BrowseAnswer:
    """What `BrowseQuery` asks for."""
    key = None if query.key is None else query.key.encode()
    partition = query.partition
    if partition is None:
        partition = partition_of(key or b"", topic.partitions, topic.partitioner)
    rows = _rows(log, topic, partition)
    at = query.offset or 0
    if query.time is not None:
        at = _offset_at(rows, query.time)
    found: list[Stored] = []
    while at < len(rows) and len(found) < query.max:
        if key is None or rows[at].record.key == key:
            found.append(rows[at])
        at += 1
    return BrowseAnswer(
        partition=partition,
        records=[plain(row) for row in found],
        next_offset=at,
        start_offset=0,
        end_offset=len(rows),
    )


def record(log: Log, topic: Topic, partition: int, offset: int) -> dict[str, Any]:
    """One record. Raises `InvalidRequest`, `OffsetOutOfRange`."""
    rows = _rows(log, topic, partition)
    if not 0 <= offset < len(rows):
        raise OffsetOutOfRange(
            f"partition {partition} of {topic.topic} has the offsets 0 to {len(rows) - 1}, "
            f"not {offset}",
            hint="read what is there with GET /v1/topics/{topic}/records",
            first_offset=0,
            end_offset=len(rows),
        )
    return plain(rows[offset])


def plain(row: Stored) -> dict[str, Any]:
    """A record as it is by itself."""
    said = record_to_json(row.record, "")
    return {name: value for name, value in said.items() if name not in {"receipt", "attempt"}}


def _rows(log: Log, topic: Topic, partition: int) -> Sequence[Stored]:
    where = topic.place(partition)
    return log.of(where.topic_id, where.partition)
