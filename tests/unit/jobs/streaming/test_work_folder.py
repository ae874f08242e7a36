"""The folder of a driver process, when another one of its name starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from jobs.streaming.session import socket_folder
from jobs.streaming.work_folder import WorkFolder

PROJECT = Path(__file__).resolve().parents[4]
HOLD = """
import sys
from pathlib import Path
from jobs.streaming.work_folder import WorkFolder
held = WorkFolder(Path(sys.argv[1]), "one")
(held.path / "offsets").write_text("17")
print(held.path, flush=True)
sys.stdin.read()
"""


def test_a_driver_of_the_same_name_leaves_alone_what_the_other_lives_on_until_it_is_dead(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        first = WorkFolder(tmp_path, "one")
        assert (theirs / "offsets").read_text() == "17"
        other.send_signal(signal.SIGKILL)
        other.wait(60)
    second = WorkFolder(tmp_path, "one")
    assert not theirs.exists()
    assert first.path.exists()
    first.remove()
    second.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_release_left_is_removed(tmp_path: Path) -> None:
    old = tmp_path / "driver-one.0123abcd.d"
    (old / "inbox-checkpoint-0").mkdir(parents=True)
    WorkFolder(tmp_path, "one").remove()
    assert list(tmp_path.iterdir()) == []


def test_sockets_go_with_the_folder_also_those_of_a_process_that_was_killed(tmp_path: Path) -> None:
    killed = WorkFolder(tmp_path, "one")
    left = socket_folder(killed.path)
    assert killed._lock is not None
    os.close(killed._lock)  # as the kernel does
    alive = WorkFolder(tmp_path, "one")
    assert not left.exists()
    ours = socket_folder(alive.path)
    alive.remove()
    assert not ours.exists()
