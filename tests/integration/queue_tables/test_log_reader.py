"""Ranges of the log: exact against a model, each row group decoded once, new commits seen."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lakequeue.errors import CorruptTable, OffsetOutOfRange
from lakequeue.records import Offset, Partition, TopicId
from queue_tables.delta.actions import Add, Remove
from queue_tables.delta.table import TableLog
from queue_tables.log.index import LogIndex
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.upkeep.delta_rs import checkpoint_table
from tests.support.data.ordered_log import START, OrderedLog, Sent

T1, T2 = TopicId("t1"), TopicId("t2")
P0 = Partition(0)


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path / "root"))


def a_batch(count: int, topic_id: str = "t1", partition: int = 0, mark: str = "v") -> list[Sent]:
    return [Sent(topic_id, partition, b"%s-%d" % (mark.encode(), i)) for i in range(count)]


def read_all(
    reader: LogReader, topic_id: str, partition: int, start: int, rows: int, size: int = 1 << 20
) -> Iterator[tuple[int, bytes]]:
    """(offset, value) of a partition to its end, in polls of `rows`."""
    at = start
    while True:
        found = reader.read_range(TopicId(topic_id), Partition(partition), Offset(at), rows, size)
        if found.num_rows == 0:
            return
        assert found.num_rows <= rows
        yield from zip(
            found.column("offset").to_pylist(), found.column("value").to_pylist(), strict=True
        )
        at += found.num_rows


@pytest.mark.parametrize("seed", range(6))
def test_every_range_is_what_was_ordered(root: QueueRoot, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    builder = OrderedLog(root)
    early = LogReader(root)
    for _ in range(12):
        batch = [
            Sent(rng.choice(["t1", "t2"]), rng.choice([0, 0, 0, 1, 2]), rng.randbytes(8))
            for _ in range(rng.randrange(1, 60))
        ]
        builder.order(batch, groups=rng.randrange(1, 4), files=rng.randrange(1, 4))
    for reader in (early, LogReader(root), LogReader(root, cache_bytes=0)):
        for (topic_id, partition), values in builder.expected.items():
            expected = list(enumerate(values))
            start = rng.randrange(len(values))
            found = read_all(reader, topic_id, partition, start, rng.randrange(1, 40))
            assert list(found) == expected[start:]
            assert list(read_all(reader, topic_id, partition, 0, 1000)) == expected
            assert reader.end_offset(TopicId(topic_id), Partition(partition)) == len(values)
            assert reader.first_offset(TopicId(topic_id), Partition(partition)) == 0


def test_a_long_partition_is_decoded_once(root: QueueRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = OrderedLog(root)
    builder.order(a_batch(20_000))
    reader = LogReader(root)
    decoded: list[tuple[str, int]] = []
    original = reader._decode

    def noting(path: str, row_group: int):  # type: ignore[no-untyped-def]
        decoded.append((path, row_group))
        return original(path, row_group)

    monkeypatch.setattr(reader, "_decode", noting)
    values = [value for _, value in read_all(reader, "t1", 0, 0, 500)]
    assert values == builder.expected["t1", 0]
    assert len(decoded) == len(set(decoded)) == 3


def test_readers_in_threads_share_what_is_decoded(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = OrderedLog(root)
    builder.order(a_batch(5_000))
    reader = LogReader(root)
    decoded: list[int] = []
    original = reader._decode
    barrier = threading.Barrier(6)

    def noting(path: str, row_group: int):  # type: ignore[no-untyped-def]
        decoded.append(row_group)
        return original(path, row_group)

    monkeypatch.setattr(reader, "_decode", noting)

    def drain(_: int) -> list[bytes]:
        barrier.wait(timeout=30)
        return [value for _, value in read_all(reader, "t1", 0, 0, 700)]

    with ThreadPoolExecutor(6) as pool:
        for values in pool.map(drain, range(6)):
            assert values == builder.expected["t1", 0]
    assert decoded == [0]


def test_a_new_commit_is_seen_at_the_end(root: QueueRoot) -> None:
    builder = OrderedLog(root)
    reader = LogReader(root)
    assert reader.read_range(T1, P0, Offset(0), 10).num_rows == 0
    builder.order(a_batch(3))
    assert reader.read_range(T1, P0, Offset(0), 10).num_rows == 3
    builder.order(a_batch(2))
    assert reader.read_range(T1, P0, Offset(3), 10).column("offset").to_pylist() == [3, 4]
    # What the reads came upon is still news for who follows the log.
    assert [commit.version for commit in reader.refresh()] == [1, 2]
    assert reader.refresh() == []


def test_bytes_bound_a_read_but_one_record_always_comes(root: QueueRoot) -> None:
    builder = OrderedLog(root)
    builder.order([Sent("t1", 0, b"x" * 100, key=b"k" * 10) for _ in range(10)])
    builder.order([Sent("t1", 0, b"y" * 1000) for _ in range(2)])
    reader = LogReader(root)
    assert reader.read_range(T1, P0, Offset(0), 10, 345).num_rows == 3, "each has a header"
    assert reader.read_range(T1, P0, Offset(0), 10, 344).num_rows == 2
    assert reader.read_range(T1, P0, Offset(0), 10, 1).num_rows == 1
    assert reader.read_range(T1, P0, Offset(9), 10, 200).num_rows == 1
    assert reader.read_range(T1, P0, Offset(8), 10, 5000).num_rows == 4


def test_an_offset_that_does_not_exist_is_refused_with_those_that_do(root: QueueRoot) -> None:
    builder = OrderedLog(root)
    builder.order(a_batch(3))
    builder.order(a_batch(3))
    reader = LogReader(root)
    with pytest.raises(OffsetOutOfRange) as refused:
        reader.read_range(T1, P0, Offset(7), 10)
    assert (refused.value.extra["first_offset"], refused.value.extra["end_offset"]) == (0, 6)
    log = TableLog(root.store, "log").open()
    oldest = next(iter(log.files))
    log.commit([Remove(oldest, 1, True)], {})  # what retention does
    reader.refresh()
    assert reader.first_offset(T1, P0) == 3
    with pytest.raises(OffsetOutOfRange, match="outside 3 to 6"):
        reader.read_range(T1, P0, Offset(2), 10)
    assert reader.read_range(T1, P0, Offset(3), 10).num_rows == 3


def test_a_file_that_compaction_replaced_is_read_from_its_successor(root: QueueRoot) -> None:
    builder = OrderedLog(root)
    builder.order(a_batch(50))
    reader = LogReader(root, cache_bytes=0)
    first = reader.read_range(T1, P0, Offset(0), 10)
    log = TableLog(root.store, "log").open()
    (old,) = log.files.values()
    data = root.store.get(f"log/{old.path}")
    path = old.path.replace("part-", "compacted-")
    root.store.put(f"log/{path}", data)
    rewritten = type(old)(
        path, old.size, old.partition_values, old.modification_time, False, old.stats
    )
    log.commit([Remove(old.path, 1, False), rewritten], {})
    reader._pieces._held.clear()
    root.store.delete(f"log/{old.path}")
    assert reader.read_range(T1, P0, Offset(0), 10).equals(first)


def test_a_lost_file_is_a_clear_error(root: QueueRoot) -> None:
    builder = OrderedLog(root)
    builder.order(a_batch(5))
    reader = LogReader(root)
    (path,) = TableLog(root.store, "log").open().files
    root.store.delete(f"log/{path}")
    with pytest.raises(CorruptTable, match="is gone"):
        reader.read_range(T1, P0, Offset(0), 10)


def test_an_offset_is_found_by_time(root: QueueRoot) -> None:
    builder = OrderedLog(root)
    builder.order(a_batch(4))
    builder.order(a_batch(4))
    reader = LogReader(root)
    times = reader.read_range(T1, P0, Offset(0), 8).column("timestamp").cast("int64").to_pylist()
    assert reader.offset_at_time(T1, P0, START - 1) == 0
    assert reader.offset_at_time(T1, P0, times[5]) == times.index(times[5])
    assert reader.offset_at_time(T1, P0, max(times) + 1) == 8
    # The builder orders a batch at START, the next one a microsecond later.
    assert [reader.offset_at_time(T1, P0, START + n, "ordered_at") for n in range(3)] == [0, 4, 8]


def test_a_log_opens_from_its_checkpoint(root: QueueRoot) -> None:
    builder = OrderedLog(root)
    for _ in range(5):
        builder.order(a_batch(10) + a_batch(10, "t2", 3))
    version = checkpoint_table(root, "log")
    builder.order(a_batch(10))
    for n in range(version + 1):
        root.store.delete(f"log/_delta_log/{n:020d}.json")
    reader = LogReader(root)
    assert len(list(read_all(reader, "t1", 0, 0, 7))) == 60
    assert reader.end_offset(T2, Partition(3)) == 50


@pytest.mark.parametrize("seed", range(4))
def test_ranges_hold_all_that_is_sought_and_no_row_group_that_is_refused(
    root: QueueRoot, seed: int
) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    builder = OrderedLog(root)
    for _ in range(10):
        batch = [
            Sent(rng.choice(["t1", "t2"]), rng.choice([0, 1]), b"v")
            for _ in range(rng.randrange(40))
        ]
        builder.order([*batch, Sent("t1", 0, b"v")], files=rng.randrange(1, 3))
    reader = LogReader(root)
    end = int(reader.end_offset(T1, P0))
    for _ in range(20):
        low = rng.randrange(end)
        high = rng.randrange(low, end)
        asked: list[tuple[int, int]] = []

        def overlaps(
            bounds: Mapping[str, tuple[int, int]],
            asked: list[tuple[int, int]] = asked,
            sought: tuple[int, int] = (low, high),
        ) -> bool:
            asked.append(bounds["offset"])
            assert bounds["timestamp"][0] <= bounds["timestamp"][1]
            return bounds["offset"][0] <= sought[1] and bounds["offset"][1] >= sought[0]

        at, found = Offset(0), set[int]()
        while at < end:
            begin, stop = reader.sought(T1, P0, at, rng.randrange(1, 50), overlaps)
            found |= set(range(begin, stop))
            at = stop
        assert set(range(low, high + 1)) <= found
        refused = [span for span in asked if span[0] > high or span[1] < low]
        assert not any(found & set(range(a, b + 1)) for a, b in refused)


def test_a_long_range_that_is_refused_is_skipped_in_steps(root: QueueRoot) -> None:
    builder = OrderedLog(root)
    for _ in range(70):
        builder.order([Sent("t1", 0, b"v")])
    reader = LogReader(root)
    asked: list[int] = []

    def refuse(bounds: Mapping[str, tuple[int, int]]) -> bool:
        asked.append(bounds["offset"][0])
        return False

    begin, at = reader.sought(T1, P0, Offset(0), 10, refuse)
    assert begin == at == len(asked) < 70, "whoever waits is heard in between"
    assert reader.sought(T1, P0, at, 10, refuse) == (70, 70)
    assert asked == list(range(70))


def test_what_compaction_replaced_meanwhile_is_left_to_the_read(root: QueueRoot) -> None:
    builder = OrderedLog(root)
    builder.order(a_batch(5))
    reader = LogReader(root)
    path = next(iter(TableLog(root.store, "log").open().files))
    (Path(root.uri) / "log" / path).unlink()
    assert reader.sought(T1, P0, Offset(0), 10, lambda _: False) == (0, 1)
    assert reader.sought(T1, P0, Offset(9), 10, lambda _: True) == (9, 9), "nothing is left"


def test_a_bit_that_flips_in_a_log_file_is_named_and_never_read(root: QueueRoot) -> None:
    builder = OrderedLog(root)
    builder.order(a_batch(500), groups=1, files=1)
    (path,) = (Path(root.uri) / "log").glob("hour=*/*.parquet")
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    expected = list(enumerate(builder.expected["t1", 0]))
    named = 0
    for at in random.Random(1).sample(range(4, len(whole) - footer), 60):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            assert list(read_all(LogReader(root, cache_bytes=0), "t1", 0, 0, 1000)) == expected
        except CorruptTable as error:
            named += path.name in str(error)
    assert named > 10


def test_what_could_not_be_taken_in_is_not_taken_for_a_gap(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = OrderedLog(root)
    builder.order(a_batch(5))
    reader = LogReader(root)
    builder.order(a_batch(5))
    builder.order(a_batch(5))
    add = LogIndex.add
    failed: list[Add] = []

    def fails_once(index: LogIndex, file: Add) -> None:
        if not failed:
            failed.append(file)
            raise MemoryError
        add(index, file)

    monkeypatch.setattr(LogIndex, "add", fails_once)
    with pytest.raises(MemoryError):
        reader.refresh()
    found = reader.read_range(T1, P0, Offset(4), 100)
    assert found.column("offset").to_pylist() == list(range(4, 15))
    assert reader.gap_offsets() == 0
