"""The offsets job is killed at each of its steps, and started again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lakequeue.errors import LeadershipLost
from lakequeue.records import Epoch, Offset, Partition, ShardName, Stamp, TopicId
from lakequeue.steps import Step
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Kind
from queue_tables.groups.state import read_group_offsets, read_group_state
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter, fence_shard, seal_shard
from tests.support.forking.forked import run
from tests.support.kinds import one_now
from tests.support.runs.fold_process import Folder

BASE = 1_700_000_000_000_000
STEPS = [step for step in Step if step.startswith("fold.")]


class Journal:
    """A consumer node's hand: commits facts with rising stamps."""

    def __init__(self, root: QueueRoot, node: str) -> None:
        self._writer = ShardWriter.create(root, "journal", node)
        self.count = 0

    @property
    def name(self) -> ShardName:
        return self._writer.name

    def commit(self, kind: Kind, epoch: int, offset: int | None = None) -> None:
        self.count += 1
        fact = Fact(
            kind,
            "g",
            "orders",
            TopicId("t"),
            Partition(0),
            0,
            Epoch(epoch),
            None if offset is None else Offset(offset),
        )
        self._writer.append(to_arrow([fact]), Stamp(BASE + self.count))


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path / "queue"))


def fold_process(root: QueueRoot, epoch: int, *args: str) -> int:
    command = [sys.executable, "-m", "tests.support.runs.fold_process", "--root", root.uri]
    command += ["--epoch", str(epoch), *args]
    return run(command)


@pytest.mark.parametrize("step", one_now(STEPS))
def test_killed_at_a_step_no_position_is_lost(root: QueueRoot, step: Step) -> None:
    journal = Journal(root, "c")
    journal.commit(Kind.TAKEN, 1)
    for offset in range(1, 8):
        journal.commit(Kind.COMMITTED, 1, offset)
    before = read_group_state(root).states
    assert fold_process(root, 1, "--crash-at", f"{step}:3") == -9
    assert read_group_state(root).states == before
    Folder(root, 2).drain()
    states, folded = read_group_offsets(root)
    assert states == before
    assert folded == {journal.name: BASE + journal.count}


def test_a_superseded_fold_is_refused(root: QueueRoot) -> None:
    journal = Journal(root, "c")
    journal.commit(Kind.COMMITTED, 1, 3)
    old = Folder(root, 1)
    new = Folder(root, 2)
    with pytest.raises(LeadershipLost):
        old.drain()
    new.drain()
    (state,) = read_group_offsets(root)[0].values()
    assert state.committed_offset == 3


def test_fences_are_folded_and_a_sealed_shard_is_forgotten(root: QueueRoot) -> None:
    first, second = Journal(root, "a"), Journal(root, "b")
    first.commit(Kind.TAKEN, 1)
    assert fence_shard(root, first.name, [("g", "t", 0, 2)])
    second.count = first.count
    second.commit(Kind.TAKEN, 2)
    first.count = second.count
    folder = Folder(root, 1)
    folder.drain()
    (state,) = read_group_offsets(root)[0].values()
    assert state.to_fence(Epoch(3)) == sorted([first.name, second.name])
    assert read_group_state(root).states[state.key].to_fence(Epoch(3)) == [second.name]
    seal_shard(root, "journal", first.name)
    folder.job.upkeep({"b"})
    second.commit(Kind.COMMITTED, 2, 9)
    folder.drain()
    (state,) = read_group_offsets(root)[0].values()
    assert list(state.holders) == [second.name]
    assert state.committed_offset == 9
