"""What the ingest nodes and the order job do, in one step: judge a request, number its records.

Checks and judgements are those of the services; what is written here is the numbering alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lakequeue.clock import HybridClock, WallClock
from lakequeue.partitioner import StickyRoundRobin
from lakequeue.records import Format, Offset, Partition, Record, checked_name
from lakequeue.settings import IngestSettings
from lakequeue.wire import ProduceQuery
from memory_queue.topics import Topics
from queue_rules.produce.answers import answer_of
from queue_rules.produce.arrival import check_whole, fill_in, limits_of, spread
from queue_rules.produce.dead_values import parted
from queue_rules.produce.fencing_checks import (
    check_consumed,
    refuse_if_judged_so,
)
from queue_rules.produce.outcomes import Outcome
from queue_rules.produce.rows import Request, no_record
from queue_rules.produce.transactional_requests import (
    Marks,
    TransactionalRequest,
    judge_consumed,
    judge_epochs,
    move_sequences,
)
from queue_rules.produce.validation import Limits
from queue_rules.queues.attempts import NewRecord
from queue_rules.queues.dead_records import new_dead_letters
from queue_rules.queues.key_order import key_hash
from queue_tables.groups.record_states import NEVER
from queue_tables.schema.marks import NO_TOPIC, offset_mark, producer_mark, sequence_mark
from queue_tables.schema.reasons import BY_CODE
from queue_tables.schema.topic_rules import Topic, refuse_if_closed


@dataclass(frozen=True, slots=True)
class Stored:
    """A record of the log, and when queue groups may have it."""

    record: Record
    deliver_at: int
    """Microseconds; 0: at once."""
    expires_at: int

    def new(self, *, keys: bool) -> NewRecord:
        """What a queue partition has to know of it."""
        key = key_hash(self.record.key) if keys else 0
        return NewRecord(self.record.offset, key, self.deliver_at, self.expires_at)


class Log:
    """The log and its marks. The caller holds the service's lock."""

    def __init__(self, topics: Topics, wall: WallClock) -> None:
        self._topics = topics
        self._wall = wall
        self._stamps = HybridClock(wall)
        self._settings = IngestSettings()
        self.count = 0
        """Records in all topics."""
        self._marks: dict[str, int] = {}
        self._records: dict[tuple[str, int], list[Stored]] = {}
        self._ids: dict[tuple[str, str], tuple[int, int, int]] = {}
        """(topic id, message id) → partition, offset, stamp."""
        self._sticky: dict[str, StickyRoundRobin] = {}

    # -- reading ----------------------------------------------------------------------------------

    def read(self, *names: str) -> Mapping[str, int]:
        """Every mark, whatever is asked for: nothing is copied."""
        return self._marks

    def of(self, topic_id: str, partition: int) -> Sequence[Stored]:
        """The records of a partition: each at the place of its offset."""
        return self._records.get((topic_id, partition), ())

    def end(self, topic_id: str, partition: int) -> int:
        """The offset that its next record will get."""
        return len(self.of(topic_id, partition))

    def limits_of(self, topic: Topic) -> Limits:
        """What a request to this topic may hold."""
        return limits_of(topic, self._settings)

    # -- producing --------------------------------------------------------------------------------

    def produce(
        self,
        parts: Sequence[Request],
        topics: Sequence[Topic],
        numbers: Sequence[int],
        query: ProduceQuery,
    ) -> dict[str, Any]:
        """Order a request, one part for each of its topics; the body of the 200.

        `numbers`: where in the request the records of the parts stood, one part after the other.
        """
        now = self._wall()
        parts, topics, numbers = parted(
            parts, topics, numbers, now, self._letters_of, self.limits_of
        )
        request = parts[0]
        check_whole(
            request,
            sum(part.rows.total_bytes for part in parts),
            now,
            max_ahead_s=self._settings.max_carried_ahead_s,
            max_group_bytes=self._settings.max_group_bytes,
        )
        for part, topic in zip(parts, topics, strict=True):
            refuse_if_closed(topic, now)
            if part.consumed is not None:
                checked_name(part.consumed.group, "group")
                source = self._topics.get(part.consumed.topic)
                check_consumed(part.consumed, source, self)
                part.consumed_topic_id = source.topic_id
            fill_in(part.rows, now, topic.ttl_ms)
            rule = self._sticky.setdefault(part.topic_id, StickyRoundRobin())
            spread(part.rows, rule, topic.partitions)
        stamp, outcomes = self._order(parts, topics)
        if request.judged:
            refuse_if_judged_so(request, outcomes, self)
        waits = query.wait == "ordered" or request.judged
        return answer_of(parts, numbers, stamp, outcomes if waits else None)

    def _letters_of(self, topic: Topic) -> Topic:
        if topic.dead_letters not in self._topics.by_name:
            self._topics.create(topic.dead_letters, new_dead_letters(topic))
        return self._topics.get(topic.dead_letters)

    def begin_epoch(self, producer_id: str) -> dict[str, Any]:
        """Take the next epoch of a producer (`wire.EpochAnswer`). Raises `InvalidName`."""
        checked_name(producer_id, "producer")
        epoch = self._marks.get(producer_mark(producer_id), 0) + 1
        stamp, _ = self._order([Request(NO_TOPIC, no_record(), producer_id, epoch)], [])
        return {
            "producer_id": producer_id,
            "epoch": epoch,
            "next_sequences": {
                topic.topic: self._marks[name]
                for topic in self._topics.list()
                if (name := sequence_mark(topic.topic_id, producer_id)) in self._marks
            },
            "stamp": stamp,
        }

    def _order(
        self, parts: Sequence[Request], topics: Sequence[Topic]
    ) -> tuple[int, list[Outcome]]:
        self._stamps.observe(parts[0].after)
        stamp = self._stamps.next()
        why = self._judge(parts)
        if why:
            partitions = [p for part in parts for p in part.rows.partitions]
            return stamp, [Outcome(p, None, reason=why) for p in partitions]
        if parts[0].bare:
            return stamp, []
        outcomes: list[Outcome] = []
        for part, topic in zip(parts, topics, strict=True):
            outcomes += (self._number(part, i, topic, stamp) for i in range(len(part.rows)))
        return stamp, outcomes

    def _judge(self, parts: Sequence[Request]) -> str:
        """Why the request is refused; "" if it is taken. Moves the marks."""
        request = parts[0]
        if not request.judged:
            return ""
        rows, consumed = sum(len(p.rows) for p in parts), None
        if request.consumed is not None:
            consumed = request.consumed.model_dump() | {"topic_id": request.consumed_topic_id}
        judged = [
            TransactionalRequest(
                0,
                rows,
                request.topic_id,
                request.producer_id,
                request.producer_epoch,
                request.next_sequence,
                consumed,
            )
        ]
        reasons, marks = np.zeros(rows, np.int8), Marks(self._marks)
        judge_epochs(judged, reasons, marks)
        judge_consumed(judged, reasons, marks)
        move_sequences(judged, reasons, marks)
        self._marks |= marks.moved
        return BY_CODE[int(reasons[0])]

    def _number(self, request: Request, row: int, topic: Topic, stamp: int) -> Outcome:
        """Append a record, or find the one that it is a copy of."""
        rows = request.rows
        message_id, partition = rows.message_ids[row], rows.partitions[row]
        if message_id is not None:
            known = self._ids.get((topic.topic_id, message_id))
            if known is not None and stamp - known[2] <= topic.dedup_window_ms * 1_000:
                return Outcome(known[0], known[1], duplicate=True)
        records = self._records.setdefault((topic.topic_id, partition), [])
        offset = len(records)
        due = rows.dues[row] if rows.dues is not None else (None, None)
        record = Record(
            topic.topic,
            Partition(partition),
            Offset(offset),
            rows.keys[row],
            rows.values[row],
            Format(rows.key_formats[row]),
            Format(rows.value_formats[row]),
            tuple(rows.headers[row]) if rows.headers is not None else (),
            rows.timestamps[row],
            self._wall(),
            message_id,
        )
        self.count += 1
        records.append(Stored(record, due[0] or 0, NEVER if due[1] is None else due[1]))
        self._marks[offset_mark(topic.topic_id, partition)] = offset + 1
        if message_id is not None:
            self._ids[topic.topic_id, message_id] = partition, offset, stamp
        return Outcome(partition, offset)
