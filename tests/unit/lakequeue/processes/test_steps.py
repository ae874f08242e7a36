"""A process that is armed dies or freezes at its step, and does nothing of what comes after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakequeue.errors import InvalidRequest
from lakequeue.steps import arm

# The first thread gets no processor while the other has something to do, as on a busy machine.
ARMED = """
import os
import sys
import threading
from lakequeue.steps import Step, arm, reach

def work():
    idle.wait()
    for _ in range(2):
        reach(Step.JOURNAL_DATA_WRITTEN)
        os.write(1, b"on ")
    os._exit(0)

arm("journal.data_written:2:" + sys.argv[1])
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
idle = threading.Event()
worker = threading.Thread(target=work)
worker.start()
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
idle.set()
worker.join()
"""


def started(how: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", ARMED, how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[4])


def test_a_frozen_process_has_not_left_its_step_and_goes_on_when_it_wakes() -> None:
    with started("stop") as process:
        assert process.stdout is not None
        changed = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert changed is not None
        assert (changed.si_code, changed.si_status) == (os.CLD_STOPPED, signal.SIGSTOP)
        assert os.read(process.stdout.fileno(), 100) == b"on ", "the first time only"
        process.send_signal(signal.SIGCONT)
        assert process.stdout.read() == b"on "
        assert process.wait(60) == 0


def test_a_killed_process_has_not_left_its_step() -> None:
    with started("kill") as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"on "
        assert process.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize("spec", ["journal", "journal.committed:x", "journal.committed:1:sleep"])
def test_what_is_no_crash_point_is_refused(spec: str) -> None:
    with pytest.raises(InvalidRequest, match="crash point"):
        arm(spec)
