"""Members and groups."""

from __future__ import annotations

import threading

import pytest

from coordination.embedded import EmbeddedZooKeeper
from coordination.groups.leases import Owner, acquire, release
from coordination.groups.membership import (
    RegisteredMember,
    delete_group,
    ensure_group,
    group_mode,
    groups,
    join,
    leave,
    members,
)
from lakequeue.errors import (
    CoordinationUnavailable,
    GroupActive,
    GroupMismatch,
    InvalidName,
    UnknownGroup,
)
from lakequeue.settings import CoordinationSettings
from tests.support.services.zookeeper import DEADLINE_S, MakeSession, erase, expire, wait_for

pytestmark = pytest.mark.zookeeper
ONE = RegisteredMember("m1", ("flights",), "a", client="laptop")


def test_members_join_and_leave_and_a_watch_tells(sessions: MakeSession) -> None:
    a, b = sessions("a"), sessions("b")
    changed = threading.Event()
    assert members(b, "billing", changed) == {}
    join(a, "billing", ONE)
    assert changed.wait(DEADLINE_S)
    changed.clear()
    wait_for(lambda: members(b, "billing", changed) == {"m1": ONE})
    assert groups(b) == ["billing"]
    assert group_mode(b, "billing") == "stream"
    leave(a, "billing", "m1")
    assert changed.wait(DEADLINE_S)
    assert members(b, "billing") == {}


def test_members_go_with_their_nodes_session(sessions: MakeSession) -> None:
    a, b = sessions("a"), sessions("b")
    join(a, "billing", ONE)
    a.stop()
    assert members(b, "billing") == {}


def test_members_join_again_in_a_new_session_and_in_a_rebuilt_ensemble(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession
) -> None:
    a, b = sessions("a", server=own_zookeeper), sessions("b", server=own_zookeeper)
    join(a, "billing", ONE)
    expire(a)
    wait_for(lambda: members(b, "billing") == {"m1": ONE})
    erase(own_zookeeper)
    own_zookeeper.start()
    wait_for(b.trusted)
    wait_for(lambda: members(b, "billing") == {"m1": ONE})
    assert group_mode(b, "billing") == "stream"


def test_a_member_that_left_stays_away_in_a_new_session(sessions: MakeSession) -> None:
    a = sessions("a")
    join(a, "billing", ONE)
    join(a, "billing", RegisteredMember("m2", ("flights",), "a"))
    leave(a, "billing", "m1")
    expire(a)
    wait_for(lambda: list(members(a, "billing")) == ["m2"])


def test_a_node_dropped_while_the_session_is_renewed_does_not_stay(sessions: MakeSession) -> None:
    a = sessions("a")
    path = a.path("kept", "m1")
    made, again = threading.Event(), threading.Event()

    def make() -> None:
        if made.is_set():
            a.drop(path)
        a.put_ephemeral(path, b"")
        (again if made.is_set() else made).set()

    a.maintain(path, make)
    a.stale.set()
    assert again.wait(DEADLINE_S)
    wait_for(lambda: a.read(path) is None)


def test_one_that_cannot_be_made_again_holds_up_no_other(sessions: MakeSession) -> None:
    a = sessions("a")
    made, again = threading.Event(), threading.Event()

    def refused() -> None:
        if made.is_set():
            raise GroupMismatch("group 'billing' is a queue group, stream was asked for")

    a.maintain(a.path("kept", "m1"), refused)
    a.maintain(a.path("kept", "m2"), lambda: (again if made.is_set() else made).set())
    a.stale.set()
    assert again.wait(DEADLINE_S)


def test_a_join_that_failed_while_zookeeper_was_away_does_not_happen_later(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession
) -> None:
    a = sessions("a", server=own_zookeeper, settings=CoordinationSettings())
    own_zookeeper.kill()
    wait_for(lambda: not a.connected.is_set())
    with pytest.raises(CoordinationUnavailable):
        join(a, "billing", ONE)
    own_zookeeper.start()
    wait_for(a.trusted)
    wait_for(lambda: not a.stale.is_set())
    assert members(a, "billing") == {}


def test_a_group_keeps_its_mode(sessions: MakeSession) -> None:
    a = sessions("a")
    join(a, "billing", ONE)
    with pytest.raises(GroupMismatch, match="is a stream group, queue was asked for"):
        join(a, "billing", RegisteredMember("m2", ("flights",), "a", mode="queue"))
    assert list(members(a, "billing")) == ["m1"]


def test_a_group_name_is_checked(sessions: MakeSession) -> None:
    with pytest.raises(InvalidName):
        join(sessions("a"), "a/b", ONE)


def test_only_an_idle_group_can_be_deleted(sessions: MakeSession) -> None:
    a, b = sessions("a"), sessions("b")
    with pytest.raises(UnknownGroup):
        delete_group(b, "billing")
    join(a, "billing", ONE)
    with pytest.raises(GroupActive, match=r"1 members \(m1\)"):
        delete_group(b, "billing")
    lease = acquire(a, "billing", "topic-1", 0, Owner("a", "a-1", "m1"))
    assert lease is not None
    leave(a, "billing", "m1")
    with pytest.raises(GroupActive, match="1 leases"):
        delete_group(b, "billing")
    assert release(lease)
    delete_group(b, "billing")
    assert groups(b) == []
    assert group_mode(b, "billing") is None


def test_a_deleted_group_may_come_back_in_another_mode(sessions: MakeSession) -> None:
    a = sessions("a")
    ensure_group(a, "billing", "stream")
    delete_group(a, "billing")
    join(a, "billing", RegisteredMember("m1", ("flights",), "a", mode="queue"))
    assert group_mode(a, "billing") == "queue"
