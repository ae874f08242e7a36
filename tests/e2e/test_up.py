"""`lakequeue up` as a user runs it: ready, killed, at once up again on the same root, drained."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakequeue_cli.supervisor.preflight import free_port

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.timeout(900),
]
GONE_S = 60.0
Up = subprocess.Popen[str]


@contextmanager
def up(root: Path, ingest_port: int, consumer_port: int) -> Iterator[Up]:
    """The command, which is killed at the end if it is still there."""
    command = [
        *(sys.executable, "-m", "lakequeue_cli.app", "up", "--root", str(root)),
        *("--ingest-port", str(ingest_port), "--consumer-port", str(consumer_port)),
    ]
    with (root.parent / "up.err").open("a") as err:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


def banner(process: Up) -> str:
    """All lines up to the last one of the banner."""
    assert process.stdout is not None
    lines: list[str] = []
    while not (lines and "Ctrl-C" in lines[-1]):
        line = process.stdout.readline()
        assert line, f"it ended before it was ready: {lines}"
        lines.append(line)
    return "".join(lines)


def descendants(pid: int) -> list[int]:
    """Every process below `pid`."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def all_gone(pids: list[int]) -> bool:
    """Whether all of them end in time; waited for, not looked at again and again."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ended = bool(select.select([descriptor], [], [], GONE_S)[0])
        os.close(descriptor)
        if not ended:
            return False
    return True


def status(url: str) -> int:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own http:// URL
        return int(answer.status)


def tried(said: str) -> str:
    """What the lines that the banner offers print, in a shell of the folder in which `up` runs."""
    offered = said.partition("  try")[2].partition("  stop")[0].strip()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("LAKEQUEUE_")
    }
    shell = ["bash", "-euo", "pipefail", "-c", f"{offered} -n 1"]
    return subprocess.run(
        shell,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout.splitlines(keepends=True)[-1]


def test_killed_it_leaves_nothing_and_starts_again_at_once(tmp_path: Path) -> None:
    root, ports = tmp_path / "queue", (free_port(), free_port())
    with up(root, *ports) as first:
        said = banner(first)
        for port in ports:
            assert f"http://127.0.0.1:{port}" in said
            assert status(f"http://127.0.0.1:{port}/readyz") == 200
        children = descendants(first.pid)
        # ZooKeeper, driver and JVM, two services with a worker each.
        assert len(children) >= 7
        first.send_signal(signal.SIGKILL)
        first.wait()
        with up(root, *ports) as second:
            said = banner(second)
            assert all_gone(children)
            assert tried(said) == "hi\n"
            later = descendants(second.pid)
            second.send_signal(signal.SIGTERM)
            second.communicate(timeout=120)
            assert second.returncode == 0
            assert all_gone(later)
    assert "draining" in (tmp_path / "up.err").read_text()
