"""Files and logs of shards that cannot be read: they wait or are put aside, the rest goes on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.ordering.order_job import OrderJob
from lakequeue.clock import hour_of
from lakequeue.records import Epoch
from lakequeue.settings import OrderSettings
from lakequeue.steps import Step
from queue_tables.files.parquet import write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX
from tests.support.data.foreign_shard import ForeignShard, records
from tests.support.data.order_truth import log_rows, reject_rows
from tests.support.data.topic_values import new_topic
from tests.support.runs.order_process import Orderer

BASE = 1_700_000_000_000_000


@pytest.mark.parametrize("before", [[], [b"before"]], ids=["first", "later"])
def test_a_planned_file_that_is_gone_holds_up_no_other_shard(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch, before: list[bytes]
) -> None:
    topic_id = new_topic(root)
    shard, other = ForeignShard(root), ForeignShard(root, "other")
    if before:
        shard.commit(BASE, records(topic_id, BASE, before))
    copies = records(topic_id, BASE + 1, [b"gone"] * 2, message_id="m")
    path = shard.file_of(shard.commit(BASE + 1, copies))

    def die(step: Step) -> None:
        if step is Step.ORDER_REJECTS_COMMITTED:
            raise SystemExit(9)

    with monkeypatch.context() as dying:
        dying.setattr("jobs.ordering.order_batch.reach", die)
        with pytest.raises(SystemExit):
            Orderer(root, 1).drain()
    kept = bytes(root.store.get(path))
    root.store.delete(path)
    other.commit(BASE + 2, records(topic_id, BASE + 2, [b"other"]))
    orderer = Orderer(root, 2)
    orderer.drain()
    assert [r["value"] for r in log_rows(root)] == [*before, b"other"]
    root.store.put(path, kept)
    assert orderer.term.unblock()
    orderer.tell()
    orderer.drain()
    assert [r["value"] for r in log_rows(root)] == [*before, b"other", b"gone"]


def damage(root: QueueRoot, path: str, how: str) -> bytes:
    """Do that to a file of the root; what it holds then."""
    data = bytes(root.store.get(path))
    if how == "emptied":
        data = b""
    elif how == "torn":
        data = data[: len(data) // 2]
    elif how == "name":
        # Of a column, in the footer, which has no checksum: it is no UTF-8 any more.
        at = data.find(b"value_format", -8 - int.from_bytes(data[-8:-4], "little"))
        data = data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :]
    elif how == "page":
        # The last byte of the page of values: its checksum tells. Narrow columns stay whole.
        group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
        column = next(
            group.column(n)
            for n in range(group.num_columns)
            if group.column(n).path_in_schema == "value"
        )
        at = column.data_page_offset + column.total_compressed_size - 1
        data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    root.store.delete(path)
    root.store.put(path, data)
    return data


@pytest.mark.parametrize("whole", [True, False], ids=["driver", "tasks"])
@pytest.mark.parametrize("how", ["emptied", "torn", "name", "page"])
def test_a_file_that_cannot_be_read_is_put_aside_as_its_bytes(
    root: QueueRoot, how: str, whole: bool
) -> None:
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    shard.commit(BASE, records(topic_id, BASE, [b"good-%d" % n for n in range(3)]))
    add = shard.commit(BASE + 1, records(topic_id, BASE + 1, [b"good-%d" % n for n in range(3)]))
    shard.commit(BASE + 2, records(topic_id, BASE + 2, [b"good-%d" % n for n in range(3)]))
    data = damage(root, shard.file_of(add), how)
    Orderer(root, 1, whole=whole).drain()
    assert [r["stamp"] for r in log_rows(root)] == [BASE] * 3 + [BASE + 2] * 3
    rejects = reject_rows(root)
    assert [(r["stamp"], r["row"], r["reason"]) for r in rejects] == [
        (BASE + 1, row, "unreadable") for row in range(3)
    ]
    assert [r["value"] for r in rejects] == [data, None, None]


CLAIMS = ["x", "-7", "null", "true", "2.5", "[3]", "9" * 30, "1e400", '"3"', "{", "1000000000000"]
"""Of how many records a file has, by who wrote the commit."""


@pytest.mark.parametrize("how", ["emptied", "page"])
def test_how_many_records_it_had_is_believed_only_within_reason(root: QueueRoot, how: str) -> None:
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    for n, said in enumerate(CLAIMS):
        rows = records(topic_id, BASE + n, [b"0", b"1", b"2"]).drop_columns(["hour"])
        hour = {"hour": hour_of(BASE + n)}
        file = write_data_file(root.store, shard.path, rows, hour, INBOX)
        lying = replace(file, size=500, stats=f'{{"numRecords":{said}}}')
        damage(root, shard.file_of(shard.commit_file(BASE + n, lying, 3)), how)
    shard.commit(BASE + 99, records(topic_id, BASE + 99, [b"good"]))
    Orderer(root, 1).drain()
    assert [r["stamp"] for r in log_rows(root)] == [BASE + 99]
    # Of an emptied one only the commit tells, of the other its own footer.
    told = [1] * 10 + [500] if how == "emptied" else [3] * 11
    counted = Counter(r["stamp"] for r in reject_rows(root))
    assert [counted[BASE + n] for n in range(len(CLAIMS))] == told


def test_a_shard_whose_file_is_gone_waits_and_all_others_go_on(root: QueueRoot) -> None:
    topic_id = new_topic(root)
    shard, other = ForeignShard(root), ForeignShard(root, "other")
    shard.commit(BASE, records(topic_id, BASE, [b"a"]))
    add = shard.commit(BASE + 1, records(topic_id, BASE + 1, [b"gone"]))
    shard.commit(BASE + 2, records(topic_id, BASE + 2, [b"b"]))
    path = shard.file_of(add)
    kept = bytes(root.store.get(path))
    root.store.delete(path)
    other.commit(BASE + 3, records(topic_id, BASE + 3, [b"c"]))
    orderer = Orderer(root, 1)
    before = orderer.term.blocked
    orderer.drain()
    assert orderer.term.blocked != before, "whoever compares sees that there is news"
    assert [r["value"] for r in log_rows(root)] == [b"a", b"c"]
    assert orderer.term.blocked[shard.name].path == path

    for n in range(4, 8):
        shard.commit(BASE + n, records(topic_id, BASE + n, [b"d%d" % n]))
        other.commit(BASE + n, records(topic_id, BASE + n, [b"e%d" % n]))
        orderer.drain()
    assert [r["value"] for r in log_rows(root)][2:] == [b"e%d" % n for n in range(4, 8)]
    assert not orderer.term.unblock()

    root.store.put(path, kept)
    assert orderer.term.unblock()
    orderer.tell()
    orderer.drain()
    in_order = [r["value"] for r in log_rows(root)][6:]
    assert in_order == [b"gone", b"b", *(b"d%d" % n for n in range(4, 8))]
    assert not orderer.term.blocked
    assert not reject_rows(root)


def test_a_file_that_was_gone_for_an_instant_is_not_passed_over(root: QueueRoot) -> None:
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    shard.commit(BASE, records(topic_id, BASE, [b"a"]))
    path = shard.file_of(shard.commit(BASE + 1, records(topic_id, BASE + 1, [b"gone"])))
    kept = bytes(root.store.get(path))
    root.store.delete(path)
    source = Orderer(root, 1)
    job = OrderJob(root, OrderSettings(), None)
    job.warm()
    job.begin(Epoch(2))
    no_spark: Any = None

    def run(*, back: bool = False) -> None:
        source.scanner.begin(job.state())
        parts: list[Any] = [partial(source.read, piece) for piece in source.cut()]
        ready = job.prepare(no_spark, parts)
        if back:
            # Between the writing and the commit of a batch that has to leave it out.
            root.store.put(path, kept)
            assert job.upkeep(None)
        ready()

    run(back=True)
    shard.commit(BASE + 2, records(topic_id, BASE + 2, [b"b"]))
    for _ in range(3):
        run()
    assert [r["value"] for r in log_rows(root)] == [b"a", b"gone", b"b"]


def test_a_leader_that_begins_meets_the_same_gap(root: QueueRoot) -> None:
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    add = shard.commit(BASE, records(topic_id, BASE, [b"gone"]))
    shard.commit(BASE + 1, records(topic_id, BASE + 1, [b"b"]))
    root.store.delete(shard.file_of(add))
    Orderer(root, 1).drain()
    again = Orderer(root, 2)
    again.drain()
    assert not log_rows(root)
    # Given up: an empty file in its place is put aside, and what comes after is ordered.
    root.store.put(shard.file_of(add), b"")
    assert again.term.unblock()
    again.tell()
    again.drain()
    assert [r["value"] for r in log_rows(root)] == [b"b"]
    assert [r["reason"] for r in reject_rows(root)] == ["unreadable"]


def test_a_shard_whose_log_cannot_be_read_is_skipped(root: QueueRoot) -> None:
    topic_id = new_topic(root)
    shard, other = ForeignShard(root), ForeignShard(root, "other")
    shard.commit(BASE, records(topic_id, BASE, [b"a"]))
    bad = f"{shard.path}/_delta_log/{1:020d}.json"
    kept = bytes(root.store.get(bad))
    root.store.delete(bad)
    root.store.put(bad, b'{"commitInfo": {"lakequeue": {"stamp": "x"')
    other.commit(BASE + 1, records(topic_id, BASE + 1, [b"b"]))
    orderer = Orderer(root, 1)
    for _ in range(4):
        orderer.drain()
    assert [r["value"] for r in log_rows(root)] == [b"b"]
    assert shard.name in orderer.scanner.stuck()
    root.store.delete(bad)
    root.store.put(bad, kept)
    orderer.drain()
    assert [r["value"] for r in log_rows(root)] == [b"b", b"a"]
    assert not orderer.scanner.stuck()
    assert np.all([r["offset"] for r in log_rows(root)] == [0, 1])


@pytest.mark.parametrize("how", ["torn", "gone"])
def test_a_planned_shard_whose_log_cannot_be_read_waits_and_all_others_go_on(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    topic_id = new_topic(root)
    shard, other, third = (ForeignShard(root, name) for name in ("node", "other", "third"))
    shard.commit(BASE, records(topic_id, BASE, [b"a"]))
    shard.commit(BASE + 1, records(topic_id, BASE + 1, [b"copy"] * 2, message_id="m"))
    other.commit(BASE + 2, records(topic_id, BASE + 2, [b"copy"] * 2, message_id="n"))

    def die(step: Step) -> None:
        if step is Step.ORDER_REJECTS_COMMITTED:
            raise SystemExit(9)

    with monkeypatch.context() as dying:
        dying.setattr("jobs.ordering.order_batch.reach", die)
        with pytest.raises(SystemExit):
            Orderer(root, 1).drain()
    recorded = reject_rows(root)
    assert len(recorded) == 2
    bad = f"{shard.path}/_delta_log/{2:020d}.json"
    kept = bytes(root.store.get(bad))
    root.store.delete(bad)
    if how == "torn":
        root.store.put(bad, kept[: len(kept) // 2])
    third.commit(BASE + 3, records(topic_id, BASE + 3, [b"third"]))
    # Each leader that begins meets the same.
    for epoch in (2, 3):
        orderer = Orderer(root, epoch)
        for _ in range(4):
            orderer.drain()
        assert [r["value"] for r in log_rows(root)] == [b"copy", b"third"]
        assert shard.name in orderer.scanner.stuck()
    root.store.delete(bad)
    root.store.put(bad, kept)
    orderer.drain()
    assert [r["value"] for r in log_rows(root)] == [b"copy", b"third", b"a", b"copy"]
    assert reject_rows(root) == recorded, "what is recorded is not recorded twice"
    assert not orderer.scanner.stuck()
