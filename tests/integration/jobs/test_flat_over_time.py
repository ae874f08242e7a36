"""The short form of `make flat`: hours go by in seconds, and nothing grows without end."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.flat import Course, measure
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG

BATCHES = 320
HOUR_US = 3_600_000_000


@pytest.mark.timeout(400)  # it computes all the time, for a dozen seconds of a core
def test_batches_files_and_logs_stay_as_they_are_while_hours_go_by(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path / "queue"))
    course = Course(root, BATCHES, 20, batch_us=HOUR_US // 80, checkpoint_every=50, window=80)
    found = measure(course, BATCHES)
    assert len(course.took_ms) == BATCHES
    # Four hours were told. Kept are at most half an hour and the hours that are not whole yet.
    log = found["at_the_end"].pop(LOG.name)
    assert log["live_files"] <= 2 * 80
    assert log["log_objects"] <= BATCHES // 2, "commits behind a checkpoint go"
    for shard in found["at_the_end"].values():
        assert shard["live_files"] <= 80, "what is ordered leaves the inbox"
    assert [window["first_batch"] for window in found["windows"]] == [0, 80, 160, 240]
    # Of the processor's time, and with room: this is about growth with each batch.
    assert found["cpu_ratio"] <= 2
