"""The state of groups from real tables: whole while folds go on, and fenced by epoch."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from lakequeue.errors import LeadershipLost
from lakequeue.records import Epoch, Offset, Partition, ShardName, Stamp, TopicId, Version
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import Tail
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Fence, Key, Kind, States, fold_news
from queue_tables.groups.state import (
    GroupOffsetsWriter,
    GroupStateReader,
    journal_news,
    read_group_offsets,
    read_group_state,
)
from queue_tables.root import QueueRoot
from queue_tables.shards.shard_removal import remove_shard
from queue_tables.shards.shards import ShardWriter, fence_shard, seal_shard
from queue_tables.upkeep.clean_up import clean_commits
from queue_tables.upkeep.delta_rs import checkpoint_table

KEY = Key("g", TopicId("t1"), Partition(0))


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path / "root"))


class Journal:
    """A consumer service's shard: appends facts, one group each."""

    def __init__(self, root: QueueRoot, node: str = "c") -> None:
        self.writer = ShardWriter.create(root, "journal", node)
        self.name = self.writer.name
        self.stamp = 0

    def say(
        self, kind: Kind, offset: int | None = None, *, epoch: int = 1, group: str = "g"
    ) -> None:
        self.stamp += 1
        fact = Fact(
            kind,
            group,
            "orders",
            TopicId("t1"),
            Partition(0),
            0,
            Epoch(epoch),
            None if offset is None else Offset(offset),
            at=self.stamp,
        )
        self.writer.append(to_arrow([fact]), Stamp(self.stamp))


def fold_all(root: QueueRoot, writer: GroupOffsetsWriter, states: States) -> States:
    """What the offsets job does once."""
    folded: dict[ShardName, Stamp] = {}
    for shard in root.shards("journal"):
        tail = Tail(root.store, f"journal/{shard}", Version(-1))
        news = journal_news(root.store, shard, tail.poll())
        states = fold_news(states, news.states, news.fences, {shard} if news.sealed else ())
        if news.last_stamp is not None:
            folded[shard] = news.last_stamp
    writer.commit(states, folded)
    return states


def test_facts_count_before_and_after_they_are_folded(root: QueueRoot) -> None:
    assert read_group_state(root).states == {}
    journal = Journal(root)
    journal.say(Kind.TAKEN)
    journal.say(Kind.COMMITTED, 10)
    unfolded = read_group_state(root, "g")
    assert unfolded.states[KEY].committed_offset == 10
    assert unfolded.states[KEY].to_fence(Epoch(2)) == [journal.name]
    assert read_group_offsets(root) == ({}, {})

    writer = GroupOffsetsWriter(root)
    fold_all(root, writer, writer.begin(Epoch(1))[0])
    states, folded = read_group_offsets(root)
    assert states == unfolded.states
    assert folded == {journal.name: 2}
    assert read_group_state(root).states == states

    journal.say(Kind.COMMITTED, 12)
    assert read_group_state(root).states[KEY].committed_offset == 12


def test_a_group_is_read_without_the_others(root: QueueRoot) -> None:
    journal = Journal(root)
    journal.say(Kind.COMMITTED, 1)
    journal.say(Kind.COMMITTED, 2, group="h")
    assert {key.group for key in read_group_state(root).states} == {"g", "h"}
    assert {key.group for key in read_group_state(root, "h").states} == {"h"}
    writer = GroupOffsetsWriter(root)
    fold_all(root, writer, writer.begin(Epoch(1))[0])
    assert {key.group for key in read_group_state(root, "h").states} == {"h"}


def test_fences_are_seen_folded_or_not(root: QueueRoot) -> None:
    journal = Journal(root)
    journal.say(Kind.TAKEN)
    assert fence_shard(root, journal.name, [("g", "t1", 0, 5)])
    reading = read_group_state(root)
    assert [fence.epoch for fence in reading.fences] == [5]
    assert reading.states[KEY].to_fence(Epoch(6)) == []
    assert reading.states[KEY].highest_epoch == 5
    assert read_group_state(root, "other").fences == []
    writer = GroupOffsetsWriter(root)
    fold_all(root, writer, writer.begin(Epoch(1))[0])
    assert read_group_offsets(root)[0][KEY].highest_epoch == 5


def test_a_sealed_shard_is_no_holder(root: QueueRoot) -> None:
    journal = Journal(root)
    journal.say(Kind.TAKEN)
    journal.say(Kind.COMMITTED, 3)
    seal_shard(root, "journal", journal.name)
    state = read_group_state(root).states[KEY]
    assert state.to_fence(Epoch(9)) == []
    assert state.committed_offset == 3


def test_folded_shards_may_be_cleaned_up_behind_a_checkpoint(root: QueueRoot) -> None:
    journal = Journal(root)
    for offset in range(1, 6):
        journal.say(Kind.COMMITTED, offset)
    reader = GroupStateReader(root)
    writer = GroupOffsetsWriter(root)
    fold_all(root, writer, writer.begin(Epoch(1))[0])
    version = checkpoint_table(root, journal.writer.path)
    for n in range(version):
        root.store.delete(f"{journal.writer.path}/_delta_log/{n:020d}.json")
    journal.say(Kind.COMMITTED, 9)
    assert reader.read().states[KEY].committed_offset == 9


@pytest.mark.parametrize("gone", ["commits", "shard"])
def test_a_reading_that_is_overtaken_by_a_fold_and_maintenance_reads_again(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    journal, newer = Journal(root), Journal(root, "d")
    writer = GroupOffsetsWriter(root)
    states, _ = writer.begin(Epoch(1))
    journal.say(Kind.COMMITTED, 1)
    newer.say(Kind.TAKEN)
    states = fold_all(root, writer, states)
    journal.say(Kind.COMMITTED, 5)
    journal.say(Kind.COMMITTED, 7, group="h")
    reader = GroupStateReader(root)
    durable = TableLog.make_durable

    def overtaken(table: TableLog) -> None:
        """The first time, between the reader's look at the folded states and at the shards."""
        durable(table)
        if table.path != "group_offsets":
            return
        monkeypatch.undo()
        fold_all(root, writer, states)
        if gone == "shard":
            seal_shard(root, "journal", journal.name)
            remove_shard(root, "journal", journal.name)
        else:
            path, now_ms = journal.writer.path, 1 << 62
            newest = checkpoint_table(root, path)
            assert clean_commits(root, path, now_ms, newest) == newest

    monkeypatch.setattr(TableLog, "make_durable", overtaken)
    assert reader.read().states[KEY].committed_offset == 5
    assert reader.read().states[KEY].committed_offset == 5


def test_a_superseded_leader_commits_no_more(root: QueueRoot) -> None:
    old, new = GroupOffsetsWriter(root), GroupOffsetsWriter(root)
    states, folded = old.begin(Epoch(1))
    old.commit(states, folded)
    with pytest.raises(LeadershipLost, match="epoch 1 presented, 1 in group_offsets"):
        new.begin(Epoch(1))
    assert new.recorded_epoch == 1
    new.begin(Epoch(2))
    files = root.store.names("group_offsets")
    with pytest.raises(LeadershipLost, match="epoch 1 presented, 2 in group_offsets"):
        old.commit(states, {ShardName("c-1"): Stamp(99)})
    assert read_group_offsets(root)[1] == {}
    assert root.store.names("group_offsets") == files


def test_each_fold_replaces_all_rows(root: QueueRoot) -> None:
    journal = Journal(root)
    writer = GroupOffsetsWriter(root)
    states, _ = writer.begin(Epoch(1))
    for offset in range(1, 4):
        journal.say(Kind.COMMITTED, offset)
        states = fold_all(root, writer, states)
    table = TableLog(root.store, "group_offsets").open()
    assert len(table.files) == 1
    assert read_group_offsets(root)[0][KEY].committed_offset == 3


def test_a_reading_never_goes_back_while_folds_go_on(root: QueueRoot) -> None:
    """The one who reads sees at least what was committed before, whatever the fold does."""
    journal = Journal(root)
    committed = [0]
    stop = threading.Event()
    failures: list[BaseException] = []

    def consume() -> None:
        for offset in range(1, 120):
            journal.say(Kind.COMMITTED, offset)
            committed[0] = offset
        stop.set()

    def fold_on() -> None:
        try:
            writer = GroupOffsetsWriter(root)
            states, _ = writer.begin(Epoch(1))
            while not stop.is_set():
                states = fold_all(root, writer, states)
        except BaseException as error:  # noqa: BLE001 -- reported by the test's own thread
            failures.append(error)

    threads = [threading.Thread(target=consume), threading.Thread(target=fold_on)]
    for thread in threads:
        thread.start()
    reader = GroupStateReader(root)
    readings = 0
    while not stop.is_set():
        before = committed[0]
        state = reader.read("g").states.get(KEY)
        assert before == 0 or (state is not None and (state.committed_offset or 0) >= before)
        readings += 1
    for thread in threads:
        thread.join(timeout=60)
    assert not failures
    assert readings > 3
    assert reader.read("g").states[KEY].committed_offset == 119


def test_a_second_reading_reads_what_is_new_and_no_more(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    journals = [Journal(root, "c"), Journal(root, "d")]
    for journal in journals:
        for offset in range(1, 11):
            journal.say(Kind.COMMITTED, offset, group=journal.name)
    reader = GroupStateReader(root)
    first = reader.read()
    journals[0].say(Kind.COMMITTED, 11, group=journals[0].name)
    fence_shard(root, journals[1].name, [("g", TopicId("t1"), Partition(0), Epoch(7))])
    asked: list[str] = []
    get = root.store.get

    def counted(path: str) -> bytes:
        asked.append(path)
        return get(path)

    monkeypatch.setattr(root.store, "get", counted)
    second = reader.read()
    monkeypatch.undo()
    found = [path for path in asked if path.endswith(".json")]
    # Of each shard the new commit, and the one after it, which is not there.
    assert len([path for path in found if path.startswith("journal/")]) == 4
    assert second.fences == [Fence(journals[1].name, "g", TopicId("t1"), Partition(0), Epoch(7))]
    assert second.states != first.states
    assert second.states == GroupStateReader(root).read().states

    # What is folded meanwhile is let go of, and so is all with `forget`.
    writer = GroupOffsetsWriter(root)
    fold_all(root, writer, writer.begin(Epoch(1))[0])
    assert reader.read().fences == GroupStateReader(root).read().fences
    reader.forget()
    assert reader.read().states == second.states
