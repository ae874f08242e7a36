"""The state file of a driver: both jobs tell their part at the same moment."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jobs.command_line.options import StateFile


def test_jobs_that_speak_at_once_are_both_heard(tmp_path: Path) -> None:
    state = StateFile(tmp_path, "n")

    def speak(job: str) -> None:
        for number in range(300):
            state.say(**{job: {"epoch": number}})

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(speak, ("order", "offsets")))
    said = json.loads((tmp_path / "driver-n.json").read_text())
    assert said["order"] == said["offsets"] == {"epoch": 299}
