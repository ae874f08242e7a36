"""The cut, judged by a simulation of producers, nodes with bad clocks, and looks that take time.

A look reads the shards one after another while the world goes on: that is where a cut goes wrong.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from jobs.source.consistent_cut import ScanResult, VisibleCommit, consistent_cut, ends
from lakequeue.records import ShardName, Stamp, Version

Cut = Callable[["World", random.Random], list[VisibleCommit]]


@dataclass
class Node:
    """An ingest process: its shard's visible commits, and a hybrid clock on a skewed wall."""

    shard: ShardName
    skew: int
    commits: list[VisibleCommit] = field(default_factory=list)
    last: int = 0

    def stamp(self, wall: int, after: int) -> Stamp:
        self.last = max(wall + self.skew, self.last + 1, after + 1)
        return Stamp(self.last)


class World:
    """Producers that each carry their last stamp; every act of one is after its last answer."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.wall = 1_000_000_000
        self.nodes = [self._node(i) for i in range(rng.randint(1, 4))]
        self.carried: dict[int, int] = defaultdict(int)
        self.sent: dict[int, list[tuple[Stamp, ShardName]]] = defaultdict(list)
        self.marks: dict[ShardName, Stamp] = {}
        self.log: list[VisibleCommit] = []
        self.shards: list[Node] = list(self.nodes)

    def _node(self, number: int) -> Node:
        skew = self.rng.randint(-60_000_000, 60_000_000)
        return Node(ShardName(f"n{number:03d}"), skew)

    def step(self) -> None:
        """Something happens: a birth of a shard, or a produce request that is acknowledged."""
        self.wall += self.rng.randint(1, 2_000)
        if self.rng.random() < 0.01:
            newborn = self._node(len(self.shards))
            self.shards.append(newborn)
            if self.rng.random() < 0.5:
                self.nodes[self.rng.randrange(len(self.nodes))] = newborn
            else:
                self.nodes.append(newborn)
        producer = self.rng.randrange(6)
        node = self.rng.choice(self.nodes)
        stamp = node.stamp(self.wall, self.carried[producer])
        version = Version(len(node.commits) + 1)
        node.commits.append(VisibleCommit(stamp, node.shard, version, 1, self.rng.randint(1, 100)))
        self.carried[producer] = stamp
        self.sent[producer].append((stamp, node.shard))

    def meanwhile(self) -> None:
        while self.rng.random() < 0.6:
            self.step()

    def scan(self, limit: int = 10**9) -> ScanResult:
        """List the shards, then read each, while the world goes on."""
        listed = list(self.shards)
        self.rng.shuffle(listed)
        found: dict[ShardName, list[VisibleCommit]] = {}
        truncated = set()
        for node in listed:
            self.meanwhile()
            mark = VisibleCommit(self.marks.get(node.shard, Stamp(0)), node.shard, Version(10**9))
            new = node.commits[bisect(node.commits, mark) :]
            if len(new) > limit:
                truncated.add(node.shard)
            if new:
                found[node.shard] = new[:limit]
        self.meanwhile()
        return ScanResult(found, frozenset(truncated))

    def admit(self, admitted: list[VisibleCommit]) -> None:
        self.log += admitted
        self.marks |= ends(admitted)

    def misordered(self) -> int:
        """Records that stand before one that the same producer had acknowledged earlier."""
        place = {(seen.stamp, seen.shard): i for i, seen in enumerate(self.log)}
        wrong = 0
        for acts in self.sent.values():
            places = [place.get(act, len(self.log)) for act in acts]
            wrong += sum(a > b for a, b in pairwise(places))
        return wrong


def two_looks(world: World, rng: random.Random) -> list[VisibleCommit]:
    """The rule under test, with bounds in bytes, in commits, and in commits read."""
    first = world.scan(limit=rng.choice([1, 3, 10**9]))
    second = world.scan()
    known = {c for commits in first.commits.values() for c in commits}
    late = [
        c
        for shard, commits in second.commits.items()
        if shard not in first.truncated
        for c in commits
        if c not in known
    ]
    return consistent_cut(first, late, rng.choice([1, 50, 500, 10**9]), rng.choice([1, 4, 10**9]))


def one_look(world: World, _rng: random.Random) -> list[VisibleCommit]:
    return consistent_cut(world.scan(), [], 10**9, 10**9)


def bound_per_shard(world: World, rng: random.Random) -> list[VisibleCommit]:
    """A wrong bound: a prefix of each shard for itself."""
    admitted = two_looks(world, rng)
    kept: list[VisibleCommit] = []
    for shard in {seen.shard for seen in admitted}:
        kept += [seen for seen in admitted if seen.shard == shard][:2]
    return sorted(kept)


def run(seed: int, cut: Cut) -> World:
    rng = random.Random(seed)
    world = World(rng)
    for _ in range(25):
        for _ in range(rng.randint(0, 8)):
            world.step()
        world.admit(cut(world, rng))
    return world


def seeds(count: int) -> Iterator[int]:
    yield from range(count)


@pytest.mark.parametrize("block", range(4))
def test_two_scans_never_misorder(block: int) -> None:
    for seed in range(block * 60, block * 60 + 60):
        world = run(seed, two_looks)
        assert world.log, f"seed {seed}: nothing was admitted"
        assert world.misordered() == 0, f"seed {seed}"
        assert len(set(world.log)) == len(world.log), f"seed {seed}: a commit was admitted twice"


@pytest.mark.parametrize("wrong", [one_look, bound_per_shard])
def test_the_simulation_catches_wrong_rules(wrong: Cut) -> None:
    assert any(run(seed, wrong).misordered() for seed in seeds(20))


def test_everything_quiet_is_admitted() -> None:
    rng = random.Random(1)
    world = run(1, two_looks)
    world.meanwhile = lambda: None  # type: ignore[method-assign]
    for _ in range(100_000):
        if not (admitted := two_looks(world, rng)):
            break
        world.admit(admitted)
    assert {(s.stamp, s.shard) for s in world.log} == {
        (c.stamp, c.shard) for n in world.shards for c in n.commits
    }
    assert world.misordered() == 0


def test_at_least_one_commit_is_admitted_whatever_its_size() -> None:
    seen = VisibleCommit(Stamp(5), ShardName("a"), Version(1), 1, 1_000)
    assert consistent_cut(ScanResult({seen.shard: [seen]}), [], max_bytes=10, max_commits=9) == [
        seen
    ]


def test_a_late_commit_holds_back_what_is_not_below_it() -> None:
    a, b = VisibleCommit(Stamp(5), ShardName("a")), VisibleCommit(Stamp(7), ShardName("b"))
    late = VisibleCommit(Stamp(7), ShardName("c"))
    assert consistent_cut(ScanResult({a.shard: [a], b.shard: [b]}), [late], 100, 100) == [a]
