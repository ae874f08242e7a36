"""Erasing is killed at each of its steps: the same call ends it, and no copy is forgotten."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakequeue.clock import wall_micros
from lakequeue.steps import Step
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from tests.integration.jobs.maintenance.test_erase import ERASED, SECRET, a_queue, read
from tests.support.data.secrets_on_disk import files_with
from tests.support.forking.forked import run
from tests.support.kinds import one_now
from tests.support.runs.erase_process import run_erase
from tests.support.runs.maintenance_process import run_compaction


@pytest.mark.parametrize(
    "crash",
    one_now([*(s for s in Step if s.startswith("erase.")), f"{Step.ERASE_DATA_WRITTEN}:2"]),
)
def test_killed_at_a_step_the_same_call_ends_it(tmp_path: Path, crash: str) -> None:
    root = QueueRoot.open(str(tmp_path / "queue"))
    topic = a_queue(root)
    before = read(LogReader(root), topic)
    command = [sys.executable, "-m", "tests.support.runs.erase_process", "--root", root.uri]
    command += ["--topic", "orders", "--where", "key = 'alice'", "--crash-at", crash]
    assert run(command) == -9
    assert read(LogReader(root), topic) in (before, ERASED)
    report = run_erase(root, "orders", "key = 'alice'", delete_now=True)
    assert report["left"] == {"records": 0, "dead_letters": 0, "rejects": 0}
    assert read(LogReader(root), topic) == ERASED
    # What the killed run had replaced waits for vacuum, as it does without --delete-now.
    run_compaction(root, wall_micros(), grace_hours=0)
    assert files_with(root.uri, SECRET) == []
