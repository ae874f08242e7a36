"""What the nemesis does to storage and clocks is felt by a running node, and passes; what the power
takes is what was not synced."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.faults.patching import environ
from tests.support.faults.power import NOTES, PowerCut
from tests.support.faults.sickness import SICK_FILE
from tests.support.services.ingest_service import IngestService
from tests.support.services.zookeeper import wait_for


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that says what ails the node."""
    return tmp_path_factory.mktemp("chart") / "sick.json"


@pytest.fixture(scope="module")
def node(chart: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[IngestService]:
    """An ingest node that can be made sick."""
    patches = environ("sickness", **{SICK_FILE: str(chart)})
    root = tmp_path_factory.mktemp("sick") / "queue"
    with IngestService(root, node="patient", **patches) as running:
        running.create("orders", partitions=1)
        yield running


def sent(node: IngestService) -> tuple[int, Any]:
    """Status of a request, and what it says of the storing."""
    answer = node.send([{"value": "v"}])
    return answer.status_code, answer.json().get("stored")


@pytest.mark.parametrize(
    ("ills", "expected"),
    [
        ({"full": 1.0}, (507, "no")),
        ({"failing": 1.0}, (503, "no")),
        # The commit is found to have landed: nobody has to send again.
        ({"applied": 1.0}, (200, None)),
        ({"full": 1.0, "only": ["another"]}, (200, None)),
    ],
)
def test_a_sick_store_answers_and_recovers(
    chart: Path, node: IngestService, ills: dict[str, Any], expected: tuple[int, str | None]
) -> None:
    chart.write_text(json.dumps(ills))
    assert sent(node) == expected
    chart.unlink()
    wait_for(lambda: sent(node)[0] == 200, "the node is well again")


def test_a_clock_that_jumps_shows_in_the_stamps(chart: Path, node: IngestService) -> None:
    def stamp() -> int:
        answer = node.send([{"value": "v"}])
        return int(answer.json().get("stamp", 0))

    before = stamp()
    chart.write_text(json.dumps({"clock_s": {"patient": 3.0}}))
    assert stamp() > before + 2_500_000
    chart.unlink()


WRITER = """
import os, sys, time
from pathlib import Path
import queue_tables.delta.store  # from here on all is noted

root = Path(sys.argv[1])

def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)

def write(name, synced=True):
    (root / name).write_bytes(b"x" * 1000)
    if synced:
        sync(root / name)

(root / "folder").mkdir()
write("whole")
write("torn", synced=False)
sync(root)
now = time.time_ns()
write("tick")
while (root / "tick").stat().st_ctime_ns <= now:  # the clock of the files goes in steps
    os.utime(root / "tick")
write("nameless")
write("folder/nameless")
(root / "homeless").mkdir()
write("homeless/whole")
sync(root / "homeless")
"""


class Worst(random.Random):
    """Whatever may be lost is."""

    def random(self) -> float:
        return 0.0


def test_the_power_takes_what_was_not_synced_and_nothing_else(tmp_path: Path) -> None:
    root, notes = tmp_path / "root", tmp_path / "notes"
    root.mkdir()
    (root / "before").write_bytes(b"there before")
    power = PowerCut(root, notes, leave=root / "_work")
    patches = environ("power", **{NOTES: str(notes)})
    command = [sys.executable, "-c", WRITER, str(root)]
    subprocess.run(command, env=os.environ | patches, check=True)
    taken = power.cut(Worst(1))
    assert {t.partition(" ")[0] for t in taken} == {
        *("folder/nameless", "homeless/", "nameless", "tick", "torn"),
    }
    assert len((root / "torn").read_bytes()) < 1000
    left = {str(p.relative_to(root)) for p in root.rglob("*")}
    assert left == {"before", "folder", "torn", "whole"}
    assert power.cut(Worst(1)) == []
