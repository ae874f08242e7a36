"""A real ZooKeeper for tests, and the troubles it can have.

Fixtures: `zookeeper` (one server for the whole run), `own_zookeeper` (a server of the test's own,
to be killed), `sessions` (a factory of sessions in a queue of the test's own, closed at its end).
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from coordination.embedded import EmbeddedZooKeeper
from coordination.zookeeper.session import Session
from lakequeue.clock import boot_seconds
from lakequeue.settings import CoordinationSettings

FAST = CoordinationSettings(session_timeout_s=4.0, lease_margin_s=0.5)
"""A session timeout short enough for tests that wait for its end."""
DEADLINE_S = 60.0
"""Generous: it is only ever waited for in full by a test that fails."""
SELDOM_S = 0.1
"""Between two looks at what takes more than a second."""

T = TypeVar("T")
MakeSession = Callable[..., Session]


def wait_for(
    condition: Callable[[], T],
    what: str = "",
    timeout_s: float = DEADLINE_S,
    every_s: float = 0.01,
) -> T:
    """The first true value of `condition`; fails the test after `timeout_s`.

    Ask less often (`every_s`) what is dear to answer: else the asking is the load. What takes long
    is asked less often by itself, so that it is found a tenth too late at most.
    """
    began = boot_seconds()
    pause = threading.Event()
    while not (value := condition()):
        waited = boot_seconds() - began
        if waited > timeout_s:
            pytest.fail(f"not within {timeout_s:g} s: {what or condition}")
        pause.wait(max(every_s, min(waited / 10, SELDOM_S)))
    return value


def expire(session: Session) -> None:
    """Have the server end this session, as if its timeout had passed.

    A second client presents the same id and password, and closes. The server then drops the first
    one's connection; if that one is back before the close is sent, it is the second that is
    dropped, so this tries until the loss is seen.
    """
    term = session.incarnation
    deadline = boot_seconds() + DEADLINE_S
    lost = session.waker()
    while session.incarnation == term:
        if boot_seconds() > deadline:
            pytest.fail("the session could not be expired")
        double = KazooClient(hosts=session.hosts, client_id=session.kazoo.client_id)
        try:
            double.start(5)
        except KazooTimeoutError:
            # The first one was quicker: again.
            continue
        finally:
            double.stop()
            double.close()
        # Its own dropped connection wakes it too: the loss is what counts.
        until = boot_seconds() + 1
        while session.incarnation == term and boot_seconds() < until:
            lost.wait(0.1)
            lost.clear()
    assert session.connected.wait(DEADLINE_S)


def erase(server: EmbeddedZooKeeper) -> None:
    """Kill the server and take its data: what comes back is a rebuilt ensemble."""
    server.kill()
    shutil.rmtree(server.data_dir / "data")


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """The run's server: do not kill it, take `own_zookeeper` for that."""
    server = EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    server.start(DEADLINE_S)
    yield server
    server.stop()


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """A server of this test's own, started."""
    server = EmbeddedZooKeeper(tmp_path / "zookeeper")
    server.start(DEADLINE_S)
    yield server
    server.kill()


@pytest.fixture
def sessions(request: pytest.FixtureRequest) -> Iterator[MakeSession]:
    """`sessions(node="a", server=…, settings=FAST, remember_in=None)` → a started session.

    All sessions of a test are in one queue; without `server` at the run's server.
    """
    queue_id = uuid.uuid4().hex
    opened: list[Session] = []

    def make(
        node: str = "a",
        server: EmbeddedZooKeeper | None = None,
        settings: CoordinationSettings = FAST,
        remember_in: Path | None = None,
    ) -> Session:
        server = server or request.getfixturevalue("zookeeper")
        session = Session(server.hosts, queue_id, node, settings, remember_in)
        session.start()
        opened.append(session)
        return session

    yield make
    for session in reversed(opened):
        session.stop()
