"""The list of nodes, while ZooKeeper is slow."""

from __future__ import annotations

import threading

import pytest

from coordination.directory import Directory
from coordination.embedded import EmbeddedZooKeeper
from coordination.registry import register
from lakequeue.settings import CoordinationSettings
from tests.support.zookeeper import MakeSession, wait_for

pytestmark = pytest.mark.zookeeper


def test_while_one_caller_waits_for_zookeeper_the_others_are_told_what_is_known(
    sessions: MakeSession, own_zookeeper: EmbeddedZooKeeper
) -> None:
    session = sessions(server=own_zookeeper, settings=CoordinationSettings())
    register(session, "ingest", "one", {"url": "http://one"})
    directory = Directory(session)
    known = directory.nodes()
    assert [node.node for node in known.ingest] == ["one"]
    own_zookeeper.pause()
    try:
        # As the watch does when a node comes or goes.
        directory._changed.set()
        waiting = threading.Thread(target=directory.nodes)
        waiting.start()
        wait_for(directory._asking.locked, "one asks")
        assert directory.nodes() == known
        assert waiting.is_alive(), "it had to wait for the other"
    finally:
        own_zookeeper.resume()
    waiting.join(60)
    assert not waiting.is_alive()
