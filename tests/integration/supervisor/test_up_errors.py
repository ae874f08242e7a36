"""`lakequeue up` when it cannot start: one clear message, its exit code, nothing begun."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lakequeue_cli.supervisor.preflight import RootLock, make_work_dir

pytestmark = pytest.mark.timeout(120)


def up(folder: Path, *options: str) -> tuple[int, str]:
    """Run it in `folder`; its exit code and all that it said."""
    command = [sys.executable, "-m", "lakequeue_cli.app", "up", *options]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=100, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def free(*_: object) -> tuple[str, ...]:
    return ("--ingest-port", "0", "--consumer-port", "0")


def no_child_was_started(root: Path) -> bool:
    return list((root / "_work" / "logs").glob("*")) == []


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        port = other.getsockname()[1]
        code, said = up(tmp_path, "--root", "q", "--ingest-port", "0", "--consumer-port", str(port))
    assert code == 3
    assert f"port {port} on 127.0.0.1 is in use" in said
    assert "another --consumer-port" in said
    assert no_child_was_started(tmp_path / "q")
    assert not (tmp_path / "q" / "log").exists(), "no queue is made for nothing"


def test_an_ensemble_that_does_not_answer(tmp_path: Path) -> None:
    code, said = up(tmp_path, "--root", "q", *free(), "--zookeeper", "127.0.0.1:1")
    assert code == 7
    assert "ZooKeeper at 127.0.0.1:1 did not answer" in said
    assert "--zookeeper host:port" in said
    assert no_child_was_started(tmp_path / "q")
    assert not (tmp_path / "q" / "log").exists()


def test_one_port_for_two_services(tmp_path: Path) -> None:
    code, said = up(tmp_path, "--root", "q", "--ingest-port", "8123", "--consumer-port", "8123")
    assert code == 3
    assert "--ingest-port and --consumer-port are both 8123" in said
    assert not (tmp_path / "q").exists()


def test_a_root_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, said = up(tmp_path, "--root", "file/q", *free())
    assert code == 4
    assert "cannot be written" in said
    assert "choose another folder with --root" in said


def test_a_root_of_a_newer_format(tmp_path: Path) -> None:
    marker = tmp_path / "q" / "_lakequeue" / "format.json"
    marker.parent.mkdir(parents=True)
    marker.write_text(json.dumps({"format": 99, "queue_id": "x"}))
    code, said = up(tmp_path, "--root", "q", *free())
    assert code == 4
    assert "format 99" in said
    assert "upgrade lakequeue" in said
    assert no_child_was_started(tmp_path / "q")


def test_a_root_that_another_one_serves(tmp_path: Path) -> None:
    make_work_dir(tmp_path / "q" / "_work")
    with RootLock(tmp_path / "q" / "_work"):
        code, said = up(tmp_path, "--root", "q", *free())
    assert code == 5
    assert "another `lakequeue up` serves this root" in said
    assert no_child_was_started(tmp_path / "q")


def test_an_unknown_option(tmp_path: Path) -> None:
    code, said = up(tmp_path, "--rot", "q")
    assert code == 2
    assert "--rot" in said
