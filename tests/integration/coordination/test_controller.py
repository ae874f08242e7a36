"""The controller: every change ends in the right assignment."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from coordination.embedded import EmbeddedZooKeeper
from coordination.groups.controller import Controller, GroupAssignment, read_assignment
from coordination.groups.membership import RegisteredMember, delete_group, groups, join, leave
from coordination.zookeeper.election import State
from coordination.zookeeper.notifications import Notifier
from coordination.zookeeper.session import Session
from lakequeue.errors import StorageUnavailable
from tests.support.services.zookeeper import DEADLINE_S, MakeSession, erase, expire, wait_for

pytestmark = pytest.mark.zookeeper


class Topics:
    """Stands in for the table of topics: name → partition count; may be out of order."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts
        self.failures = 0
        self.calls = 0

    def __call__(self, names: list[str]) -> list[tuple[str, str, int]]:
        self.calls += 1
        if self.failures > 0:
            self.failures -= 1
            raise StorageUnavailable("the table of topics cannot be read")
        known = [name for name in names if name in self.counts]
        return [(name, f"{name}-id", p) for name in known for p in range(self.counts[name])]


Control = Callable[..., Controller]


@pytest.fixture
def control() -> Iterator[Control]:
    started: list[Controller] = []

    def start(session: Session, topics: Topics) -> Controller:
        started.append(Controller(session, topics).start())
        return started[-1]

    yield start
    for controller in started:
        controller.stop()


def member(name: str, *topics: str) -> RegisteredMember:
    return RegisteredMember(name, topics or ("flights",), "a")


def shares(session: Session, group: str = "billing") -> dict[str, int]:
    """How many partitions each member has."""
    assignment = read_assignment(session, group)
    return {name: len(targets) for name, targets in assignment.members.items()}


def settled(session: Session, expected: dict[str, int], group: str = "billing") -> GroupAssignment:
    wait_for(lambda: shares(session, group) == expected, f"{group} becomes {expected}")
    return read_assignment(session, group)


def test_members_that_come_and_go_are_answered_with_the_fewest_moves(
    sessions: MakeSession, control: Control
) -> None:
    a = sessions("a")
    control(a, Topics(flights=8))
    join(a, "billing", member("m1"))
    settled(a, {"m1": 8})
    join(a, "billing", member("m2"))
    two = settled(a, {"m1": 4, "m2": 4})
    join(a, "billing", member("m3"))
    three = settled(a, {"m1": 3, "m2": 3, "m3": 2})
    assert set(three.of("m1")) < set(two.of("m1"))
    assert three.version > two.version
    leave(a, "billing", "m1")
    settled(a, {"m2": 4, "m3": 4})
    leave(a, "billing", "m2")
    leave(a, "billing", "m3")
    settled(a, {})


def test_groups_are_apart(sessions: MakeSession, control: Control) -> None:
    a = sessions("a")
    control(a, Topics(flights=2, orders=3))
    join(a, "billing", member("m1", "flights"))
    join(a, "audit", member("m1", "flights", "orders"))
    settled(a, {"m1": 2})
    settled(a, {"m1": 5}, "audit")
    leave(a, "billing", "m1")
    settled(a, {})
    delete_group(a, "billing")
    assert groups(a) == ["audit"]
    assert shares(a, "audit") == {"m1": 5}


def test_members_of_a_node_whose_session_ends_are_replaced(
    sessions: MakeSession, control: Control
) -> None:
    a, b = sessions("a"), sessions("b")
    control(a, Topics(flights=4))
    join(a, "billing", member("m1"))
    join(b, "billing", member("m2"))
    settled(a, {"m1": 2, "m2": 2})
    b.stop()
    settled(a, {"m1": 4})


def test_the_notification_of_topics_brings_new_partitions(
    sessions: MakeSession, control: Control
) -> None:
    a, b = sessions("a"), sessions("b")
    topics = Topics(flights=2)
    control(a, topics)
    join(b, "billing", member("m1", "flights", "later"))
    settled(a, {"m1": 2})
    topics.counts |= {"flights": 4, "later": 1}
    notifier = Notifier(b, "topics").start()
    notifier.notify(1)
    settled(a, {"m1": 5})
    notifier.close()


def test_errors_are_survived_with_growing_pauses(sessions: MakeSession, control: Control) -> None:
    a = sessions("a")
    topics = Topics(flights=2)
    topics.failures = 3
    control(a, topics)
    join(a, "billing", member("m1"))
    settled(a, {"m1": 2})
    # Three failures, then the one that succeeded, and a few looks at changes: no busy loop.
    assert topics.calls < 15


def test_a_controller_that_cannot_reach_storage_leaves_the_post_to_one_that_can(
    sessions: MakeSession, control: Control
) -> None:
    a, b = sessions("a"), sessions("b")
    sick = Topics(flights=2)
    first = control(a, sick)
    assert first.election.wait_leading(DEADLINE_S)
    second = control(b, Topics(flights=2))
    sick.failures = 1_000_000
    join(b, "billing", member("m1"))
    settled(b, {"m1": 2})
    assert second.election.leading.is_set()
    sick.failures = 0
    wait_for(lambda: first.election.state is State.STANDBY, "the first stands again")
    second.stop()
    join(b, "billing", member("m2"))
    settled(b, {"m1": 1, "m2": 1})


def test_an_idle_controller_does_not_look(sessions: MakeSession, control: Control) -> None:
    a = sessions("a")
    topics = Topics(flights=2)
    controller = control(a, topics)
    join(a, "billing", member("m1"))
    settled(a, {"m1": 2})
    before = topics.calls
    controller.election.wait_ended(1.0)
    assert topics.calls - before <= 2


def test_another_controller_takes_over_and_moves_nothing(
    sessions: MakeSession, control: Control
) -> None:
    a, b = sessions("a"), sessions("b")
    first = control(a, Topics(flights=4))
    assert first.election.wait_leading(DEADLINE_S)
    second = control(b, Topics(flights=4))
    join(b, "billing", member("m1"))
    before = settled(b, {"m1": 4})
    first.stop()
    assert second.election.wait_leading(DEADLINE_S)
    join(b, "billing", member("m2"))
    after = settled(b, {"m1": 2, "m2": 2})
    assert after.epoch > before.epoch
    assert set(after.of("m1")) < set(before.of("m1"))


def test_a_controller_that_lost_its_session_goes_on_in_a_new_one(
    sessions: MakeSession, control: Control
) -> None:
    a, b = sessions("a"), sessions("b")
    control(a, Topics(flights=4))
    join(b, "billing", member("m1"))
    settled(b, {"m1": 4})
    expire(a)
    join(b, "billing", member("m2"))
    settled(b, {"m1": 2, "m2": 2})


def test_a_rebuilt_ensemble_gets_its_groups_and_assignments_back(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession, control: Control
) -> None:
    a = sessions("a", server=own_zookeeper)
    control(a, Topics(flights=4))
    join(a, "billing", member("m1"))
    settled(a, {"m1": 4})
    erase(own_zookeeper)
    own_zookeeper.start()
    wait_for(lambda: a.incarnation > 0 and a.trusted())
    settled(a, {"m1": 4})


def test_a_group_that_cannot_be_assigned_does_not_stop_the_others(
    sessions: MakeSession, control: Control
) -> None:
    class SomeBroken(Topics):
        def __call__(self, names: list[str]) -> list[tuple[str, str, int]]:
            if "broken" in names:
                raise StorageUnavailable("this topic cannot be read")
            return super().__call__(names)

    a = sessions("a")
    join(a, "a-first", member("m1", "broken"))
    join(a, "billing", member("m1"))
    control(a, SomeBroken(flights=2))
    settled(a, {"m1": 2})
