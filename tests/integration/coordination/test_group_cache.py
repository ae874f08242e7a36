"""What of many groups is read again, and that nothing which changes is missed."""

from __future__ import annotations

import threading
from typing import Any

import orjson
import pytest

from coordination.groups.group_cache import SLOW_POLL_S, GroupCache
from coordination.groups.membership import RegisteredMember, delete_group, group_path, join, leave
from coordination.zookeeper.requests import Requests
from coordination.zookeeper.session import Session
from lakequeue.errors import CoordinationUnavailable
from tests.support.services.zookeeper import MakeSession, expire, wait_for

pytestmark = pytest.mark.zookeeper
GROUPS = [f"g{number:03}" for number in range(300)]
"""More than are asked for at once."""


class Counted(GroupCache):
    """Notes what it reads."""

    def __init__(self, session: Session) -> None:
        self.wake = threading.Event()
        super().__init__(session, self.wake)
        self.now = 0.0
        self.read: list[str] = []

    def _read(self, due: list[str]) -> None:
        self.read = due
        super()._read(due)

    def looked(self) -> dict[str, set[str]]:
        """Group → its members, as a look finds them."""
        self.wake.clear()
        return {
            group: {orjson.loads(data)["member_id"] for data in seen.members}
            for group, seen in self.refresh(self.now).items()
        }

    def is_told(self, group: str, members: set[str]) -> None:
        """It is woken, and then finds these; a wake too many is allowed."""
        wait_for(lambda: self.wake.is_set() and self.looked()[group] == members, f"{members}")


def member(name: str) -> RegisteredMember:
    return RegisteredMember(name, ("orders",), "a")


def create(session: Session, groups: list[str]) -> None:
    """Groups without members, quickly."""
    for group in groups:
        session.ensure(group_path(session, group, "members"))


def test_of_many_groups_those_are_read_that_have_changed(sessions: MakeSession) -> None:
    a, b = sessions("a"), sessions("b")
    create(a, GROUPS)
    join(b, GROUPS[7], member("m1"))
    seen = Counted(a)
    first = seen.looked()
    assert first == {group: set() for group in GROUPS} | {GROUPS[7]: {"m1"}}
    assert seen.read == GROUPS
    assert seen.looked() == first
    assert seen.read == []
    join(b, GROUPS[8], member("m2"))
    # Its parts are made first, and are no change of members.
    assert wait_for(lambda: seen.looked()[GROUPS[8]]) == {"m2"}
    assert seen.read == [GROUPS[8]]
    leave(b, GROUPS[7], "m1")
    seen.is_told(GROUPS[7], set())
    assert seen.read == [GROUPS[7]]
    b.stop()
    seen.is_told(GROUPS[8], set())
    assert seen.read == [GROUPS[8]]
    seen.now += SLOW_POLL_S
    seen.looked()
    assert seen.read == GROUPS, "a watch may have gone missing"


def test_groups_that_come_and_go_and_come_again_are_met(sessions: MakeSession) -> None:
    a = sessions("a")
    seen = Counted(a)
    assert seen.looked() == {}
    join(a, "billing", member("m1"))
    wait_for(lambda: seen.looked() == {"billing": {"m1"}}, "it is there")
    path = group_path(a, "billing", "assignment")
    a.call(a.kazoo.create_async, path, b"{}")
    seen.written("billing", b"{}", 0)
    leave(a, "billing", "m1")
    delete_group(a, "billing")
    join(a, "billing", member("m2"))
    wait_for(lambda: seen.looked() == {"billing": {"m2"}}, "it is another one")
    assert seen.refresh(seen.now)["billing"].version is None


def test_after_a_lost_session_everything_is_read(sessions: MakeSession) -> None:
    a, b = sessions("a"), sessions("b")
    for number, group in enumerate(GROUPS[:3]):
        join(b, group, member(f"m{number}"))
    seen = Counted(a)
    before = seen.looked()
    expire(a)
    wait_for(a.trusted)
    again: set[str] = set()

    def all_read() -> bool:
        assert seen.looked() == before
        again.update(seen.read)
        return again == set(GROUPS[:3])

    wait_for(all_read, "all are read again")


def test_what_could_not_be_read_stays_to_be_read(
    sessions: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = sessions("a")
    join(a, "billing", member("m1"))
    seen = Counted(a)

    def away(*_: Any) -> Any:
        raise CoordinationUnavailable("gone (made by a test)")

    with monkeypatch.context() as patch:
        patch.setattr(Requests, "get_all", away)
        with pytest.raises(CoordinationUnavailable):
            seen.looked()
    assert seen.looked() == {"billing": {"m1"}}
