"""The newest records in memory, and their JSON."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from typing import Any

import orjson
import pyarrow as pa
import pytest

from consumer_service.reading import encode
from consumer_service.reading.encode import COLUMNS, records_of
from consumer_service.reading.runs import prefix_within, runs_of
from consumer_service.reading.segments import Segments
from lakequeue.records import Format, Offset, Partition, Record, TopicId, TopicPartition
from lakequeue.wire import receipt_of, record_to_json
from queue_tables.delta.columns import HEADERS
from queue_tables.schema.schemas import LOG
from tests.support.data.rows import rows_of

WHERE = TopicPartition(TopicId("t"), Partition(0))


def rows(first: int, count: int, partition: int = 0, size: int = 10) -> pa.Table:
    columns = {
        "topic": ["orders"] * count,
        "topic_id": ["t"] * count,
        "partition": [partition] * count,
        "offset": list(range(first, first + count)),
        "value": [b"x" * size] * count,
        "key_format": [0] * count,
        "value_format": [1] * count,
        "timestamp": [5] * count,
    }
    return rows_of(LOG, columns, without=("hour",)).select(COLUMNS)


def append(segments: Segments, some: pa.Table) -> None:
    segments.append(some, runs_of(some))


def read(segments: Segments, offset: int, max_rows: int = 100) -> list[int] | None:
    found = segments.read(WHERE, offset, max_rows, 1 << 20)
    return None if found is None else found["offset"].to_pylist()


def test_a_cursor_in_the_window_is_served_from_memory() -> None:
    segments = Segments(1 << 20)
    append(segments, rows(5, 3))
    append(segments, rows(8, 2))
    assert read(segments, 5) == [5, 6, 7, 8, 9]
    assert read(segments, 7, 2) == [7, 8]
    assert read(segments, 4) is None
    assert read(segments, 10) is None


def test_what_is_at_hand_is_counted_as_far_as_it_matters() -> None:
    segments = Segments(1 << 20)
    append(segments, rows(5, 3))
    append(segments, rows(8, 2, size=100))
    size = segments.bytes
    assert segments.at_hand(WHERE, 5, 1 << 20) == size
    last = segments.at_hand(WHERE, 8, 1 << 20)
    assert last is not None
    assert 200 <= last < size
    assert segments.at_hand(WHERE, 5, 1) == size - last, "it stops behind what is too much"
    assert segments.at_hand(WHERE, 4, 1 << 20) is None
    assert segments.at_hand(WHERE, 10, 1 << 20) is None


def test_what_is_made_with_others_counts_until_it_is_made() -> None:
    segments = Segments(1 << 30)
    append(segments, pa.concat_tables([rows(0, 1), rows(0, 50, partition=1, size=10_000)]))
    size = segments.at_hand(WHERE, 0, 100_000)
    assert size is not None
    assert size > 500_000, "its record is made with those of the other partition"
    assert segments.cut(WHERE, 0, 100, 1 << 20) is not None
    size = segments.at_hand(WHERE, 0, 100_000)
    assert size is not None
    assert size < 1_000


def test_a_hole_starts_the_window_anew() -> None:
    segments = Segments(1 << 20)
    append(segments, rows(0, 3))
    append(segments, rows(9, 2))
    assert read(segments, 0) is None
    assert read(segments, 9) == [9, 10]


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    segments = Segments(3 * rows(0, 10, size=1_000).nbytes)
    for n in range(20):
        append(segments, rows(n * 10, 10, size=1_000))
    assert segments.bytes <= 3 * rows(0, 10, size=1_000).nbytes
    assert read(segments, 0) is None
    assert read(segments, 199) == [199]


def test_rows_are_split_by_partition() -> None:
    both = pa.concat_tables([rows(0, 2, 0), rows(7, 3, 1)])
    one, two = runs_of(both)
    assert (one.where, one.start, one.first, one.length) == (WHERE, 0, 0, 2)
    assert (two.where.partition, two.start, two.first, two.length) == (1, 2, 7, 3)
    assert runs_of(both.slice(0, 0)) == []


def test_a_prefix_is_within_both_bounds_and_never_empty() -> None:
    assert prefix_within(rows(0, 10, size=100), 4, 10_000).num_rows == 4
    assert prefix_within(rows(0, 10, size=100), 10, 350).num_rows == 3
    assert prefix_within(rows(0, 10, size=100), 10, 1).num_rows == 1
    headers = pa.array([[{"key": "h" * 40, "value": b"v" * 50}]] * 10, HEADERS)
    large = rows(0, 10)
    large = large.set_column(large.schema.get_field_index("headers"), "headers", headers)
    assert prefix_within(large, 10, 350).num_rows == 3


def test_records_have_the_shape_of_the_wire() -> None:
    values = [(b"k", 1, b"v", 1), (b"\xff", 0, b'{"a":1}', 2), (None, 0, None, 0)]
    columns = {
        "topic": ["orders"] * 3,
        "topic_id": ["t"] * 3,
        "partition": [0] * 3,
        "offset": [4, 5, 6],
        "key": [v[0] for v in values],
        "key_format": [v[1] for v in values],
        "value": [v[2] for v in values],
        "value_format": [v[3] for v in values],
        "headers": [[{"key": "h", "value": b"x"}], None, []],
        "timestamp": [1, 2, 3],
        "message_id": ["m", None, None],
    }
    table = rows_of(LOG, columns, without=("hour",)).select(COLUMNS)
    expected = [
        record_to_json(
            Record(
                "orders",
                Partition(0),
                Offset(offset),
                key,
                value,
                Format(key_format),
                Format(value_format),
                headers=headers,
                timestamp=timestamp,
                message_id=message_id,
            ),
            receipt_of("t", 0, offset, 8),
        )
        for (key, key_format, value, value_format), offset, headers, timestamp, message_id in zip(
            values,
            (4, 5, 6),
            ((("h", b"x"),), (), ()),
            (1, 2, 3),
            ("m", None, None),
            strict=True,
        )
    ]
    assert orjson.dumps(records_of(table, 8)) == orjson.dumps(expected)


def test_rows_that_do_not_follow_each_other_are_not_held() -> None:
    segments = Segments(1 << 20)
    append(segments, rows(5, 3))
    append(segments, pa.concat_tables([rows(8, 1), rows(10, 1)]))
    assert read(segments, 5) == [5, 6, 7]
    assert read(segments, 8) is None


def cut(segments: Segments, offset: int, max_rows: int = 100, max_bytes: int = 1 << 20) -> Any:
    found = segments.cut(WHERE, offset, max_rows, max_bytes)
    if found is None:
        return None
    assert found.following == offset + len(found.records)
    return [record["offset"] for record in found.records]


def test_records_are_made_once_and_cut_within_both_bounds() -> None:
    segments = Segments(1 << 20)
    append(segments, rows(5, 3, size=100))
    append(segments, rows(8, 4, size=100))
    assert cut(segments, 5) == list(range(5, 12))
    assert cut(segments, 6, max_rows=4) == [6, 7, 8, 9]
    assert cut(segments, 6, max_bytes=350) == [6, 7, 8]
    assert cut(segments, 6, max_bytes=1) == [6]
    assert cut(segments, 4) is None
    assert cut(segments, 12) is None
    (first,) = segments.cut(WHERE, 6, 1, 1).records  # type: ignore[union-attr]
    (again,) = segments.cut(WHERE, 6, 1, 1).records  # type: ignore[union-attr]
    assert first is again


def test_a_cut_ends_before_records_that_have_to_be_looked_at() -> None:
    segments = Segments(1 << 20)
    append(segments, rows(0, 2))
    later = rows(2, 2)
    at = COLUMNS.index("expires_at")
    until = pa.array([None, 1], later.schema.field("expires_at").type)
    append(segments, later.set_column(at, later.schema.field("expires_at"), until))
    assert cut(segments, 0) == [0, 1]
    assert cut(segments, 2) is None


def test_the_records_made_are_bounded_too() -> None:
    size = rows(0, 10, size=1_000).nbytes
    segments = Segments(12 * size)
    for n in range(10):
        append(segments, rows(n * 10, 10, size=1_000))
    (first,) = segments.cut(WHERE, 0, 1, 1).records  # type: ignore[union-attr]
    assert cut(segments, 0) == list(range(100))
    (again,) = segments.cut(WHERE, 0, 1, 1).records  # type: ignore[union-attr]
    assert first == again
    assert first is not again  # what was made first had to go


def test_readers_beside_a_writer_that_drops_the_oldest_get_every_record_in_order() -> None:
    """Without a lock for readers: whoever is inside the window finds all of it, without a hole."""
    segments = Segments(40 * rows(0, 1).nbytes)
    last = 20_000
    failed: list[str] = []
    written = [0]
    """The first offset of the newest segment."""
    reading = threading.Barrier(3)

    def reader() -> None:
        reading.wait()
        at = 0
        while at < last:
            found = cut(segments, at, 7)
            if found is None:
                at = max(at, written[0])  # it has fallen out of the window
                continue
            if found != list(range(at, at + len(found))):
                failed.append(f"at {at}: {found}")
                return
            at += len(found)

    threads = [threading.Thread(target=reader) for _ in range(2)]
    for thread in threads:
        thread.start()
    reading.wait()
    for first in range(0, last, 10):
        append(segments, rows(first, 10))
        written[0] = first
    for thread in threads:
        thread.join()
    assert failed == []


def test_what_is_made_takes_no_more_memory_than_its_share() -> None:
    """Small records take several times the memory of their columns."""
    segments = Segments(16 << 20)
    for first in range(0, 50_000, 500):
        append(segments, rows(first, 500))
    tracemalloc.start()
    for first in range(0, 50_000, 500):
        assert cut(segments, first, 1) == [first]
    took, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert took < 4 << 20


def test_those_that_make_the_same_records_at_once_have_them_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was made last stays, however many were at it: else nobody would find it again."""
    segments = Segments(1 << 10)
    append(segments, rows(0, 10, size=1_000))
    both = threading.Barrier(2, timeout=10)
    makes = encode.plain_records

    def together(some: pa.Table) -> list[dict[str, Any]]:
        both.wait()
        return makes(some)

    monkeypatch.setattr("consumer_service.reading.segments.plain_records", together)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(segments.cut(WHERE, 0, 1, 1)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.undo()
    again = segments.cut(WHERE, 0, 1, 1)
    assert again is not None
    assert [one.records[0] is again.records[0] for one in found] == [True, True]


@pytest.mark.parametrize("made", [False, True], ids=["while it is made", "once it is made"])
@pytest.mark.parametrize("how", ["cleared", "dropped", "replaced"])
def test_nothing_is_kept_of_what_is_not_held_any_more(
    how: str, made: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been erased."""
    segments = Segments(1 << 20)
    held = rows(0, 10, size=1_000)
    gone = weakref.ref(held)
    append(segments, held)
    del held

    def ends() -> None:
        if how == "cleared":
            segments.clear()
        elif how == "dropped":
            append(segments, rows(10, 1_000, size=1_100))
        else:
            append(segments, rows(99, 1))

    def makes(some: pa.Table) -> list[dict[str, Any]]:
        if not made:
            ends()
        return encode.plain_records(some)

    monkeypatch.setattr("consumer_service.reading.segments.plain_records", makes)
    assert segments.cut(WHERE, 0, 1, 1) is not None
    if made:
        ends()
    gc.collect()
    assert gone() is None


def test_partitions_with_few_rows_are_made_into_records_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []

    def counted(some: pa.Table) -> list[dict[str, Any]]:
        made.append(some.num_rows)
        return encode.plain_records(some)

    monkeypatch.setattr("consumer_service.reading.segments.plain_records", counted)
    segments = Segments(1 << 22)
    append(segments, pa.concat_tables([rows(0, 1, number) for number in range(300)]))
    for number in range(300):
        where = TopicPartition(TopicId("t"), Partition(number))
        (one,) = segments.cut(where, 0, 10, 1 << 20).records  # type: ignore[union-attr]
        assert (one["partition"], one["offset"]) == (number, 0)
    assert made == [256, 44]


def test_a_record_that_cannot_be_read_holds_up_its_own_partition_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_all = encode._all_of

    def unforeseen(some: pa.Table) -> list[dict[str, Any]]:
        if 1 in some["partition"].to_pylist():
            raise KeyError("nobody thought of it")
        return read_all(some)

    monkeypatch.setattr(encode, "_all_of", unforeseen)
    segments = Segments(1 << 20)
    append(segments, pa.concat_tables([rows(0, 2, number) for number in range(3)]))
    found = [
        segments.cut(TopicPartition(TopicId("t"), Partition(number)), 0, 10, 1 << 20)
        for number in range(3)
    ]
    assert [None if one is None else len(one.records) for one in found] == [2, None, 2]


def test_runs_leave_out_what_does_not_follow_each_other() -> None:
    hole = pa.concat_tables([rows(5, 1, 1), rows(7, 1, 1)])
    twice = pa.concat_tables([rows(4, 1, 2), rows(4, 1, 2), rows(6, 1, 2)])  # first + 2 = last
    found = runs_of(pa.concat_tables([rows(0, 2, 0), hole, twice, rows(9, 1, 3)]))
    assert [(run.where.partition, run.start, run.length) for run in found] == [(0, 0, 2), (3, 7, 1)]
