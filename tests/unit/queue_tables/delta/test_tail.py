"""The tail, and finding where to start it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakequeue.errors import CorruptTable, StorageUnavailable, TailLost
from lakequeue.records import Version
from queue_tables.delta.actions import CommitInfo, Txn, commit_path, encode
from queue_tables.delta.store import ObjectStore, Store
from queue_tables.delta.tail import Tail, commit_versions, find_version
from tests.support.faults.faulty_store import FaultyStore


def put_commit(store: Store, version: int, stamp: int | None = None) -> None:
    info = CommitInfo({} if stamp is None else {"stamp": stamp})
    store.put_new(commit_path("t", version), encode([info, Txn("v", version)]))


def table_of(count: int) -> ObjectStore:
    store = ObjectStore.in_memory()
    for version in range(count):
        put_commit(store, version)
    return store


def test_commits_come_in_order_each_once() -> None:
    store = table_of(3)
    tail = Tail(store, "t", Version(-1))
    assert [c.version for c in tail.poll()] == [0, 1, 2]
    assert tail.poll() == []
    put_commit(store, 3)
    assert [c.version for c in tail.poll()] == [3]
    assert tail.version == 3


def test_a_limit_leaves_the_rest_for_the_next_poll() -> None:
    tail = Tail(table_of(5), "t", Version(0))
    assert [c.version for c in tail.poll(limit=3)] == [1, 2, 3]
    assert [c.version for c in tail.poll(limit=3)] == [4]


def fails_at(store: FaultyStore, reads: int) -> None:
    """The read after so many fails."""
    get, left = store.get, [reads]

    def failing(path: str) -> bytes:
        left[0] -= 1
        if left[0] == -1:
            raise StorageUnavailable("the store is away", hint="try again")
        return get(path)

    store.get = failing  # type: ignore[method-assign]


def test_what_was_read_before_a_read_that_failed_comes_with_the_next_poll() -> None:
    for limit, at_once in ((None, [0, 1, 2, 3]), (4, [0, 1, 2, 3]), (1, [0])):
        store = FaultyStore(table_of(4))
        judged: list[int] = []
        tail = Tail(store, "t", Version(-1), check=lambda c, j=judged: j.append(c.version))  # type: ignore[misc]
        fails_at(store, 2)
        with pytest.raises(StorageUnavailable):
            tail.poll()
        assert tail.version == -1
        assert [c.version for c in tail.poll(limit)] == at_once
        rest = tail.poll()
        assert at_once + [c.version for c in rest] == [0, 1, 2, 3] == judged


def test_an_empty_poll_costs_one_failed_open() -> None:
    store = FaultyStore(table_of(1))
    tail = Tail(store, "t", Version(0))
    tail.poll()
    store.opens = 0
    for _ in range(10):
        assert tail.poll() == []
    assert store.opens == 10


def test_a_tail_whose_commits_were_cleaned_up_says_so() -> None:
    store = table_of(6)
    for version in range(4):
        store.delete(commit_path("t", version))
    with pytest.raises(TailLost, match="version 1 was cleaned up"):
        Tail(store, "t", Version(1)).poll()
    # The commit before is gone, but not the next one: nothing is missing.
    assert [c.version for c in Tail(store, "t", Version(3)).poll()] == [4, 5]


def test_a_tail_that_fell_behind_while_it_ran_notices() -> None:
    store = table_of(2)
    tail = Tail(store, "t", Version(1))
    assert tail.poll() == []
    for version in range(2, 6):
        put_commit(store, version)
    for version in range(5):
        store.delete(commit_path("t", version))

    def poll_until_noticed() -> None:
        for _ in range(100):
            assert tail.poll() == []

    with pytest.raises(TailLost):
        poll_until_noticed()


def test_a_tail_that_is_polled_once_an_hour_notices_at_once() -> None:
    store, now = table_of(2), 1_000.0
    tail = Tail(store, "t", Version(1), clock=lambda: now)
    assert tail.poll() == tail.poll() == []
    now += 3_600
    for version in range(2, 6):
        put_commit(store, version)
    for version in range(5):
        store.delete(commit_path("t", version))
    with pytest.raises(TailLost):
        tail.poll()


def test_a_tail_of_no_table_is_lost() -> None:
    with pytest.raises(TailLost):
        Tail(ObjectStore.in_memory(), "t", Version(-1)).poll()


def test_commits_before_a_torn_one_are_returned_first() -> None:
    store = table_of(2)
    store.put_new(commit_path("t", 2), b'{"add":')
    tail = Tail(store, "t", Version(-1))
    assert [c.version for c in tail.poll()] == [0, 1]
    with pytest.raises(CorruptTable):
        tail.poll()
    assert tail.version == 1


def test_versions_are_those_whose_commit_files_exist() -> None:
    store = table_of(3)
    store.put("t/_delta_log/00000000000000000001.checkpoint.parquet", b"x")
    store.put("t/_delta_log/_last_checkpoint", b"x")
    assert commit_versions(store, "t") == [0, 1, 2]
    assert commit_versions(store, "nothing") == []


@given(
    st.lists(st.one_of(st.none(), st.integers(1, 5)), min_size=1, max_size=30),
    st.integers(0, 30),
    st.integers(0, 120),
)
def test_the_start_of_a_tail_is_the_newest_stamp_not_above(
    gaps: list[int | None], cleaned: int, wanted: int
) -> None:
    """Binary search against looking at every commit; `None` is a fence, a seal or the creation."""
    store, stamp = ObjectStore.in_memory(), 0
    stamps: dict[int, int] = {}
    for version, gap in enumerate([None, *gaps]):
        if gap is not None:
            stamp += gap
            stamps[version] = stamp
        put_commit(store, version, None if gap is None else stamp)
    first = min(cleaned, len(gaps))
    for version in range(first):
        store.delete(commit_path("t", version))
    below = [v for v, s in stamps.items() if s <= wanted and v >= first]
    expected = max(below, default=max(first - 1, 0))
    assert find_version(store, "t", wanted) == expected


def test_finding_a_version_of_no_table() -> None:
    with pytest.raises(FileNotFoundError):
        find_version(ObjectStore.in_memory(), "t", 1)
