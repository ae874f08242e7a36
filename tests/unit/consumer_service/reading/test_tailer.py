"""What the tailer keeps of new commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumer_service.reading.segments import Segments
from consumer_service.reading.tailer import Tailer
from lakequeue.records import Partition, TopicPartition
from queue_tables.root import QueueRoot
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
