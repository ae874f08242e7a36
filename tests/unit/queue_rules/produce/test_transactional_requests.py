"""Producer epochs and `consumed`, judged against a model that goes request by request."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from jobs.ordering.numbering import (
    order,
)
from jobs.rows.projected_rows import ProjectedBatch
from jobs.rows.transactional_rows import transactional_requests_of, transactional_text
from lakequeue.errors import CorruptTable
from lakequeue.records import Offset, TopicPartition
from queue_tables.schema.marks import (
    NO_TOPIC,
    consumed_mark,
    generation_mark,
    producer_mark,
    sequence_mark,
)
from queue_tables.schema.reasons import Fate, Reason, with_fate
from tests.unit.jobs.ordering.test_numbering import TOPICS, Row, fresh_index, projected, row

_REFUSALS = set(with_fate(Fate.REFUSED))
Span = tuple[int, int]


@dataclass
class Sent:
    """A request: one row a partition in `partitions`; none: it carries marks alone."""

    shard: str
    stamp: int
    first_row: int
    partitions: list[int]
    producer: str | None = None
    epoch: int | None = None
    sequence: int | None = None
    consumed: Span | None = None
    generation: int = 0
    topic_id: str = "t1"

    def rows(self) -> list[Row]:
        """As the source yields them."""
        said = None
        if self.epoch is not None or self.consumed is not None:
            said = transactional_text(
                max(1, len(self.partitions)),
                self.producer,
                self.epoch,
                None if self.sequence is None else self.sequence + len(self.partitions) - 1,
                None if self.consumed is None else self._consumed(),
            )
        atomic = f"{self.shard}.{self.stamp}.{self.first_row}" if self.consumed else None
        topic_id = self.topic_id if self.partitions else NO_TOPIC
        return [
            row(
                self.shard,
                self.stamp,
                self.first_row + i,
                partition=partition,
                topic_id=topic_id,
                request=atomic,
                judged=said if i == 0 else None,
            )
            for i, partition in enumerate(self.partitions or [0])
        ]

    def _consumed(self) -> str:
        assert self.consumed is not None
        return (
            '{"group":"g","topic_id":"in","partition":0,'
            f'"from_offset":{self.consumed[0]},"next_offset":{self.consumed[1]},'
            f'"generation":{self.generation},"epoch":7}}'
        )


@dataclass
class Queue:
    """Orders batches with the code under test."""

    marks: dict[str, int] = field(default_factory=dict)
    next: dict[TopicPartition, Offset] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._index = fresh_index()

    def take(self, requests: list[Sent], shuffle: random.Random | None = None) -> list[list[str]]:
        """For each request what became of its rows: "ok", or a reason."""
        rows = [r for request in requests for r in request.rows()]
        if shuffle is not None:
            shuffle.shuffle(rows)
        batch = ProjectedBatch.of(projected(rows))
        found = order(batch, self._index, self.next, TOPICS, self.marks)
        self.next |= found.next_offsets
        self.marks |= found.marks
        columns = (batch.table[c].to_pylist() for c in ("shard", "stamp", "row"))
        at = list(zip(*columns, strict=True))
        fate = {at[i]: "ok" for i in found.survivors}
        fate |= {at[i]: r for i, r in zip(found.refused, found.reasons, strict=True)}
        assert len(fate) == len(rows)
        return [[fate[r["shard"], r["stamp"], r["row"]] for r in q.rows()] for q in requests]


class Model:
    """The rules, request by request, in words."""

    def __init__(self) -> None:
        self.epochs: dict[str, int] = {}
        self.consumed: dict[int, int] = {}
        self.sequences: dict[str, int] = {}

    def take(self, requests: list[Sent]) -> dict[int, list[str]]:
        """What becomes of the rows of each request, by id of the request."""
        fate: dict[int, list[str]] = {}
        for q in sorted(requests, key=lambda q: (q.stamp, q.shard, q.first_row)):
            fate[id(q)] = rows = self._rows(q)
            if q.consumed is not None and len(rows) > 1 and set(rows) & _REFUSALS:
                fate[id(q)] = rows = [Reason.REQUEST_REFUSED if r == "ok" else r for r in rows]
            if q.consumed is not None and not set(rows) & _REFUSALS:
                at = self.consumed.get(q.generation)
                current = q.generation >= max(self.consumed, default=0)
                if current and (at is None or at == q.consumed[0]):
                    self.consumed[q.generation] = q.consumed[1]
                else:
                    fate[id(q)] = rows = [Reason.CONSUMED_OVERLAP] * len(rows)
            if q.producer and q.sequence is not None and "ok" in rows:
                end = q.sequence + len(rows)
                self.sequences[q.producer] = max(end, self.sequences.get(q.producer, 0))
        return fate

    def _rows(self, q: Sent) -> list[str]:
        if q.producer is not None and q.epoch is not None:
            newest = self.epochs.get(q.producer)
            begins = not q.partitions and q.consumed is None
            if newest is not None and (q.epoch < newest or (begins and q.epoch == newest)):
                return [Reason.PRODUCER_FENCED] * max(1, len(q.partitions))
            self.epochs[q.producer] = q.epoch
        if not q.partitions:
            return [Reason.NO_RECORD]
        return ["ok" if p < 3 else Reason.PARTITION_GONE for p in q.partitions]


def _random_request(rng: random.Random, shard: str, stamp: int, first_row: int) -> Sent:
    partitions = [rng.choice([0, 1, 2, 2, 99]) for _ in range(rng.randint(0, 4))]
    producer = rng.choice([None, "p", "q"])
    consumed = None
    if rng.random() < 0.4:
        start = rng.randint(0, 6)
        consumed = (start, start + rng.randint(1, 3))
    if not partitions and producer is None and consumed is None:
        partitions = [0]
    return Sent(
        shard,
        stamp,
        first_row,
        partitions,
        producer,
        None if producer is None else rng.randint(1, 4),
        rng.choice([None, rng.randint(0, 50)]) if producer else None,
        consumed,
        rng.choice([0, 0, 0, 1]),
    )


@pytest.mark.parametrize("seed", range(60))
def test_random_requests_come_out_as_the_model_says(seed: int) -> None:
    rng = random.Random(seed)
    queue, model = Queue(), Model()
    stamp = 1_000
    for _ in range(6):
        requests: list[Sent] = []
        for _ in range(rng.randint(1, 8)):
            stamp += 1
            shard, first_row = rng.choice("abc"), 0
            for _ in range(rng.randint(1, 3)):  # a group of several requests
                requests.append(_random_request(rng, shard, stamp, first_row))
                first_row += max(1, len(requests[-1].partitions))
        expected = model.take(requests)
        assert queue.take(requests, rng) == [expected[id(q)] for q in requests]
        names = {producer_mark(p): e for p, e in model.epochs.items()}
        names |= {consumed_mark("g", "in", 0, g): o for g, o in model.consumed.items()}
        if newest := max(model.consumed, default=0):
            names[generation_mark("g", "in", 0)] = newest
        names |= {sequence_mark("t1", p): s for p, s in model.sequences.items()}
        assert queue.marks == names


@pytest.mark.parametrize("seed", range(20))
def test_how_requests_fall_into_batches_changes_no_verdict(seed: int) -> None:
    """A leader that dies is followed by one that cuts elsewhere, over the marks of what landed."""
    rng = random.Random(seed)
    requests = [_random_request(rng, "a", n, 0) for n in range(1, 25)]
    whole = Queue()
    expected = whole.take(requests)
    pieces = Queue()
    found: list[list[str]] = []
    at = 0
    while at < len(requests):
        count = rng.randint(1, 6)
        found += pieces.take(requests[at : at + count])
        at += count
    assert found == expected
    assert (pieces.marks, pieces.next) == (whole.marks, whole.next)


def test_a_zombie_is_refused_from_the_new_epoch_on_and_not_before() -> None:
    old = {"producer": "p", "epoch": 1}
    requests = [
        Sent("a", 1, 0, [0], **old),  # type: ignore[arg-type]
        Sent("b", 2, 0, [], "p", 2),
        Sent("a", 3, 0, [0, 1], **old),  # type: ignore[arg-type]
        Sent("b", 4, 0, [0], "p", 2),
        Sent("c", 5, 0, [0], "other", 1),
    ]
    assert Queue().take(requests) == [
        ["ok"],
        [Reason.NO_RECORD],
        [Reason.PRODUCER_FENCED] * 2,
        ["ok"],
        ["ok"],
    ]


def test_of_two_that_take_the_same_epoch_the_first_has_it() -> None:
    requests = [Sent("a", 1, 0, [], "p", 5), Sent("b", 1, 0, [], "p", 5), Sent("b", 2, 0, [0])]
    assert Queue().take(requests) == [[Reason.NO_RECORD], [Reason.PRODUCER_FENCED], ["ok"]]


def test_of_two_consumers_of_the_same_records_one_counts_whole() -> None:
    requests = [
        Sent("a", 1, 0, [0, 1], consumed=(10, 20)),
        Sent("b", 2, 0, [0, 1, 2], consumed=(10, 20)),
        Sent("b", 3, 0, [0], consumed=(15, 30)),
        Sent("a", 4, 0, [], consumed=(20, 25)),
        Sent("a", 5, 0, [0], consumed=(25, 26)),
    ]
    queue = Queue()
    assert queue.take(requests) == [
        ["ok"] * 2,
        [Reason.CONSUMED_OVERLAP] * 3,
        [Reason.CONSUMED_OVERLAP],
        [Reason.NO_RECORD],
        ["ok"],
    ]
    assert queue.marks == {consumed_mark("g", "in", 0, 0): 26}


def test_a_refused_row_refuses_the_transform_and_moves_nothing() -> None:
    queue = Queue()
    assert queue.take([Sent("a", 1, 0, [0, 99], consumed=(0, 5))]) == [
        [Reason.REQUEST_REFUSED, Reason.PARTITION_GONE]
    ]
    assert queue.take([Sent("a", 2, 0, [0, 1], consumed=(0, 5))]) == [["ok", "ok"]]


def test_after_a_seek_transforms_begin_anew() -> None:
    queue = Queue({consumed_mark("g", "in", 0, 0): 100})
    requests = [
        Sent("a", 1, 0, [0], consumed=(3, 4)),
        Sent("a", 2, 0, [0], consumed=(3, 4), generation=1),
        Sent("a", 3, 0, [0], consumed=(3, 4), generation=1),
    ]
    assert queue.take(requests) == [[Reason.CONSUMED_OVERLAP], ["ok"], [Reason.CONSUMED_OVERLAP]]


def test_a_zombie_of_before_a_seek_adds_nothing_to_what_came_after_it() -> None:
    queue = Queue({consumed_mark("g", "in", 0, 0): 10})
    assert queue.take([Sent("a", 1, 0, [0], consumed=(0, 5), generation=1)]) == [["ok"]]
    requests = [
        Sent("b", 2, 0, [0], consumed=(10, 20)),
        Sent("a", 3, 0, [0], consumed=(5, 20), generation=1),
    ]
    assert queue.take(requests) == [[Reason.CONSUMED_OVERLAP], ["ok"]]


def test_a_request_whose_rows_are_torn_apart_is_reported() -> None:
    said: list[Any] = [
        transactional_text(2, "p", 1, None, None),
        transactional_text(1, "p", 1, None, None),
    ]
    for column in (said, [said[0]]):
        with pytest.raises(CorruptTable):
            transactional_requests_of(
                pa.chunked_array([pa.array(column, pa.string())]), lambda _: "t1"
            )
