"""The supervising thread with real child processes: small ones, which do what a service does."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import pytest

from lakequeue.clock import boot_seconds
from lakequeue.errors import StartFailed
from lakequeue_cli.supervisor.backoff import Backoff
from lakequeue_cli.supervisor.child import Child
from lakequeue_cli.supervisor.child_states import State
from lakequeue_cli.supervisor.log_files import MOST_BYTES
from lakequeue_cli.supervisor.plan import ChildSpec, Drain, DriverReady
from lakequeue_cli.supervisor.watch import Watch
from tests.support.services.zookeeper import wait_for

SERVICE = """
import json, os, pathlib, signal, subprocess, sys
state, trace, how = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
def end(*_):
    with trace.open("a") as out:
        out.write(state.stem + chr(10))
    sys.exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in how else end)
if "crash" in how:
    sys.exit("this service cannot start")
if "chatty" in how:
    signal.signal(signal.SIGUSR1, lambda *_: print("still here", flush=True))
    line = "x" * 1023
    for _ in range(int(how[-1]) + 1):
        print(line)
    sys.stdout.flush()
if "grandchild" in how:
    state.with_suffix(".grandchild").write_text(str(subprocess.Popen(["sleep", "600"]).pid))
part = state.with_suffix(".part")
part.write_text(json.dumps({"pid": os.getpid(), "order": {"state": "leading"}}))
part.rename(state)
while True:
    signal.pause()
"""
WAIT_S = 30.0


class Family:
    """Children for a test, and the watch over them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trace = folder / "ended-in-this-order"
        self.said: list[tuple[str, str]] = []
        self.heard: SimpleQueue[str] = SimpleQueue()
        self.children: list[Child] = []
        self.watch: Watch | None = None
        self.refuses: OSError | None = None
        """What each report raises."""

    def add(
        self,
        name: str,
        drain: Drain = Drain.DRIVER,
        *how: str,
        drain_s: float = 10,
        beside: bool = False,
    ) -> Child:
        state = self.folder / f"{name}.json"
        command = (sys.executable, "-c", SERVICE, str(state), str(self.trace), *how)
        spec = ChildSpec(name, command, DriverReady(state), drain, drain_s, beside=beside)
        child = Child(spec, self.folder, os.environ)
        child.backoff = Backoff(first_s=0.05, longest_s=0.2)
        self.children.append(child)
        return child

    def start(self, elsewhere: Callable[[Child], ChildSpec | None] = lambda _child: None) -> Watch:
        self.watch = Watch(self.children, self._hear, elsewhere=elsewhere)
        self.watch.start()
        return self.watch

    def _hear(self, name: str, what: str) -> None:
        self.said.append((name, what))
        self.heard.put(what)
        if self.refuses is not None:
            raise self.refuses

    def close(self) -> None:
        if self.watch is not None:
            self.watch.request_kill()
            assert self.watch.join(WAIT_S)


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    made = Family(tmp_path)
    yield made
    made.close()


def gone(pid: int, within_s: float = WAIT_S) -> bool:
    """Whether the process ends in time: waited for on its descriptor, not by looking again."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], within_s)[0])
    finally:
        os.close(descriptor)


def started_again(child: Child, starts: int) -> bool:
    return child.starts > starts


def test_children_are_ready_when_they_say_so(family: Family) -> None:
    family.add("a")
    family.add("b")
    watch = family.start()
    watch.wait_ready(WAIT_S)
    assert {child.state for child in family.children} == {State.READY}
    assert watch.leader() == "a"


def test_a_child_that_stands_beside_holds_nobody_up(family: Family) -> None:
    """The console: the queue is ready without it, also while it cannot start at all."""
    family.add("a")
    beside = family.add("console", Drain.INGEST, "crash", beside=True)
    watch = family.start()
    for _ in range(5):
        watch.wait_ready(WAIT_S)
        wait_for(partial(started_again, beside, beside.starts), "it is started again")
    assert watch.leader() == "a"


def test_a_report_that_cannot_be_written_ends_no_child(family: Family) -> None:
    killed, other = family.add("a"), family.add("b")
    family.refuses = OSError(errno.ENOSPC, "No space left on device")
    watch = family.start()
    watch.wait_ready(WAIT_S)
    before = other.pid
    watch.kill("a", hold=False)
    watch.wait_ready(WAIT_S)
    assert (killed.starts, other.starts, other.pid) == (2, 1, before)


def test_a_killed_child_is_started_again(family: Family) -> None:
    child = family.add("a")
    watch = family.start()
    watch.wait_ready(WAIT_S)
    first = child.pid
    watch.kill("a", hold=False)
    watch.wait_ready(WAIT_S)
    assert child.pid != first
    assert child.starts == 2
    assert any("was ended by SIGKILL" in what for _, what in family.said)


def test_a_held_child_stays_down_until_it_is_revived(family: Family) -> None:
    child = family.add("a")
    watch = family.start()
    watch.wait_ready(WAIT_S)
    watch.kill("a", hold=True)
    assert child.state is State.HELD
    watch.revive("a")
    watch.wait_ready(WAIT_S)
    assert child.starts == 2


def test_a_child_that_backs_off_can_be_held_too(family: Family) -> None:
    child = family.add("a")
    child.backoff = Backoff(first_s=600, longest_s=600)
    watch = family.start()
    watch.wait_ready(WAIT_S)
    os.kill(child.pid, signal.SIGTERM)
    while "starting again" not in family.heard.get(timeout=WAIT_S):
        pass
    watch.kill("a", hold=True)
    watch.revive("a")
    watch.wait_ready(WAIT_S)
    assert child.starts == 2


def test_what_a_killed_child_leaves_behind_is_killed_too(family: Family) -> None:
    family.add("a", Drain.DRIVER, "grandchild")
    watch = family.start()
    watch.wait_ready(WAIT_S)
    grandchild = int((family.folder / "a.grandchild").read_text())
    watch.kill("a", hold=True)
    assert gone(grandchild)


def test_a_log_that_reaches_its_limit_begins_anew_under_the_process_that_writes_it(
    family: Family,
) -> None:
    child = family.add("a", Drain.DRIVER, "chatty", str(MOST_BYTES // 1_024))
    other = family.add("b")
    watch = family.start()
    watch.wait_ready(WAIT_S)
    # Whatever wakes the thread has it look at the logs; a queue at rest is looked at now and then.
    watch.kill(other.name, hold=True)
    kept = child.log_path.with_name("a.log.1")
    assert MOST_BYTES < kept.stat().st_size < MOST_BYTES + 8_192
    assert child.log_path.stat().st_size == 0
    os.kill(child.pid, signal.SIGUSR1)
    wait_for(
        lambda: child.log_path.read_bytes() == b"still here\n", "it goes on from the beginning"
    )
    assert child.starts == 1


def test_a_drain_keeps_the_order(family: Family) -> None:
    for drain in (Drain.ZOOKEEPER, Drain.CONSUMER, Drain.INGEST, Drain.DRIVER):
        family.add(drain.name.lower(), drain)
    watch = family.start()
    watch.wait_ready(WAIT_S)
    watch.request_stop()
    assert watch.join(WAIT_S)
    ended = family.trace.read_text().split()
    assert ended == ["ingest", "driver", "consumer", "zookeeper"]
    assert {child.last_exit for child in family.children} == {0}


def test_a_deaf_child_is_killed_when_its_time_is_over(family: Family) -> None:
    child = family.add("a", Drain.DRIVER, "deaf", drain_s=0.2)
    watch = family.start()
    watch.wait_ready(WAIT_S)
    watch.request_stop()
    assert watch.join(WAIT_S)
    assert child.last_exit == -signal.SIGKILL


def test_a_second_signal_does_not_wait(family: Family) -> None:
    family.add("a", Drain.INGEST, "deaf", drain_s=600)
    watch = family.start()
    watch.wait_ready(WAIT_S)
    watch.request_stop()
    watch.request_kill()
    started = boot_seconds()
    assert watch.join(WAIT_S)
    assert boot_seconds() - started < WAIT_S


def test_a_child_that_cannot_start_ends_the_wait_with_its_log(family: Family) -> None:
    family.add("a")
    family.add("b", Drain.DRIVER, "crash")
    watch = family.start()
    with pytest.raises(StartFailed, match="b ended 3 times") as caught:
        watch.wait_ready(WAIT_S)
    assert "this service cannot start" in str(caught.value)


def test_a_child_whose_port_is_taken_says_so_or_moves(family: Family) -> None:
    """Another queue starts at the same time, and takes the port first."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        place = ("127.0.0.1", other.getsockname()[1])
        stays, moves = (
            family.add("b", Drain.DRIVER, "crash"),
            family.add("c", Drain.DRIVER, "crash"),
        )
        stays.spec = replace(stays.spec, place=place, option="--ingest-port")
        moves.spec = replace(moves.spec, place=place, beside=True)
        moved = replace(moves.spec, place=("127.0.0.1", 0))
        watch = family.start(lambda child: moved if child is moves else None)
        with pytest.raises(StartFailed, match="choose another --ingest-port"):
            watch.wait_ready(WAIT_S)
        assert moves.spec is moved


def test_children_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "supervisor.py"
    script.write_text(
        "import pathlib, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
        "from tests.integration.supervisor.test_watch import Family, WAIT_S\n"
        "from lakequeue_cli.supervisor.plan import Drain\n"
        "family = Family(pathlib.Path(sys.argv[1]))\n"
        "family.add('a', Drain.DRIVER, 'deaf')\n"
        "family.start().wait_ready(WAIT_S)\n"
        "print(family.children[0].pid, flush=True)\n"
        "family.watch.join(None)\n"
    )
    command = [sys.executable, str(script), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        child = int(supervisor.stdout.readline())
        supervisor.kill()
        assert gone(child)
