"""The list of nodes, while ZooKeeper is slow."""

from __future__ import annotations

import threading

import pytest

from coordination.embedded import EmbeddedZooKeeper
from coordination.zookeeper.discovery import Discovery
from coordination.zookeeper.registry import register
from lakequeue.settings import CoordinationSettings
from lakequeue.wire import NodeInfo
from tests.support.faults.stopped import stopped
from tests.support.services.zookeeper import MakeSession, wait_for

pytestmark = pytest.mark.zookeeper


def test_while_one_caller_waits_for_zookeeper_the_others_are_told_what_is_known(
    sessions: MakeSession, own_zookeeper: EmbeddedZooKeeper
) -> None:
    session = sessions(server=own_zookeeper, settings=CoordinationSettings())
    register(session, "ingest", "one", {"url": "http://one"})
    directory = Discovery(session)
    known = directory.nodes()
    assert [node.node for node in known.ingest] == ["one"]
    with stopped(own_zookeeper.pid):
        # As the watch does when a node comes or goes.
        directory._changed.set()
        waiting = threading.Thread(target=directory.nodes)
        waiting.start()
        wait_for(directory._asking.locked, "one asks")
        assert directory.nodes() == known
        assert waiting.is_alive(), "it had to wait for the other"
    waiting.join(60)
    assert not waiting.is_alive()


def test_who_asks_while_another_is_being_told_hears_the_same(
    sessions: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = sessions()
    register(session, "ingest", "one", {"url": "http://one"})
    directory = Discovery(session)
    directory.nodes()
    monkeypatch.setattr("coordination.zookeeper.discovery.WAIT_S", 60.0)
    asked, answer = threading.Event(), threading.Event()
    read = directory._read

    def slow(role: str) -> list[NodeInfo]:
        asked.set()
        assert answer.wait(60)
        return read(role)

    monkeypatch.setattr(directory, "_read", slow)
    register(session, "ingest", "two", {"url": "http://two"})
    directory._changed.set()
    other = threading.Thread(target=directory.nodes)
    other.start()
    assert asked.wait(60)
    threading.Timer(0.2, answer.set).start()
    assert [node.node for node in directory.nodes().ingest] == ["one", "two"]
    other.join(60)
    assert not other.is_alive()
