"""The looks at real shards (in memory), where something happens between two reads of one look."""

from __future__ import annotations

import pytest

from jobs.source.leader_state import LeaderState
from jobs.source.shard_scanner import ShardScanner
from lakequeue.errors import StorageUnavailable
from lakequeue.records import Epoch, ShardName, Stamp
from queue_tables.delta.actions import commit_path
from queue_tables.delta.store import ObjectStore
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter, seal_shard
from tests.support.data.rows import inbox_rows


def test_a_shard_sealed_during_the_look_does_not_spare_the_second() -> None:
    root = QueueRoot.over(ObjectStore.in_memory())
    alive, dying = (ShardWriter.create(root, "inbox", node) for node in ("a", "b"))
    scanner = ShardScanner(root, "inbox", 1 << 20)
    scanner.begin(LeaderState(Epoch(1)))
    assert scanner.next_end() is None

    read = scanner._read

    def read_and_more(name: ShardName, shard: object, *, more: bool = False) -> None:
        read(name, shard, more=more)  # type: ignore[arg-type]
        if name == alive.name and dying.version == 0:
            # Read already; now one producer is acknowledged by one node, then by the other.
            alive.append(inbox_rows([b"x"]), Stamp(50))
            dying.append(inbox_rows([b"x"]), Stamp(100))
            seal_shard(root, "inbox", dying.name)

    alive.append(inbox_rows([b"x"]), Stamp(40))
    scanner._read = read_and_more  # type: ignore[method-assign]
    assert scanner.next_end() == {alive.name: 40}
    assert scanner.next_end() == {alive.name: 50, dying.name: 100}


def test_a_run_that_ends_takes_all_of_its_commits_and_overtakes_none() -> None:
    root = QueueRoot.over(ObjectStore.in_memory())
    old = ShardWriter.create(root, "inbox", "a")
    scanner = ShardScanner(root, "inbox", 1 << 20)
    scanner.begin(LeaderState(Epoch(1)))
    old.append(inbox_rows([b"x"]), Stamp(50))
    targets = scanner.targets()
    new = ShardWriter.create(root, "inbox", "b")
    new.append(inbox_rows([b"x"]), Stamp(40))
    new.append(inbox_rows([b"x"]), Stamp(60))
    assert scanner.next_end(targets) == {old.name: 50, new.name: 40}
    assert scanner.next_end(targets) is None


def test_a_run_that_ends_takes_also_what_one_look_does_not_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jobs.source.shard_scanner.MAX_READ", 4)
    root = QueueRoot.over(ObjectStore.in_memory())
    shard = ShardWriter.create(root, "inbox", "a")
    for stamp in range(1, 11):
        shard.append(inbox_rows([b"x"]), Stamp(stamp))
    scanner = ShardScanner(root, "inbox", 1 << 20)
    scanner.begin(LeaderState(Epoch(1)))
    targets = scanner.targets()
    shard.append(inbox_rows([b"x"]), Stamp(11))
    ends = []
    while (end := scanner.next_end(targets)) is not None:
        ends.append(end[shard.name])
        scanner.done(end)
    assert ends[-1] == 10


def test_no_commit_is_passed_over_when_the_store_is_away_in_the_middle_of_a_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = ObjectStore.in_memory()
    root = QueueRoot.over(store)
    shard = ShardWriter.create(root, "inbox", "a")
    scanner = ShardScanner(root, "inbox", 1 << 20)
    scanner.begin(LeaderState(Epoch(1)))
    assert scanner.next_end() is None
    for stamp in (10, 20, 30):
        shard.append(inbox_rows([b"x"]), Stamp(stamp))
    last, get = commit_path(f"inbox/{shard.name}", shard.version), store.get

    def away(path: str) -> bytes:
        if path == last:
            raise StorageUnavailable("the store is away", hint="try again")
        return get(path)

    monkeypatch.setattr(store, "get", away)
    with pytest.raises(StorageUnavailable):
        scanner.next_end()
    monkeypatch.undo()
    end = scanner.next_end()
    assert end == {shard.name: 30}
    assert [seen.stamp for seen in scanner.between({}, end)] == [10, 20, 30]


def test_the_first_batch_of_a_term_is_small_and_the_next_ones_are_larger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jobs.source.shard_scanner.FIRST_COMMITS", 4)
    root = QueueRoot.over(ObjectStore.in_memory())
    shard = ShardWriter.create(root, "inbox", "a")
    for stamp in range(1, 23):
        shard.append(inbox_rows([b"x"]), Stamp(stamp))
    scanner = ShardScanner(root, "inbox", 1 << 20)
    for epoch in (1, 2):
        # A new leader begins small again, and from what is ordered.
        scanner.begin(LeaderState(Epoch(epoch)))
        ends = [scanner.next_end() for _ in range(4)]
        assert ends == [{shard.name: 4}, {shard.name: 12}, {shard.name: 22}, None]
