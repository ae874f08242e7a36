"""The rules of group commit by a clock given in; the committer's thread by events."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lakequeue.errors import NotReady, Overloaded, StorageFull
from queue_tables.shards.group_commit import Batcher, GroupCommitter

DEADLINE_S = 10.0


def batcher(
    linger_s: float = 0.005, max_group: int = 100, max_pending: int = 1_000
) -> Batcher[Any]:
    return Batcher(linger_s, max_group, max_pending)


def test_the_first_item_after_idleness_goes_at_once() -> None:
    b = batcher()
    assert b.due_in(0.0) is None
    b.add("a", 1, 0.0)
    assert b.due_in(0.0) == 0.0


def test_an_item_right_after_a_commit_waits_for_company_until_the_linger_ends() -> None:
    b = batcher()
    b.add("a", 1, 0.0)
    b.take(0.0)
    b.done(0.010)
    b.add("b", 1, 0.011)
    assert b.due_in(0.012) == pytest.approx(0.004)
    assert (b.due_in(0.016) or 0) <= 0


def test_a_group_waits_for_a_rush_to_end_and_not_for_ever() -> None:
    b = batcher()
    b.add("a", 1, 0.0)
    b.take(0.0)
    b.add("b", 1, 0.001)
    b.done(0.010)
    assert b.due_in(0.010, rush=True) == pytest.approx(0.016)
    assert (b.due_in(0.010) or 0) <= 0  # the rush is over
    assert (b.due_in(0.027, rush=True) or 0) <= 0


def committed_before(b: Batcher[Any], *senders: str | None) -> None:
    """A group of theirs, committed from 0.0 to 0.010."""
    for sender in senders:
        b.add("a", 1, 0.0, sender)
    b.take(0.0)
    b.done(0.010)


def test_a_group_does_not_wait_when_all_of_the_one_before_have_come_again() -> None:
    b = batcher()
    committed_before(b, "ada", "ben")
    b.add("b", 1, 0.011, "ada")
    assert b.due_in(0.011) == pytest.approx(0.005), "ben may come"
    b.add("c", 1, 0.012, "cem")
    b.add("d", 1, 0.012, "ben")
    assert b.due_in(0.012) == 0.0
    assert b.due_in(0.012, rush=True) == pytest.approx(0.024), "more is just being read"
    assert b.take(0.012).items == ["b", "c", "d"]
    b.done(0.020)
    b.add("e", 1, 0.021, "ada")
    b.add("f", 1, 0.021, "ben")
    assert b.due_in(0.021) == pytest.approx(0.005), "now cem may come as well"


@pytest.mark.parametrize("before", [(None,), (None, "ada")])
def test_a_group_waits_after_one_of_others(before: tuple[str | None, ...]) -> None:
    b = batcher()
    committed_before(b, *before)
    b.add("b", 1, 0.011, "ada")
    b.add("c", 1, 0.011)
    assert b.due_in(0.011) == pytest.approx(0.005)


def test_a_long_linger_is_never_cut_short() -> None:
    b = batcher(linger_s=0.1)
    committed_before(b, "ada")
    b.add("b", 1, 0.011, "ada")
    assert b.due_in(0.011) == pytest.approx(0.1)


def test_how_long_a_rush_holds_a_group_is_its_owners_to_say() -> None:
    b: Batcher[str] = Batcher(0.005, 10, 100, rush_s=0.003)
    b.add("a", 1, 0.0)
    b.take(0.0)
    b.add("b", 1, 0.001)
    b.done(0.010)
    assert b.due_in(0.001, rush=True) == pytest.approx(0.008)


def test_a_rush_does_not_hold_the_first_item_after_idleness() -> None:
    b = batcher()
    b.add("a", 1, 0.0)
    assert b.due_in(0.0, rush=True) == 0.0


def test_where_it_is_not_eager_it_waits_for_the_end_of_the_rush_and_not_for_ever() -> None:
    b: Batcher[Any] = Batcher(0.002, 100, 1_000, 0.015, eager=False)
    b.add("a", 1, 0.0)
    assert b.due_in(0.001, rush=True) == pytest.approx(0.016)
    assert b.due_in(0.001) == 0.0
    assert (b.due_in(0.017, rush=True) or 0) <= 0


def test_what_filled_up_while_a_commit_ran_does_not_wait_anew() -> None:
    b = batcher()
    b.add("a", 1, 0.0)
    b.take(0.0)
    b.add("b", 1, 0.001)
    b.done(0.010)
    assert (b.due_in(0.010) or 0) <= 0
    assert b.take(0.010).items == ["b"]


def test_a_group_is_closed_by_its_size_and_an_item_is_never_split() -> None:
    b = batcher(max_group=10)
    b.add("a", 1, 0.0)
    b.take(0.0)
    b.done(0.0)
    for item in ("b", "c", "d"):
        b.add(item, 4, 0.001)
    assert b.due_in(0.001) == 0.0  # two groups
    assert b.take(0.001).items == ["b", "c"]
    b.done(0.001)
    b.add("large", 50, 0.002)
    assert b.take(0.002).items == ["d"]
    b.done(0.002)
    assert b.due_in(0.002) == 0.0
    assert b.take(0.002).items == ["large"]


def test_past_the_bound_in_bytes_it_says_when_to_come_back() -> None:
    b = batcher(max_group=500, max_pending=1_000)
    b.add("a", 500, 0.0)
    b.take(0.0)
    b.add("b", 500, 0.0)
    with pytest.raises(Overloaded, match="1000 bytes are waiting") as caught:
        b.add("c", 1, 0.0)
    assert caught.value.stored == "no"
    assert caught.value.retry_after_s == 0.05
    b.done(1.0)  # 500 bytes a second
    with pytest.raises(Overloaded) as caught:
        b.add("c", 501, 1.0)
    assert caught.value.retry_after_s == pytest.approx(0.5)
    b.add("c", 500, 1.0)


def test_an_item_larger_than_the_bound_is_taken_alone() -> None:
    b = batcher(max_pending=10)
    b.add("large", 11, 0.0)
    with pytest.raises(Overloaded):
        b.add("small", 1, 0.0)


def test_done_without_take_is_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="without take"):
        batcher().done(0.0)


class AnyLoad(RuleBasedStateMachine):
    """Whatever comes when: in order, whole, within the bounds, and never later than the linger."""

    def __init__(self) -> None:
        super().__init__()
        self.b = batcher(linger_s=5, max_group=50, max_pending=200)
        self.now = 0.0
        self.count = 0
        self.committed: list[int] = []
        self.sizes: dict[int, int] = {}
        self.came_at: dict[int, float] = {}
        self.taken: list[int] | None = None
        self.free_since = 0.0

    @rule(size=st.integers(0, 80), after=st.integers(0, 3))
    def add(self, size: int, after: int) -> None:
        self.now += after
        try:
            self.b.add(self.count, size, self.now)
        except Overloaded:
            assert self.waiting() + size > 200
            return
        self.sizes[self.count] = size
        self.came_at[self.count] = self.now
        self.count += 1

    @precondition(lambda self: self.taken is None)
    @rule()
    def take_when_due(self) -> None:
        due_in = self.b.due_in(self.now)
        if due_in is None:
            return
        self.now += max(0.0, due_in)
        self.taken = self.b.take(self.now).items
        assert len(self.taken) == 1 or sum(self.sizes[i] for i in self.taken) <= 50
        lateness = self.now - max(self.came_at[self.taken[0]] + 5, self.free_since)
        assert lateness <= 3 * self.count  # only as late as this machine looked

    @precondition(lambda self: self.taken is not None)
    @rule(took=st.integers(0, 9))
    def done(self, took: int) -> None:
        self.now += took
        assert self.taken is not None
        self.committed += self.taken
        self.taken = None
        self.b.done(self.now)
        self.free_since = self.now

    def waiting(self) -> int:
        return sum(size for i, size in self.sizes.items() if i not in self.committed)

    @invariant()
    def every_byte_is_counted(self) -> None:
        assert self.b.pending_bytes == self.waiting()

    @invariant()
    def nothing_is_committed_out_of_order(self) -> None:
        assert self.committed == list(range(len(self.committed)))


TestAnyLoad = AnyLoad.TestCase
TestAnyLoad.settings = settings(max_examples=50, stateful_step_count=30)


class HeldCommit:
    """A commit that runs until it is let go, and remembers its groups."""

    def __init__(self) -> None:
        self.groups: list[list[Any]] = []
        self.started = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)

    def __call__(self, items: list[Any]) -> int:
        self.groups.append(items)
        self.started.release()
        assert self.let_go.acquire(timeout=DEADLINE_S)
        return len(self.groups)


def committer(commit: Callable[[list[Any]], Any], **options: Any) -> GroupCommitter[Any]:
    limits: dict[str, Any] = {
        "linger_ms": 1.0,
        "max_group_bytes": 100,
        "max_pending_bytes": 200,
    } | options
    return GroupCommitter(commit, **limits).start()


def test_what_comes_while_a_commit_runs_is_one_group_with_one_result() -> None:
    commit = HeldCommit()
    c = committer(commit)
    first = c.submit("a", 1)
    assert commit.started.acquire(timeout=DEADLINE_S)
    later = [c.submit(item, 1) for item in ("b", "c", "d")]
    commit.let_go.release(2)
    assert first.result(DEADLINE_S) == 1
    assert {f.result(DEADLINE_S) for f in later} == {2}
    assert commit.groups == [["a"], ["b", "c", "d"]]
    assert c.drain(DEADLINE_S)
    assert c.pending_bytes == 0


def test_an_error_goes_to_every_submission_of_its_group_and_the_next_group_goes_on() -> None:
    fail = threading.Event()
    fail.set()

    def commit(items: list[Any]) -> list[Any]:
        if fail.is_set():
            raise StorageFull("no space left")
        return items

    c = committer(commit)
    with pytest.raises(StorageFull):
        c.submit("a", 1).result(DEADLINE_S)
    fail.clear()
    assert c.submit("b", 1).result(DEADLINE_S) == ["b"]
    c.drain()


def test_draining_commits_what_was_taken_and_takes_no_more() -> None:
    commit = HeldCommit()
    c = committer(commit, linger_ms=60_000.0)
    futures = [c.submit("a", 1)]
    assert commit.started.acquire(timeout=DEADLINE_S)
    futures += [c.submit("b", 1), c.submit("c", 1)]
    assert c.drain(0.0) is False
    with pytest.raises(NotReady) as caught:
        c.submit("d", 1)
    assert caught.value.stored == "no"
    commit.let_go.release(2)
    assert c.drain(DEADLINE_S) is True
    assert not wait(futures, timeout=0).not_done
    assert commit.groups == [["a"], ["b", "c"]]


def test_the_bound_counts_the_group_that_is_being_committed() -> None:
    commit = HeldCommit()
    c = committer(commit)
    future = c.submit("a", 150)
    assert commit.started.acquire(timeout=DEADLINE_S)
    with pytest.raises(Overloaded):
        c.submit("b", 51)
    commit.let_go.release()
    future.result(DEADLINE_S)
    commit.let_go.release()
    assert c.submit("b", 51).result(DEADLINE_S) == 2
    c.drain()


def test_nobody_takes_back_what_others_are_committed_with() -> None:
    commit = HeldCommit()
    c = committer(commit)
    c.submit("a", 1)
    assert commit.started.acquire(timeout=DEADLINE_S)
    one, other = c.submit("b", 1), c.submit("c", 1)
    assert not one.cancel()
    commit.let_go.release(2)
    assert other.result(DEADLINE_S) == one.result(DEADLINE_S) == 2
    assert commit.groups == [["a"], ["b", "c"]]
    c.drain()


def test_only_what_makes_a_group_due_sooner_has_the_committer_look() -> None:
    b = batcher(linger_s=5, max_group=10, max_pending=100)
    sooner = [b.add(item, 4, 0.0)[1] for item in ("opens", "joins", "opens the next", "joins it")]
    assert sooner == [True, False, True, False]
    assert b.add("fills it", 2, 0.0)[1]
