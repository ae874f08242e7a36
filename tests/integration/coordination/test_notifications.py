"""Notifications wake, are coalesced, and never make anybody wait."""

from __future__ import annotations

import pytest

from coordination.embedded import EmbeddedZooKeeper
from coordination.zookeeper.notifications import NotificationListener, Notifier
from lakequeue.clock import boot_seconds
from tests.support.faults.stopped import stop
from tests.support.services.zookeeper import DEADLINE_S, MakeSession, expire, wait_for

pytestmark = pytest.mark.zookeeper


def test_a_ring_wakes_a_listener_in_another_session(sessions: MakeSession) -> None:
    notifier = Notifier(sessions("a"), "log").start()
    with NotificationListener(sessions("b"), "log").start() as listener:
        for version in (5, 6):
            notifier.notify(version)
            assert listener.wait(DEADLINE_S)
            wait_for(lambda v=version: listener.version == v)  # type: ignore[misc]
    notifier.close()


def test_many_rings_are_few_writes_and_the_last_one_is_heard(sessions: MakeSession) -> None:
    session = sessions("a")
    notifier = Notifier(session, "log", ring_interval_ms=50).start()
    with NotificationListener(sessions("b"), "log").start() as listener:
        for version in range(1, 1_001):
            notifier.notify(version)
        wait_for(lambda: listener.version == 1_000)
    found = session.read(session.path("bells", "log"))
    assert found is not None
    assert found[1].version <= 5
    notifier.close()


def test_nobody_waits_while_zookeeper_is_away_and_a_missed_notification_arrives_on_return(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession
) -> None:
    ringer, hearer = sessions("a", server=own_zookeeper), sessions("b", server=own_zookeeper)
    notifier = Notifier(ringer, "log").start()
    with NotificationListener(hearer, "log").start() as listener:
        notifier.notify(1)
        wait_for(lambda: listener.version == 1)
        stop(own_zookeeper.pid)
        before = boot_seconds()
        notifier.notify(2)
        listener.wait(0.05)
        assert boot_seconds() - before < 1
        own_zookeeper.kill()
        own_zookeeper.start()
        notifier.notify(3)
        wait_for(lambda: listener.version == 3, "heard after the return")
    notifier.close()


def test_a_listener_hears_on_after_a_lost_session(sessions: MakeSession) -> None:
    ringer, hearer = sessions("a"), sessions("b")
    notifier = Notifier(ringer, "log").start()
    with NotificationListener(hearer, "log").start() as listener:
        expire(hearer)
        notifier.notify(9)
        wait_for(lambda: listener.version == 9)
    notifier.close()


def test_waking_a_listener_needs_no_notification(sessions: MakeSession) -> None:
    with NotificationListener(sessions("a"), "log").start() as listener:
        listener.wake()
        assert listener.wait(DEADLINE_S)
