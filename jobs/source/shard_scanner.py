"""The looks at all shards: which commits are visible, which may be taken into a batch.

Runs in the source's process. Keeps a tail for each shard and what it found above the watermarks;
the rule of the cut itself is `jobs.source.consistent_cut`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from jobs.source.consistent_cut import ScanResult, VisibleCommit, consistent_cut, ends
from jobs.source.leader_state import LeaderState
from lakequeue.errors import CorruptTable, TailLost
from lakequeue.records import ShardName, Stamp
from queue_tables.delta.actions import Commit, whole
from queue_tables.delta.stamps import RisingStamps, stamp_of
from queue_tables.delta.tail import UNREADABLE, Tail, find_version, stamp_at
from queue_tables.groups.state import fences_in
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.schema.marks import BATCH_TXN
from queue_tables.shards.bulk import IN_ORDER
from queue_tables.shards.shards import SEALED, newest_stamp

MAX_READ = 5_000
"""Commits of one shard held in memory; the rest of a longer backlog waits for later batches."""

MOST_COMMITS = 1 << 20
"""In any batch: no bound, beside that in bytes."""
FIRST_COMMITS = 256
"""In the first batch of a term; each later one may have twice as many as the one before. A small
file takes a millisecond to read, so what piled up while nobody led would else be waited for as a
whole: like this its beginning is delivered at once, and a backlog is soon taken in large bites."""

_PATIENCE = 3
"""Looks at which a shard cannot be read, and nothing is admitted; then it is skipped."""

Offset = dict[ShardName, Stamp]
"""What Spark keeps: the last stamp admitted of each shard."""


class _Unsure(Exception):
    """A shard could not be read, and may be at the next look."""


class _Failed(NamedTuple):
    times: int
    error: Exception


_NEVER_FAILED = _Failed(0, ValueError())


@dataclass(slots=True)
class _Shard:
    tail: Tail
    pending: list[VisibleCommit] = field(default_factory=list)
    """Visible, above what is admitted, in stamp order."""
    admitted: list[VisibleCommit] = field(default_factory=list)
    """Planned into a batch that is not committed yet."""
    fences: list[tuple[str, str, int, int]] = field(default_factory=list)
    """Met since the last commit with rows; they go with the next one, or are met again."""
    sealed: bool = False
    truncated: bool = False


class ShardScanner:
    """Looks for one kind of shard. One instance serves one query, through several terms."""

    def __init__(self, root: QueueRoot, kind: ShardKind, max_bytes: int) -> None:
        self._root = root
        self._kind = kind
        self._max_bytes = max_bytes
        self._epoch: int | None = None
        self._marks: dict[ShardName, Stamp] = {}
        self._shards: dict[ShardName, _Shard] = {}
        self._plan: Mapping[ShardName, Stamp] | None = None
        self._max_commits = FIRST_COMMITS
        self._held: dict[ShardName, Stamp] = {}
        self._halts: dict[ShardName, int] = {}
        self._turned_back = False
        self._failed: dict[ShardName, _Failed] = {}
        self._aside: dict[ShardName, Stamp] = {}
        """Planned up to there, and not to be read so far: nothing of it is taken before it is."""

    def begin(self, term: LeaderState) -> None:
        """Go on from the watermarks of `term`; of the present one only what waits may be new."""
        if term.epoch == self._epoch:
            if (term.held, term.halts) != (self._held, self._halts):
                self._hold(term)
            return
        self._epoch = term.epoch
        self._held, self._halts = dict(term.held), dict(term.halts)
        self._turned_back = False
        self._marks = dict(term.watermarks)
        self._shards = {}
        self._plan = term.plan
        self._aside = {}
        self._max_commits = FIRST_COMMITS

    def _hold(self, term: LeaderState) -> None:
        """Take back what was admitted of shards that have to wait, or had to."""
        halted = {name for name, times in term.halts.items() if times != self._halts.get(name)}
        for name in halted | (term.held.keys() - self._held.keys()):
            self._shards.pop(name, None)
            mark = term.watermarks.get(name, Stamp(0))
            if self._marks.get(name, 0) != mark:
                self._marks[name] = mark
                self._turned_back = True
        self._held, self._halts = dict(term.held), dict(term.halts)

    def marks(self) -> Offset:
        """Where the present term has got to: the last stamp admitted of each shard."""
        return dict(self._marks)

    def pending_rows(self) -> int:
        """Records seen by the last look and not admitted."""
        return sum(seen.rows for shard in self._shards.values() for seen in shard.pending)

    def folders(self) -> list[str]:
        """Where the next commits get their names, of a local root."""
        place = f"{self._root.store.local_path}/{self._kind}"
        return [place, *(f"{place}/{name}/_delta_log" for name in self._shards)]

    # -- looking ----------------------------------------------------------------------------------

    def next_end(self, limit: Mapping[ShardName, Stamp] | None = None) -> Offset | None:
        """Admit what may be admitted now; the new offset, or None if there is nothing.

        `limit`: admit nothing after the last commit within these stamps (a run that ends). What is
        admitted is durable: a commit that another process made visible may not be.
        """
        try:
            return self._next_end(limit)
        except _Unsure:
            return None

    def _next_end(self, limit: Mapping[ShardName, Stamp] | None) -> Offset | None:
        if self._plan is not None:
            return self._planned(self._plan)
        if self._turned_back:
            # A batch of nothing: from its end on Spark counts the shard that waits anew.
            self._turned_back = False
            return dict(self._marks)
        before = {name for name, shard in self._shards.items() if shard.sealed}
        first = self._scan()
        if not first.commits:
            return None
        late = self._second_scan(first, before)
        admitted = consistent_cut(first, late, self._max_bytes, self._max_commits)
        if limit is not None:
            admitted = _within(admitted, limit)
        if not admitted:
            return None
        self._max_commits = min(self._max_commits * 2, MOST_COMMITS)
        return self._admit(ends(admitted))

    def _planned(self, plan: Mapping[ShardName, Stamp]) -> Offset | None:
        """Exactly the cut that an earlier term has committed rejects for.

        But for shards that cannot be read: they wait, as in any other cut. None: all of them do.
        """
        self._scan()
        for name, end in plan.items():
            if end > self._marks.get(name, 0) and not self._reaches(name, end):
                self._failed[name] = _Failed(_PATIENCE, self._not_there(name, end))
                self._aside[name] = end
        self._plan = None
        due = {n: e for n, e in plan.items() if e > self._marks.get(n, 0) and n not in self._aside}
        return self._admit(due) if due else None

    def _reaches(self, name: ShardName, end: Stamp) -> bool:
        """Whether the commit of that stamp is there, and all before it."""
        shard = self._shards.get(name)
        try:
            while shard is not None and shard.truncated and shard.pending[-1].stamp < end:
                self._read(name, shard, more=True)
        except UNREADABLE as error:
            self._shards.pop(name, None)
            self._failed[name] = _Failed(_PATIENCE, error)
            return False
        return shard is not None and any(seen.stamp == end for seen in shard.pending)

    def _not_there(self, name: ShardName, end: Stamp) -> Exception:
        if name in self._failed:
            return self._failed[name].error
        return CorruptTable(
            f"{self._kind} shard {name} has no commit of stamp {end}, which was planned",
            hint="if a part of the root was restored, restore all of it to one moment",
        )

    def _admit(self, new_ends: Mapping[ShardName, Stamp]) -> Offset:
        for name, end in new_ends.items():
            shard = self._shards[name]
            shard.tail.make_durable()
            taken = [seen for seen in shard.pending if seen.stamp <= end]
            shard.pending = shard.pending[len(taken) :]
            shard.admitted += taken
            self._marks[name] = Stamp(end)
        return dict(self._marks)

    def _scan(self) -> ScanResult:
        """List the shards, then read each."""
        listed = self._root.shards(self._kind)
        for gone in self._shards.keys() - set(listed):
            del self._shards[gone]
        for gone in self._marks.keys() - set(listed):
            del self._marks[gone]
        found: dict[ShardName, list[VisibleCommit]] = {}
        for name in listed:
            shard = self._scan_shard(name)
            if shard is not None and (pending := self._before_hold(name, shard)):
                found[name] = pending
        truncated = frozenset(n for n, s in self._shards.items() if s.truncated and n in found)
        return ScanResult(found, truncated)

    def _scan_shard(self, name: ShardName) -> _Shard | None:
        """Read on in a shard; None if it is gone, or cannot be read.

        What was read of it before stays: that is sound, and comes before what cannot be read.
        """
        shard = self._shards.get(name)
        try:
            if shard is None:
                shard = self._shards[name] = self._open(name)
            self._read(name, shard)
        except (FileNotFoundError, TailLost) as error:
            if self._root.is_table(f"{self._kind}/{name}"):
                self._shards.pop(name, None)
                self._skip(name, error)
                return None
            # Done to its end, and removed.
            self._root.forget_shards(self._kind)
            self._shards.pop(name, None)
            return None
        except UNREADABLE as error:
            if shard is not None and not (shard.pending or shard.admitted):
                del self._shards[name]
            self._skip(name, error)
            return self._shards.get(name)
        self._failed.pop(name, None)
        return shard

    def _skip(self, name: ShardName, error: Exception) -> None:
        """A shard that is there and cannot be read: others go on, though that tears the cut.

        Not at once: it may be in the middle of being removed, or written by hand.
        """
        times = self._failed.get(name, _NEVER_FAILED).times + 1
        self._failed[name] = _Failed(times, error)
        if times < _PATIENCE:
            raise _Unsure

    def stuck(self) -> dict[ShardName, str]:
        """The shards that are skipped since they cannot be read, and why."""
        return {
            name: f"{type(f.error).__name__}: {f.error}"
            for name, f in self._failed.items()
            if f.times >= _PATIENCE or name in self._aside
        }

    def _before_hold(self, name: ShardName, shard: _Shard) -> list[VisibleCommit]:
        if (end := self._aside.get(name)) is not None:
            if not self._reaches(name, end):
                self._failed[name] = _Failed(_PATIENCE, self._not_there(name, end))
                return []
            del self._aside[name]
        held = self._held.get(name)
        return [seen for seen in shard.pending if held is None or seen.stamp < held]

    def _second_scan(self, first: ScanResult, sealed_before: Set[ShardName]) -> list[VisibleCommit]:
        """What is visible now and was not in `first`.

        With one growing shard a listing is enough: stamps rise within a shard, so whatever is new
        there is above what was seen. A shard that the listing finds makes it a full look. A shard
        sealed while `first` was under way counts as growing: its last commit may be newer than
        the moment at which the other one was read.
        """
        growing = self._shards.keys() - sealed_before
        if len(growing) <= 1 and set(self._root.shards(self._kind)) <= self._shards.keys():
            return []
        newest = {name: commits[-1].stamp for name, commits in first.commits.items()}
        second = self._scan()
        return [
            seen
            for name, commits in second.commits.items()
            if name not in first.truncated
            for seen in commits
            if seen.stamp > newest.get(name, 0)
        ]

    def _open(self, name: ShardName) -> _Shard:
        path = f"{self._kind}/{name}"
        store = self._root.store
        start = find_version(store, path, self._marks.get(name, Stamp(0)))
        # What comes before a commit with an odd stamp is ordered; at that commit the shard waits.
        judge = RisingStamps(path, stamp_at(store, path, start))
        return _Shard(Tail(store, path, start, check=judge))

    def _read(self, name: ShardName, shard: _Shard, *, more: bool = False) -> None:
        """Read on in a shard. A look must see all of it, or know that it does not (`truncated`)."""
        if shard.sealed and not shard.truncated:
            return  # a sealed shard grows no more
        held = self._held.get(name)
        if held is not None and shard.pending and shard.pending[-1].stamp >= held:
            shard.truncated = False  # what comes after waits as well
            return
        room = MAX_READ if more else MAX_READ - len(shard.pending)
        shard.truncated = room <= 0
        while room > 0:
            commits = self._poll(name, shard, room)
            mark = shard.pending[-1].stamp if shard.pending else self._marks.get(name, 0)
            for commit in commits:
                if not commit.foreign and (commit.configuration or {}).get(SEALED):
                    shard.sealed = True
                shard.fences += fences_in(commit.info)
                seen = _visible_commit(name, commit)
                if seen is not None and seen.stamp > mark:
                    # The files of a bulk writer have stamps of their own, up to the commit's.
                    after = Stamp(mark) if BATCH_TXN in commit.txns else Stamp(seen.stamp - 1)
                    shard.pending.append(seen._replace(fences=tuple(shard.fences), after=after))
                    shard.fences.clear()
                    mark = seen.stamp
            shard.truncated = len(commits) == room
            if held is not None and shard.pending and shard.pending[-1].stamp >= held:
                shard.truncated = False
                return
            if shard.pending or not shard.truncated:
                return

    def _poll(self, name: ShardName, shard: _Shard, limit: int) -> list[Commit]:
        try:
            return shard.tail.poll(limit)
        except TailLost:
            # Commits were cleaned up: only done ones ever are, so go on from the watermark.
            shard.tail = self._open(name).tail
            return shard.tail.poll(limit)

    # -- planning ---------------------------------------------------------------------------------

    def between(
        self, start: Mapping[ShardName, Stamp], end: Mapping[ShardName, Stamp]
    ) -> list[VisibleCommit]:
        """The admitted commits above `start` and up to `end`, in cut order."""
        found = [
            seen
            for name, shard in self._shards.items()
            for seen in shard.admitted
            if start.get(name, 0) < seen.stamp <= end.get(name, 0)
        ]
        return sorted(found)

    def done(self, end: Mapping[ShardName, Stamp]) -> None:
        """A batch up to `end` is committed: forget its commits."""
        for name, shard in self._shards.items():
            if shard.admitted:
                mark = end.get(name, 0)
                shard.admitted = [seen for seen in shard.admitted if seen.stamp > mark]

    def targets(self) -> Offset:
        """The newest visible stamp of each shard: where a run that ends will end."""
        for _ in range(_PATIENCE):
            try:
                scan = self._scan()
                break
            except _Unsure:
                scan = ScanResult({})
        targets = {name: commits[-1].stamp for name, commits in scan.commits.items()}
        for name in scan.truncated:
            targets[name] = max(targets[name], newest_stamp(self._root, self._kind, name))
        return targets


def _visible_commit(shard: ShardName, commit: Commit) -> VisibleCommit | None:
    """What a commit brings; None for a creation, a fence, a seal."""
    info, stamp = commit.info, stamp_of(commit, shard)
    if stamp is None:
        return None
    return VisibleCommit(
        stamp,
        shard,
        commit.version,
        # What is no number is 0: nothing but bounds depends on it.
        whole(info.get("rows")) or 0,
        whole(info.get("bytes")) or 0,
        tuple(add.path for add in commit.adds),
        sizes=tuple(add.size for add in commit.adds) if info.get(IN_ORDER) else (),
    )


def _within(admitted: list[VisibleCommit], limit: Mapping[ShardName, Stamp]) -> list[VisibleCommit]:
    """The prefix of `admitted` up to the last commit within `limit`.

    A commit above it that stands before one within it, of a shard that is new, say, comes along:
    left out, it would be overtaken.
    """
    within = [at for at, seen in enumerate(admitted) if seen.stamp <= limit.get(seen.shard, 0)]
    return admitted[: within[-1] + 1] if within else []
