"""Which commits of the inbox shards may be ordered now: the consistent cut by two looks (pure).

If record m1 was acknowledged before m2 was sent, m1 must not be ordered after m2, though they may
have gone through nodes whose clocks differ, and though nobody can look at all shards at one
moment. So the source looks at all shards twice, and admits of the first look only what is below
every stamp that the second look found new:

  m2 in the first look  =>  m1 was visible before the first look ended, so the second look sees it;
  m1 not in the first   =>  m1's stamp is one of the late ones, m2's is above it, and m2 waits too;
  m1 in the first       =>  both are candidates, and a prefix in (stamp, shard) order keeps order.

No bound on the clocks is needed: stamps rise within a shard, and a producer carries the last one
it saw from node to node. Simulated in `tests/unit/jobs/source/test_consistent_cut.py`, where one
look is caught.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lakequeue.records import ShardName, Stamp, Version


class VisibleCommit(NamedTuple):
    """One visible commit of one shard; ordered by (stamp, shard)."""

    stamp: Stamp
    shard: ShardName
    version: Version = Version(0)
    rows: int = 0
    bytes: int = 0
    """Record bytes of the commit: what the bound of a batch counts."""
    paths: tuple[str, ...] = ()
    """Data files, relative to the shard's table."""
    fences: tuple[tuple[str, str, int, int], ...] = ()
    """Journal: (group, topic_id, partition, epoch) of fences since the commit before."""
    sizes: tuple[int, ...] = ()
    """Bytes of the data files, if they follow each other in the order of records; else ()."""
    after: Stamp = Stamp(0)
    """Its rows have stamps above this: one below its own; of a bulk writer's that of the shard's
    commit before, or the watermark of the shard."""


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What one look at all shards found above the watermarks."""

    commits: Mapping[ShardName, list[VisibleCommit]]
    """In version order, so in stamp order. Shards without a new commit may be missing."""
    truncated: frozenset[ShardName] = frozenset()
    """Shards of which only a prefix was read: what is not read has a higher stamp than its last."""

    def bound(self) -> Stamp | None:
        """No unread commit of a truncated shard has a stamp at or below this; None: no bound."""
        return min((self.commits[s][-1].stamp for s in self.truncated), default=None)


def consistent_cut(
    first: ScanResult, late: Iterable[VisibleCommit], max_bytes: int, max_commits: int
) -> list[VisibleCommit]:
    """The commits to order now, in (stamp, shard) order.

    `late`: commits that the second look found and the first had not. A batch holds whole commits,
    at most `max_commits` of them, and at most `max_bytes` of records, but at least one commit, or
    a single large one would stop the queue. The bounds cut a prefix over all shards: cutting each
    shard for itself would let a later record of one overtake an earlier one of another.
    """
    below = min((seen.stamp for seen in late), default=None)
    upto = first.bound()
    admitted: list[VisibleCommit] = []
    total = 0
    for seen in sorted(c for commits in first.commits.values() for c in commits):
        if (below is not None and seen.stamp >= below) or (upto is not None and seen.stamp > upto):
            break
        total += seen.bytes
        if admitted and (total > max_bytes or len(admitted) >= max_commits):
            break
        admitted.append(seen)
    return admitted


def ends(admitted: Iterable[VisibleCommit]) -> dict[ShardName, Stamp]:
    """The last admitted stamp of each shard that has one."""
    return {seen.shard: seen.stamp for seen in sorted(admitted)}
