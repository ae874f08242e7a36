"""When a process counts as proven dead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from coordination.zookeeper.session_reaper import (
    close_dead_session,
    forget,
    is_dead,
    process_identity,
    remember,
)
from lakequeue.processes.started import started_at


def test_a_living_process_is_not_dead() -> None:
    assert not is_dead(process_identity())


def test_a_pid_that_was_given_to_another_process_proves_death() -> None:
    assert is_dead(process_identity() | {"started": "1"})


def test_a_process_that_ended_is_dead_even_before_it_is_reaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = process_identity() | {"pid": child.pid, "started": started_at(child.pid)}
    assert not is_dead(identity)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(identity)
    assert child.stdin is not None
    child.stdin.close()
    child.wait()
    assert is_dead(identity)


def test_nothing_is_proven_of_another_machine_or_pid_namespace() -> None:
    for key in ("machine", "pid_space"):
        assert not is_dead(process_identity() | {key: "elsewhere", "started": "1"})


def test_what_is_remembered_is_for_its_user_only_and_can_be_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "sessions" / "a"
    remember(path, "127.0.0.1:1", (7, b"\x01" * 16))
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["a"]
    forget(path)
    forget(path)
    assert not path.exists()


def test_a_missing_or_broken_file_buries_nobody(tmp_path: Path) -> None:
    assert not close_dead_session(tmp_path / "none")
    broken = tmp_path / "broken"
    broken.write_text("{")
    assert not close_dead_session(broken)
    broken.write_text("{}")
    assert not close_dead_session(broken)
    remember(broken, "127.0.0.1:1", (7, b"\x01" * 16))
    assert not close_dead_session(broken), "this process lives"
