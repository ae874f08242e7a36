"""Services that come out of a fork server are processes as any other."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from tests.support.forking import fork_server
from tests.support.forking.forked import Forked, _adopt

SERVICE = [sys.executable, "-m", "consumer_service"]


def is_forked(pid: int) -> bool:
    """Whether it shows the command line of the fork server, and not its own."""
    return any("fork_server" in word for word in psutil.Process(pid).cmdline())


def test_it_has_its_arguments_its_output_and_its_exit_code(tmp_path: Path) -> None:
    with (tmp_path / "err").open("w") as err:
        process = Forked([*SERVICE, "--help"], stdout=subprocess.PIPE, stderr=err, text=True)
        said, _ = process.communicate(timeout=60)
        assert (process.returncode, said.split(" [")[0]) == (0, "usage: python -m consumer_service")
        wrong = Forked([*SERVICE, "--prot", "1"], stdout=subprocess.DEVNULL, stderr=err)
        assert wrong.wait(60) == 2
    assert "--prot" in (tmp_path / "err").read_text()


def test_it_is_a_child_that_signals_end(tmp_path: Path) -> None:
    # It waits for an ensemble that is not there, until somebody ends it.
    waits = [*SERVICE, "--root", str(tmp_path), "--zookeeper", "127.0.0.1:1", "--port", "0"]
    process = Forked(waits, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert process.poll() is None
        assert psutil.Process(process.pid).ppid() == os.getpid()
        assert is_forked(process.pid)
    finally:
        process.kill()
    assert process.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize("name", ["PYTHONWARNINGS", "MALLOC_ARENA_MAX"])
def test_what_a_start_reads_of_the_environment_needs_a_start(tmp_path: Path, name: str) -> None:
    waits = [*SERVICE, "--root", str(tmp_path), "--zookeeper", "127.0.0.1:1", "--port", "0"]
    with Forked(waits, env=os.environ | {name: "1"}, stderr=subprocess.DEVNULL) as process:
        try:
            assert not is_forked(process.pid)
        finally:
            process.kill()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_it_begins_when_it_is_a_child_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is forked in between closes its files, and gives its child away some time later."""
    ours, theirs = socket.socketpair()
    end = os._exit

    def slowly(code: int) -> None:
        os.closerange(3, 256)
        threading.Event().wait(0.2)
        end(code)

    tests = os.fork()
    if not tests:
        signal.alarm(20)
        _adopt(True)
        me = os.getpid()
        monkeypatch.setattr(os, "_exit", slowly)
        node = fork_server._fork(theirs)
        if node is None:
            end(int(os.getppid() != me))
        end(os.waitstatus_to_exitcode(os.waitpid(node, 0)[1]))
    for each in (ours, theirs):
        each.close()
    assert os.waitstatus_to_exitcode(os.waitpid(tests, 0)[1]) == 0
