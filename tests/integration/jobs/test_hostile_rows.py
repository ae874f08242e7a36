"""Rows that no producer of ours would write, as every job that goes through `log` meets them.

They lie in the log as a foreign writer, or an older release, has left them. Of each column that is
declared there is every value that a reader may trip over: a new column is covered by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from consumer_service.reading.encode import COLUMNS
from consumer_service.reading.segments import Segments
from consumer_service.reading.tailer import Tailer
from jobs.copies.mirror_copy import Mirror, promote
from jobs.erase import Match, erase
from jobs.fork import source_snapshot_of
from jobs.ordering.order_state import OrderState
from lakequeue.clock import Micros, hour_of, wall_micros
from lakequeue.records import Offset, Partition, TopicPartition
from queue_rules.predicates.evaluation import matching
from queue_rules.predicates.expressions import Column, Compare, Op
from queue_rules.predicates.parsing import parse
from queue_tables.delta.actions import Txn
from queue_tables.delta.table import TableLog
from queue_tables.log.reader import LogReader
from queue_tables.log.writer import write_log_file
from queue_tables.root import QueueRoot
from queue_tables.schema.odd_bytes import headers_of
from queue_tables.schema.schemas import LOG
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore
from tests.support.data.foreign_shard import ForeignShard, records
from tests.support.data.hostile_rows import hostile_rows, sound_rows
from tests.support.data.order_truth import reject_rows
from tests.support.data.wall import HOUR
from tests.support.runs.maintenance_process import run_compaction, run_retention
from tests.support.runs.order_process import Orderer

NOW = wall_micros()
THEN = NOW - 5 * HOUR
_PLACES = {"hour", "topic_id", "partition", "offset"}
"""What the order job gives by itself, and readers find rows by: not a record's to say."""
_HEADERS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
_STEP_BYTES = 1 << 40


def hostile_log(root: QueueRoot, name: str = "orders") -> Topic:
    """A topic whose one partition has a sound row, every hostile one, and a sound one behind."""
    topic = TopicStore(root).create(name, partitions=1)[0]
    good = {
        "topic": topic.topic.encode(),
        "topic_id": topic.topic_id.encode(),
        "ordered_at": THEN,
        "stamp": THEN,
        "shard": b"node-1",
        "message_id": b"m",
    }
    rows = [
        sound_rows(LOG, 1, good),
        *(h.row for h in hostile_rows(LOG, good) if h.column not in _PLACES),
        sound_rows(LOG, 1, good),
    ]
    table = pa.concat_tables(rows).combine_chunks().select(LOG.file_arrow.names)
    offsets = pa.array(range(table.num_rows), pa.int64())
    table = table.set_column(table.schema.get_field_index("offset"), "offset", offsets)
    log = TableLog(root.store, LOG.name).open()
    middle = table.num_rows // 2
    for number, part in enumerate((table.slice(0, middle), table.slice(middle)), 1):
        add = write_log_file(root.store, part, hour_of(THEN))
        end = middle if number == 1 else table.num_rows
        log.commit(
            [Txn("order", (1 << 40) | number), Txn(f"offset/{topic.topic_id}/0", end), add],
            {"epoch": 1, "counter": number, "rows": part.num_rows},
        )
    return topic


def raw(root: QueueRoot, topic: Topic, start: int = 0) -> list[dict[str, Any]]:
    """The records of the topic, text as the bytes that are there and times as numbers."""
    reader = LogReader(root)
    return told(reader.read_range(topic.topic_id, Partition(0), Offset(start), 100_000, 1 << 40))


def told(rows: pa.Table) -> list[dict[str, Any]]:
    """Each row, text as the bytes that are there and times as numbers."""
    records: list[dict[str, Any]] = pa.table(
        [_bytes_of(column) for column in rows.columns], names=rows.column_names
    ).to_pylist()
    return records


def _bytes_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_string(column.type):
        return column.cast(pa.binary())
    if pa.types.is_list(column.type):
        return column.cast(_HEADERS)
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def by(predicate: str) -> Match:
    condition = parse(predicate)
    return lambda rows: matching(condition, rows)


def names_of(root: QueueRoot, topic: Topic) -> list[list[str]]:
    """The names of each record's headers."""
    rows = LogReader(root).read_range(topic.topic_id, Partition(0), Offset(0), 100_000, 1 << 40)
    return [[name for name, _ in headers] for headers in headers_of(rows["headers"])]


@pytest.mark.parametrize("memory", [1 << 30, 0], ids=["from memory", "from files"])
def test_the_tailer_hands_all_of_them_on(root: QueueRoot, memory: int) -> None:
    segments, woken = Segments(memory), list[set[TopicPartition]]()
    tailer = Tailer(root, segments, lambda _: bool(memory), woken.append, 60.0)
    tailer.catch_up()
    topic = hostile_log(root)
    tailer.catch_up()
    where = TopicPartition(topic.topic_id, Partition(0))
    expected = [{name: row[name] for name in COLUMNS} for row in raw(root, topic)]
    assert woken == [{where}]
    assert tailer.end(where) == len(expected)
    assert (segments.read(where, 0, 1, 1) is not None) == bool(memory)
    found: list[dict[str, Any]] = []
    while len(found) < len(expected):
        found += told(tailer.read(where, len(found), 50, 1 << 40))
    assert found == expected
    for offset, row in enumerate(expected):
        one = tailer.read_one(where, offset)
        assert one is not None
        assert told(one) == [row]
    passed, at = tailer.read_some(where, 0, 100_000, 1 << 40, lambda _: True)
    assert passed is not None
    assert (told(passed), at) == (expected[: passed.num_rows], passed.num_rows)


def test_compaction_rewrites_them_as_they_are(root: QueueRoot) -> None:
    topic = hostile_log(root)
    before = raw(root, topic)
    report = run_compaction(root, NOW)["log"]
    assert (report["files_before"], report["files_after"]) == (2, 1)
    assert raw(root, topic) == before


def test_retention_takes_what_is_old_and_leaves_the_rest(root: QueueRoot) -> None:
    topic = hostile_log(root)
    before = raw(root, topic)
    run_retention(root, NOW)
    assert raw(root, topic) == before, "nothing is kept for less than for ever"
    TopicStore(root).alter("orders", retention_ms=600_000)
    run_retention(root, NOW)
    first = LogReader(root).first_offset(topic.topic_id, Partition(0))
    # A file whose ids are of a time to come is kept: they may be asked for yet.
    assert 0 < first < len(before)
    assert raw(root, topic, first) == before[first:]


def test_each_of_them_can_be_erased_and_the_others_stay(root: QueueRoot) -> None:
    topic = hostile_log(root)
    before = raw(root, topic)
    count = len(before)
    odd = by(f"partition = 0 AND offset >= 1 AND offset < {count - 1}")
    report = erase(root, "orders", odd, Micros(NOW), dry_run=False, delete_now=True)
    assert report["records"] == count - 2
    assert (report["left"]["records"], report["old_files"]) == (0, [])
    after = raw(root, topic)
    assert (after[0], after[-1]) == (before[0], before[-1])
    assert all(row["key"] is row["value"] is None for row in after[1:-1])
    assert names_of(root, topic)[1:-1] == [["lakequeue-erased"]] * (count - 2)


@pytest.mark.parametrize("key", [b"\xff\xfe", b""])
def test_a_key_that_is_no_text_is_erased_by_its_bytes(root: QueueRoot, key: bytes) -> None:
    topic = hostile_log(root)
    before = raw(root, topic)
    mine = [row["offset"] for row in before if row["key"] == key]
    condition = Compare(Column("key"), Op.EQ, key)
    report = erase(
        root, "orders", lambda rows: matching(condition, rows), Micros(NOW), dry_run=False
    )
    assert report["offsets"] == {"0": mine}
    after = raw(root, topic)
    gone = set(mine)
    kept = [row for row in before if row["offset"] not in gone]
    assert [row for row in after if row["offset"] not in gone] == kept


@pytest.mark.parametrize(
    "predicate",
    [
        "headers['x'] = 'x'",
        "message_id LIKE 'm%'",
        "value LIKE '%x%'",
        "json_value(value, '$.a') = 1",
        "timestamp >= '2020-01-01'",
        "topic = 'orders'",
    ],
)
def test_every_kind_of_predicate_skips_them(root: QueueRoot, predicate: str) -> None:
    topic = hostile_log(root)
    before = raw(root, topic)
    report = erase(root, "orders", by(predicate), Micros(NOW), dry_run=True)
    assert 0 <= report["records"] <= len(before)
    assert raw(root, topic) == before


def test_a_mirror_has_them_as_they_are_also_promoted_and_erased(
    root: QueueRoot, tmp_path: Path
) -> None:
    topic = hostile_log(root)
    before = raw(root, topic)
    replica = QueueRoot.replica(str(tmp_path / "replica"), root)
    Mirror(root, replica, _STEP_BYTES).run()
    assert raw(replica, topic) == before
    erase(root, "orders", by("offset = 3"), Micros(NOW), dry_run=False)
    run_compaction(root, NOW)
    Mirror(root, replica, _STEP_BYTES).run()
    assert raw(replica, topic) == raw(root, topic)
    promote(replica, root.queue_id)
    promoted = QueueRoot.existing(str(tmp_path / "replica"))
    erase(promoted, "orders", by("offset >= 5"), Micros(NOW), dry_run=False)
    assert raw(promoted, topic)[:5] == raw(root, topic)[:5]


def test_a_fork_as_of_an_instant_among_them_has_what_was_there(
    root: QueueRoot, tmp_path: Path
) -> None:
    topic = hostile_log(root)
    before = raw(root, topic)
    copy = QueueRoot.replica(str(tmp_path / "fork"), root)
    at = Micros((wall_micros() // 1_000 + 10_000) * 1_000)
    cut, _ = source_snapshot_of(root, at, older_groups=False, skew_ms=0)
    Mirror(root, copy, _STEP_BYTES, lambda _: cut).run()
    promote(copy, root.queue_id)
    assert raw(QueueRoot.existing(str(tmp_path / "fork")), topic) == before


def test_the_order_job_goes_on_over_them_and_knows_the_ids_that_are_sound(root: QueueRoot) -> None:
    TopicStore(root).create("other", partitions=1)
    standby = OrderState(root, 10**6)
    standby.warm()
    topic = hostile_log(root)
    assert standby.catch_up()
    topic = TopicStore(root).alter(topic.topic, dedup_window_ms=24 * HOUR // 1_000)
    orderer = Orderer(root, 2)
    rows = pa.concat_tables(
        records(topic.topic_id, NOW, [value] * 2, message_id=message_id).slice(row, 1)
        for row, (value, message_id) in enumerate([(b"copy", b"m"), (b"new", b"n")])
    )
    ForeignShard(root).commit(NOW, rows)
    before = len(raw(root, topic))
    orderer.drain()
    after = raw(root, topic)
    assert [row["value"] for row in after[before:]] == [b"new"]
    assert [(row["value"], row["reason"]) for row in reject_rows(root)] == [(b"copy", "duplicate")]
