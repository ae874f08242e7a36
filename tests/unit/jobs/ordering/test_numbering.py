"""Numbering, judged against a naive model that goes row by row."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from jobs.ordering.id_index import IdIndex, Ids
from jobs.ordering.numbering import (
    TopicRule,
    order,
)
from jobs.rows.id_hash import hash_ids
from jobs.rows.projected_rows import PROJECTED, SENT, ProjectedBatch, above, unfold
from lakequeue.errors import CorruptTable
from lakequeue.records import Offset, ShardName, Stamp, TopicId, TopicPartition
from queue_tables.schema.reasons import Reason

WINDOW_US = 1_000_000
TOPICS = {
    TopicId("t1"): TopicRule("orders", 3, WINDOW_US),
    TopicId("t2"): TopicRule("flights", 1, WINDOW_US),
}
Row = dict[str, Any]


def row(shard: str, stamp: int, number: int, **other: Any) -> Row:
    """A record in an inbox shard."""
    base = {"topic_id": "t1", "partition": 0, "message_id": None, "request": None}
    return {"shard": shard, "stamp": stamp, "row": number, **base, **other}


def projected(rows: Iterable[Row]) -> pa.Table:
    """As the source yields them."""
    rows = list(rows)
    ids = pa.array([r["message_id"] for r in rows], pa.string())
    hi, lo = hash_ids(ids)
    missing = np.array([r["message_id"] is None for r in rows], bool)
    columns = {
        "file": pa.array([f"inbox/{r['shard']}/{r['stamp']}" for r in rows], pa.string()),
        "id_hi": pa.array(hi.view(np.int64), mask=missing),
        "id_lo": pa.array(lo.view(np.int64), mask=missing),
        "bytes": pa.array([1] * len(rows), pa.int32()),
    }
    for name in PROJECTED.names:
        if name not in columns:
            columns[name] = pa.array([r.get(name) for r in rows], PROJECTED.field(name).type)
    return pa.table(columns).select(PROJECTED.names).cast(PROJECTED)


def fresh_index(max_ids: int = 10**9) -> IdIndex:
    return IdIndex(lambda _topic, _from, _below: [], max_ids)


class Queue:
    """Orders batch after batch with the code under test, and with the model beside it."""

    def __init__(self) -> None:
        self.index = fresh_index()
        self.next: dict[TopicPartition, Offset] = {}
        self.known: dict[tuple[str, str], tuple[int, int]] = {}

    def take(self, rows: list[Row]) -> dict[tuple[str, int, int], tuple[Any, ...]]:
        """The verdict on each row, after asserting that the model gives the same."""
        expected = self._model(rows)
        batch = ProjectedBatch.of(projected(rows))
        found = order(batch, self.index, self.next, TOPICS)
        self.next |= found.next_offsets
        for topic_id, ids in found.new_ids.items():
            self.index.add(topic_id, ids)
        at = list(
            zip(*(batch.table[c].to_pylist() for c in ("shard", "stamp", "row")), strict=True)
        )
        verdict: dict[tuple[str, int, int], tuple[Any, ...]] = {}
        for place, offset in zip(found.survivors, found.offsets, strict=True):
            verdict[at[place]] = ("ok", int(offset))
        for place, p, o in zip(
            found.duplicates, found.original_partition, found.original_offset, strict=True
        ):
            verdict[at[place]] = (Reason.DUPLICATE, int(p), int(o))
        for place, reason in zip(found.refused, found.reasons, strict=True):
            verdict[at[place]] = (reason,)
        assert verdict == expected
        newest = {s: max(r["stamp"] for r in rows if r["shard"] == s) for s in batch.shards}
        assert found.watermarks == newest
        return verdict

    def _model(self, rows: list[Row]) -> dict[tuple[str, int, int], tuple[Any, ...]]:
        rows = sorted(rows, key=lambda r: (r["stamp"], r["shard"], r["row"]))
        reasons = {}
        for r in rows:
            key = (r["shard"], r["stamp"], r["row"])
            rule = TOPICS.get(r["topic_id"])
            if rule is None:
                reasons[key] = Reason.TOPIC_GONE
            elif not 0 <= r["partition"] < rule.partitions:
                reasons[key] = Reason.PARTITION_GONE
        refused = {
            (r["shard"], r["request"])
            for r in rows
            if r["request"] and (r["shard"], r["stamp"], r["row"]) in reasons
        }
        verdict: dict[tuple[str, int, int], tuple[Any, ...]] = {}
        nexts = dict(self.next)
        for r in rows:
            key = (r["shard"], r["stamp"], r["row"])
            if key in reasons:
                verdict[key] = (reasons[key],)
                continue
            if (r["shard"], r["request"]) in refused:
                verdict[key] = (Reason.REQUEST_REFUSED,)
                continue
            known = (r["topic_id"], r["message_id"])
            if r["message_id"] and known in self.known:
                verdict[key] = (Reason.DUPLICATE, *self.known[known])
                continue
            place = TopicPartition(r["topic_id"], r["partition"])
            offset = nexts.get(place, Offset(0))
            nexts[place] = Offset(offset + 1)
            verdict[key] = ("ok", offset)
            if r["message_id"]:
                self.known[known] = (r["partition"], offset)
        return verdict


@pytest.mark.parametrize("seed", range(40))
def test_random_batches_come_out_as_the_row_by_row_model_says(seed: int) -> None:
    rng = random.Random(seed)
    queue = Queue()
    stamp = 1_000
    for _ in range(8):
        rows = []
        for _ in range(rng.randint(1, 12)):
            stamp += rng.randint(1, 3)
            shard = rng.choice(["a", "b", "c"])
            request = rng.choice([None, f"r{stamp}"])
            for number in range(rng.randint(1, 6)):
                rows.append(
                    row(
                        shard,
                        stamp,
                        number,
                        topic_id="gone" if rng.random() < 0.05 else rng.choice(["t1", "t2"]),
                        partition=rng.choice([1, 2]) if rng.random() < 0.1 else 0,
                        message_id=rng.choice([None, f"m{rng.randint(0, 30)}"]),
                        request=request,
                    )
                )
        rng.shuffle(rows)
        queue.take(rows)


def test_of_several_copies_the_first_in_cut_order_survives() -> None:
    rows = [
        row("b", 5, 0, message_id="x"),
        row("a", 5, 0, message_id="x"),
        row("a", 4, 1, message_id="x", partition=2),
    ]
    verdict = Queue().take(rows)
    assert verdict["a", 4, 1] == ("ok", 0)
    assert verdict["a", 5, 0] == verdict["b", 5, 0] == (Reason.DUPLICATE, 2, 0)


def test_a_copy_in_a_later_batch_gets_its_originals_offset() -> None:
    queue = Queue()
    queue.take([row("a", n, 0, message_id=f"m{n}") for n in range(1, 9)])
    assert queue.take([row("b", 9, 0, message_id="m3")]) == {("b", 9, 0): (Reason.DUPLICATE, 0, 2)}


def test_the_same_id_in_another_topic_is_no_copy() -> None:
    rows = [row("a", 1, 0, message_id="x"), row("a", 1, 1, message_id="x", topic_id="t2")]
    assert set(Queue().take(rows).values()) == {("ok", 0)}


def test_one_refused_row_refuses_an_atomic_request_and_no_other() -> None:
    rows = [
        row("a", 1, 0, request="r"),
        row("a", 1, 1, request="r", topic_id="gone"),
        row("b", 1, 0, request="r"),
        row("a", 1, 2),
    ]
    assert Queue().take(rows) == {
        ("a", 1, 0): (Reason.REQUEST_REFUSED,),
        ("a", 1, 1): (Reason.TOPIC_GONE,),
        ("b", 1, 0): ("ok", 1),
        ("a", 1, 2): ("ok", 0),
    }


def test_a_refused_row_is_no_original() -> None:
    rows = [
        row("a", 1, 0, request="r", message_id="x"),
        row("a", 1, 1, request="r", partition=99),
        row("a", 2, 0, message_id="x"),
    ]
    assert Queue().take(rows)["a", 2, 0] == ("ok", 0)


def test_ids_that_share_half_of_their_hash_are_told_apart() -> None:
    index = fresh_index()
    hi = np.array([7, 7, 7], np.uint64)
    lo = np.array([1, 2, 3], np.uint64)
    one = np.ones(3, np.int64)
    bounds = {"oldest": Stamp(1), "newest": Stamp(1), "window_us": 10}
    index.find(TopicId("t"), hi, lo, **bounds)  # type: ignore[arg-type]
    index.add(TopicId("t"), Ids(hi, lo, one.astype(np.int32), np.arange(3), one))
    asked = np.array([3, 9, 1], np.uint64)
    found = index.find(TopicId("t"), np.full(3, 7, np.uint64), asked, **bounds)  # type: ignore[arg-type]
    assert found.mask.tolist() == [True, False, True]
    assert found.offset.tolist() == [2, 0, 0]


def test_what_is_left_out_on_the_way_is_filled_in() -> None:
    sent = pa.Table.from_pylist(
        [
            {"file": "inbox/a/f1", "topic_id": "t1", "row": 0, "stamp": 5},
            {"row": 1, "stamp": 5},
            {"topic_id": "t2", "row": 2, "stamp": 5},
            {"file": "inbox/b/f2", "topic_id": "t2", "row": 0, "stamp": 6},
        ],
        schema=SENT,
    )
    rows = unfold(sent)
    assert rows.schema == PROJECTED
    assert rows["shard"].to_pylist() == ["a", "a", "a", "b"]
    assert rows["file"].to_pylist() == ["inbox/a/f1"] * 3 + ["inbox/b/f2"]
    assert rows["topic_id"].to_pylist() == ["t1", "t1", "t2", "t2"]
    assert unfold(sent.slice(0, 0)).num_rows == 0
    for order_of_rows in ([1, 2, 3], [0, 2, 1, 3], [0, 2]):
        with pytest.raises(CorruptTable):
            unfold(sent.take(pa.array(order_of_rows)))


def test_rows_at_or_below_the_watermark_are_dropped() -> None:
    rows = projected([row("a", 5, 0), row("a", 6, 0), row("b", 1, 0)])
    kept = above(rows, {ShardName("a"): Stamp(5)})
    assert kept["stamp"].to_pylist() == [6, 1]


class Log:
    """What `log` holds, for an index to reach back into."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, int]] = []
        self.reads = 0

    def read_older(self, _topic: TopicId, from_: Stamp, below: Stamp) -> Iterator[Ids]:
        self.reads += 1
        rows = [r for r in self.rows if from_ <= r[1] < below]
        for at in range(0, len(rows), 10):
            part = rows[at : at + 10]
            hi, lo = hash_ids(pa.array([r[0] for r in part]))
            offsets = np.array([r[2] for r in part], np.int64)
            stamps = np.array([r[1] for r in part], np.int64)
            yield Ids(hi, lo, np.zeros(len(part), np.int32), offsets, stamps)


def ask(index: IdIndex, message_id: str, stamp: int) -> int | None:
    hi, lo = hash_ids(pa.array([message_id]))
    found = index.find(
        TopicId("t1"), hi, lo, oldest=Stamp(stamp), newest=Stamp(stamp), window_us=WINDOW_US
    )
    return int(found.offset[0]) if found.mask[0] else None


@pytest.mark.parametrize("max_ids", [10**6, 40])
def test_every_id_of_the_window_is_found_whatever_the_bound(max_ids: int) -> None:
    log = Log()
    alarms: list[str] = []
    index = IdIndex(log.read_older, max_ids, alarms.append)
    for n in range(300):
        stamp = (n + 1) * WINDOW_US // 100
        assert ask(index, f"m{n}", stamp) is None
        log.rows.append((f"m{n}", stamp, n))
        hi, lo = hash_ids(pa.array([f"m{n}"]))
        ids = Ids(hi, lo, np.zeros(1, np.int32), np.array([n]), np.array([stamp]))
        index.add(TopicId("t1"), ids)
        assert len(index) <= max_ids
    now = 300 * WINDOW_US // 100
    for n in range(200, 300):
        assert ask(index, f"m{n}", now) == n
    assert bool(alarms) == (max_ids == 40)


def test_a_late_row_reaches_back_into_the_log_once() -> None:
    log = Log()
    log.rows = [(f"m{n}", n * WINDOW_US, n) for n in range(1, 50)]
    index = IdIndex(log.read_older, 10**6)
    assert ask(index, "m48", 49 * WINDOW_US) == 48
    assert ask(index, "m10", 11 * WINDOW_US) == 10
    reads = log.reads
    assert ask(index, "m11", 11 * WINDOW_US) == 11
    assert log.reads == reads


def learn(index: IdIndex, ids: list[tuple[str, int, int]]) -> None:
    """Ids that were ordered together: (message id, stamp, offset) each."""
    hi, lo = hash_ids(pa.array([name for name, _, _ in ids]))
    stamps, offsets = (np.array([i[at] for i in ids], np.int64) for at in (1, 2))
    index.add(TopicId("t1"), Ids(hi, lo, np.zeros(len(ids), np.int32), offsets, stamps))


def test_what_is_found_does_not_hang_on_what_is_still_in_memory() -> None:
    log = Log()
    log.rows = [(f"m{n}", n, n) for n in range(1, 11)]
    old = IdIndex(log.read_older, 10**6)
    assert ask(old, "m3", 10) == 3
    later = 100 * WINDOW_US
    # The run of ten is not merged with that of one, so its ids are kept longer than they have to.
    learn(old, [("new", later, 11)])
    log.rows.append(("new", later, 11))
    new = IdIndex(log.read_older, 10**6)
    for index in (old, new):
        assert ask(index, "m3", later + 1) is None
        assert ask(index, "new", later + 1) == 11


def test_the_original_of_an_id_ordered_again_after_its_window_is_the_first_that_counts() -> None:
    index = fresh_index()
    assert ask(index, "x", 1) is None
    again = 2 * WINDOW_US
    learn(index, [("x", 1, 0), ("other", 2, 1), ("more", 3, 2)])
    learn(index, [("x", again, 3)])
    assert ask(index, "x", again + 1) == 3
    assert ask(index, "x", WINDOW_US) == 0
