"""What the tailer keeps of new commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer_service.reading.segments import Segments
from consumer_service.reading.tailer import Tailer
from lakequeue.errors import StorageUnavailable
from lakequeue.records import Partition, TopicPartition
from queue_tables.delta.maintenance import ERASED_INFO
from queue_tables.delta.table import TableLog
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG
from queue_tables.upkeep.delta_rs import checkpoint_table
from tests.support.data.log_builder import LogBuilder


def test_files_of_topics_that_nobody_wants_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = QueueRoot.open(str(tmp_path / "queue"))
    log = LogBuilder(root)
    read, other = log.topic("read"), log.topic("other")
    segments = Segments(1 << 20)
    woken: set[TopicPartition] = set()
    tailer = Tailer(
        root, segments, lambda topic_id: topic_id == read.topic_id, woken.update, poll_s=1.0
    )
    tailer.catch_up()
    log.append(other, ["a", "b"])
    monkeypatch.setattr(
        "consumer_service.reading.tailer.read_data_file",
        lambda *_: pytest.fail("a file was read that nobody wants"),
    )
    tailer.catch_up()
    unwanted = TopicPartition(other.topic_id, Partition(0))
    assert tailer.end(unwanted) == 2
    assert unwanted in woken
    monkeypatch.undo()

    log.append(read, ["c"])
    tailer.catch_up()
    kept = segments.read(TopicPartition(read.topic_id, Partition(0)), 0, 10, 1 << 20)
    assert kept is not None
    assert kept["value"].to_pylist() == [b"c"]
    # From the files, what was not kept.
    assert tailer.read(unwanted, 0, 10, 1 << 20)["value"].to_pylist() == [b"a", b"b"]


class World:
    """A tailer that keeps all records of one partition, of which one is there."""

    def __init__(self, folder: Path) -> None:
        self.root = QueueRoot.open(str(folder / "queue"))
        self.log = LogBuilder(self.root)
        self.topic = self.log.topic(partitions=2)
        self.where = TopicPartition(self.topic.topic_id, Partition(0))
        self.segments = Segments(1 << 20)
        self.woken: set[TopicPartition] = set()
        self.changes = 0
        self.tailer = Tailer(
            self.root, self.segments, lambda _: True, self.woken.update, 1.0, self.changed
        )
        self.log.append(self.topic, ["a"])
        self.tailer.catch_up()
        assert self.tailer.end(self.where) == 1
        self.woken.clear()

    def changed(self) -> None:
        self.changes += 1

    def held(self) -> list[bytes] | None:
        rows = self.segments.read(self.where, 0, 10, 1 << 20)
        return None if rows is None else rows["value"].to_pylist()


def test_who_waits_hears_of_records_whose_file_could_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.log.append(world.topic, ["b"])

    def away(*_: object) -> None:
        raise StorageUnavailable("away")

    monkeypatch.setattr("consumer_service.reading.tailer.read_data_file", away)
    with pytest.raises(StorageUnavailable):
        world.tailer.catch_up()
    monkeypatch.undo()
    assert world.woken == {world.where}
    assert world.tailer.end(world.where) == 2
    assert world.tailer.read(world.where, 1, 10, 1 << 20)["value"].to_pylist() == [b"b"]


def test_what_is_erased_goes_though_a_file_before_it_could_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    assert world.held() == [b"a"]
    world.log.append(world.topic, ["b"])
    TableLog(world.root.store, LOG.name).open().commit([], {ERASED_INFO: 1})

    def away(*_: object) -> None:
        raise StorageUnavailable("away")

    monkeypatch.setattr("consumer_service.reading.tailer.read_data_file", away)
    with pytest.raises(StorageUnavailable):
        world.tailer.catch_up()
    assert world.held() is None
    assert world.changes == 1


def test_who_waits_hears_of_records_whose_commits_were_cleaned_up(tmp_path: Path) -> None:
    world = World(tmp_path)
    for value in ("b", "c"):
        world.log.append(world.topic, [value])
    newest = checkpoint_table(world.root, LOG.name)
    for version in range(newest):
        world.root.store.delete(f"{LOG.name}/_delta_log/{version:020d}.json")
    world.tailer.catch_up()
    assert world.woken == {world.where}
    assert world.tailer.end(world.where) == 3
    assert (world.held(), world.changes) == (None, 1), "who knows what they have erased"


def test_what_is_erased_goes_though_more_commits_came_than_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("queue_tables.log.reader._MOST_NEWS", 2)
    world = World(tmp_path)
    TableLog(world.root.store, LOG.name).open().commit([], {ERASED_INFO: 1})
    log = LogBuilder(world.root)
    for value in ("b", "c"):
        log.append(world.topic, [value], partition=1)
    world.tailer.catch_up()
    assert (world.held(), world.changes) == (None, 1)
    # From then on they are told one by one.
    log.append(world.topic, ["d"])
    world.tailer.catch_up()
    world.tailer.catch_up()
    assert (world.held(), world.changes) == (None, 1)
    assert world.segments.read(world.where, 1, 10, 1 << 20) is not None
