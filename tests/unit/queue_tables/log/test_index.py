"""The index resolves only the files it must, and finds every offset."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from lakequeue.records import Offset
from queue_tables.delta.actions import Add
from queue_tables.log.index import LogIndex, PartitionKey, Span

A, B = PartitionKey("t1", 0), PartitionKey("t1", 1)


class Files:
    """Files given as {path: {key: (first, last)}}; notes which were resolved."""

    def __init__(self) -> None:
        self.content: dict[str, dict[PartitionKey, tuple[int, int]]] = {}
        self.resolved: list[str] = []

    def add(self, index: LogIndex, content: dict[PartitionKey, tuple[int, int]]) -> str:
        path = f"f{len(self.content):04d}"
        self.content[path] = content
        low = {
            "ordered_at": path,
            "topic_id": min(key.topic_id for key in content),
            "partition": min(key.partition for key in content),
            "offset": min(first for first, _ in content.values()),
        }
        high = {
            "topic_id": max(key.topic_id for key in content),
            "partition": max(key.partition for key in content),
            "offset": max(last for _, last in content.values()),
        }
        stats = {"numRecords": 1, "minValues": low, "maxValues": high}
        index.add(Add(path, 1, stats=json.dumps(stats)))
        return path

    def resolve(self, path: str) -> Iterator[tuple[PartitionKey, Span]]:
        assert path not in self.resolved
        self.resolved.append(path)
        for n, (key, (first, last)) in enumerate(self.content[path].items()):
            yield key, Span(Offset(first), Offset(last), path, n, 0, last - first + 1)


@pytest.mark.parametrize("seed", range(10))
def test_every_offset_is_found_in_its_file(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    index, files = LogIndex(), Files()
    keys = [PartitionKey(topic, p) for topic in ("t1", "t2") for p in range(3)]
    ends = dict.fromkeys(keys, 0)
    where: dict[tuple[PartitionKey, int], str] = {}
    for _ in range(30):
        content = {}
        for key in rng.sample(keys, rng.randrange(1, len(keys) + 1)):
            count = rng.randrange(1, 20)
            content[key] = (ends[key], ends[key] + count - 1)
            ends[key] += count
        path = files.add(index, content)
        for key, (first, last) in content.items():
            where |= {(key, offset): path for offset in range(first, last + 1)}
    sought = list(where.items())
    rng.shuffle(sought)
    for (key, offset), path in sought:
        span = index.find(key, offset, files.resolve)
        assert span is not None
        assert span.path == path
    for key in keys:
        assert index.find(key, ends[key], files.resolve) is None
        assert index.first(key, files.resolve) == (0 if ends[key] else None)


def test_only_files_whose_box_holds_the_offset_are_resolved() -> None:
    index, files = LogIndex(), Files()
    for n in range(100):
        files.add(index, {A: (n * 10, n * 10 + 9), B: (n * 10, n * 10 + 9)})
    assert index.find(A, 505, files.resolve) is not None
    assert files.resolved == ["f0050"]
    assert index.find(B, 505, files.resolve) is not None
    assert index.first(A, files.resolve) == 0
    assert files.resolved == ["f0050", "f0000"]


def test_a_removed_file_is_forgotten_resolved_or_not() -> None:
    index, files = LogIndex(), Files()
    old = files.add(index, {A: (0, 9)})
    new = files.add(index, {A: (10, 19)})
    assert index.find(A, 5, files.resolve) is not None
    index.remove(old)
    assert index.find(A, 5, files.resolve) is None
    assert index.first(A, files.resolve) == 10
    index.remove(new)
    assert index.first(A, files.resolve) is None
    index.remove("never there")


def test_a_resolution_that_fails_is_tried_again() -> None:
    index, files = LogIndex(), Files()
    files.add(index, {A: (0, 9)})

    def fail(path: str) -> Iterator[tuple[PartitionKey, Span]]:
        yield A, Span(Offset(0), Offset(9), path, 0, 0, 10)
        raise FileNotFoundError(path)

    with pytest.raises(FileNotFoundError):
        index.find(A, 5, fail)
    assert len(list(index.spans(A, files.resolve, lambda _: True))) == 1


def test_spans_come_in_the_order_of_offsets_and_only_the_files_they_need_are_looked_into() -> None:
    index, files = LogIndex(), Files()
    paths = [files.add(index, {A: (n * 10, n * 10 + 9)}) for n in (3, 0, 2, 1, 4)]
    spans = index.spans(A, files.resolve, lambda path: path != paths[3])
    assert [next(spans).first for _ in range(2)] == [0, 20], "10 to 19 is not wanted"
    assert set(files.resolved) == {paths[1], paths[2]}
    index.remove(paths[0])
    assert [span.first for span in spans] == [40], "what has gone meanwhile is passed over"


def test_known_spans_of_wanted_files_come_without_another_look() -> None:
    index, files = LogIndex(), Files()
    files.add(index, {A: (0, 9)})
    files.add(index, {A: (10, 19), B: (0, 9)})
    assert index.find(A, 15, files.resolve) is not None
    looked = len(files.resolved)
    assert [span.first for span in index.spans(A, files.resolve, lambda _: True)] == [0, 10]
    assert len(files.resolved) == looked + 1


def test_a_file_without_statistics_is_looked_into() -> None:
    index, files = LogIndex(), Files()
    path = files.add(index, {A: (0, 9)})
    index.remove(path)
    index.add(Add(path, 1, stats='{"numRecords": 3}'))
    index.add(Add("empty", 1, stats='{"numRecords": 0}'))
    assert index.find(B, 5, files.resolve) is None
    assert index.find(A, 5, files.resolve) is not None
    assert files.resolved == [path]
