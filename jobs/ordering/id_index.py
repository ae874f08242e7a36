"""What message ids were ordered lately, and where: what deduplication goes by (pure, in memory).

Per topic, sorted runs of 128-bit hashes of the message id, merged geometrically: 36 bytes an id,
a look-up is a binary search in a few runs. The window runs in *stamps*, not in wall time: an order
job that was down for an hour, or a node that paused, must not let a copy through. A run of rows
that reaches back below what is in memory first reads the rest of its window from `log`.

Correctness never hangs on the memory: at the bound (`max_ids`) the oldest ids are dropped, and a
batch that needs them looks them up in `log` itself, slowly, and an alarm says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lakequeue.records import Stamp, TopicId

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

_SLACK = 4
"""Ids are kept for 1 + 1/4 windows, so that slightly late rows do not read `log` each time."""
_ZERO = Stamp(0)
_NEVER = Stamp(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Ids:
    """Columns: hash, and where the id was ordered. Any order; sorted by `hi` within a run."""

    hi: U64
    lo: U64
    partition: I32
    offset: I64
    stamp: I64

    def __len__(self) -> int:
        return len(self.hi)

    def take(self, picked: npt.NDArray[np.intp] | Mask) -> Ids:
        """The rows that `picked` selects."""
        return Ids(
            self.hi[picked],
            self.lo[picked],
            self.partition[picked],
            self.offset[picked],
            self.stamp[picked],
        )

    def sorted(self) -> Ids:
        """The same rows by hash. Stable sort finds the runs in its input: a merge is linear."""
        return self.take(np.argsort(self.hi, kind="stable"))

    @staticmethod
    def concat(parts: list[Ids]) -> Ids:
        """All rows of `parts`."""
        return Ids(
            np.concatenate([p.hi for p in parts]),
            np.concatenate([p.lo for p in parts]),
            np.concatenate([p.partition for p in parts]),
            np.concatenate([p.offset for p in parts]),
            np.concatenate([p.stamp for p in parts]),
        )

    @staticmethod
    def empty() -> Ids:
        """No rows."""
        z = np.empty(0, np.int64)
        return Ids(z.view(np.uint64), z.view(np.uint64), z.astype(np.int32), z, z)


@dataclass(frozen=True, slots=True)
class KnownIds:
    """For each id asked: was it known, and the original's place (0 where not)."""

    mask: Mask
    partition: I32
    offset: I64

    @staticmethod
    def nothing(count: int) -> KnownIds:
        """None of `count` ids is known."""
        return KnownIds(np.zeros(count, bool), np.zeros(count, np.int32), np.zeros(count, np.int64))


class _Search:
    """Ids that are looked up in several runs; the same hits in whatever runs the ids stand.

    Only stamps from `oldest` on count, though a run may hold older ids: what is in memory differs
    from one leader to the next, and must not decide. An id that was ordered again after its window
    is there twice; its original is the one of the lowest stamp that counts.
    """

    def __init__(self, hi: U64, lo: U64, oldest: Stamp) -> None:
        self.found = KnownIds.nothing(len(hi))
        self._hi, self._lo, self._oldest = hi, lo, oldest
        self._stamp = np.full(len(hi), _NEVER, np.int64)

    def look_in(self, run: Ids) -> None:
        """Fill `found` with the matches in one sorted run."""
        if not len(run):
            return
        hi, found = self._hi, self.found
        at = np.searchsorted(run.hi, hi)
        open_ = np.flatnonzero(at < len(run))
        open_ = open_[run.hi[at[open_]] == hi[open_]]
        while len(open_):  # again only where ids share their first 64 bits
            stamps = run.stamp[at[open_]]
            hit = (run.lo[at[open_]] == self._lo[open_]) & (stamps >= self._oldest)
            hit &= stamps < self._stamp[open_]
            rows, places = open_[hit], at[open_[hit]]
            found.mask[rows] = True
            found.partition[rows] = run.partition[places]
            found.offset[rows] = run.offset[places]
            self._stamp[rows] = run.stamp[places]
            at[open_] += 1
            open_ = open_[at[open_] < len(run)]
            open_ = open_[run.hi[at[open_]] == hi[open_]]


@dataclass(slots=True)
class _TopicIds:
    floor: Stamp = _NEVER
    """Every id of `log` with a stamp at or above this is in memory."""
    keep_from: Stamp = _ZERO
    """What the rows judged last may need, and a little more; below it ids may be dropped."""
    newest: Stamp = _ZERO
    window_us: int = 0
    runs: list[Ids] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(len(run) for run in self.runs)

    def add(self, ids: Ids) -> None:
        if not len(ids):
            return
        self.newest = Stamp(max(self.newest, int(ids.stamp.max())))
        self.runs.append(ids.sorted())
        while len(self.runs) > 1 and len(self.runs[-2]) < 2 * len(self.runs[-1]):
            self._merge()

    def _merge(self) -> None:
        below = self.keep_from
        last, before = self.runs.pop(), self.runs.pop()
        both = Ids.concat([before, last]).sorted()
        if below > self.floor:
            old = both.stamp < below
            if old.any():
                both = both.take(~old)
                self.floor = Stamp(below)
        self.runs.append(both)

    def evict(self, below: Stamp) -> None:
        """Drop every id with a lower stamp, in all runs."""
        self.runs = [run.take(run.stamp >= below) for run in self.runs]
        self.runs = [run for run in self.runs if len(run)]
        self.floor = max(self.floor, below)


class Staged:
    """Ids of a batch that is ordered piece by piece: in no log yet, and known to its later pieces.

    Of its own rows any earlier one counts as the original, as within one piece.
    """

    def __init__(self, known: IdIndex) -> None:
        self._known = known
        self._topics: dict[TopicId, _TopicIds] = {}

    def find(
        self, topic_id: TopicId, hi: U64, lo: U64, *, oldest: Stamp, newest: Stamp, window_us: int
    ) -> KnownIds:
        """As `IdIndex.find`, and then among the ids of the pieces before."""
        found = self._known.find(
            topic_id, hi, lo, oldest=oldest, newest=newest, window_us=window_us
        )
        if topic_id in self._topics:
            search = _Search(hi, lo, _ZERO)
            for run in self._topics[topic_id].runs:
                search.look_in(run)
            here = search.found.mask & ~found.mask
            found.mask[here] = True
            found.partition[here] = search.found.partition[here]
            found.offset[here] = search.found.offset[here]
        return found

    def add(self, topic_id: TopicId, ids: Ids) -> None:
        """Ids of the piece that was just numbered."""
        self._topics.setdefault(topic_id, _TopicIds()).add(ids)

    def settle(self) -> None:
        """The batch is committed: they are ids like all others."""
        for topic_id, topic in self._topics.items():
            for run in topic.runs:
                self._known.add(topic_id, run)
        self._topics.clear()


ReadOlder = Callable[[TopicId, Stamp, Stamp], Iterable[Ids]]
"""(topic, from, below): the ids in `log` with from <= stamp < below, in chunks, any order."""


class IdIndex:
    """Ids of all topics. `read_older` reads from `log`; `alarm` is told when the bound is hit."""

    def __init__(
        self,
        read_older: ReadOlder,
        max_ids: int,
        alarm: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self._read_older = read_older
        self._max_ids = max_ids
        self._alarm = alarm
        self._topics: dict[TopicId, _TopicIds] = {}

    def __len__(self) -> int:
        return sum(len(topic) for topic in self._topics.values())

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays."""
        return 36 * len(self)

    def find(
        self, topic_id: TopicId, hi: U64, lo: U64, *, oldest: Stamp, newest: Stamp, window_us: int
    ) -> KnownIds:
        """Look the ids up among everything ordered in [oldest − window_us, now], and nothing else.

        `oldest`, `newest`: stamps of the rows that are judged. The same for every leader, whatever
        it has in memory: a batch that is judged again must come out the same.
        """
        topic = self._topics.setdefault(topic_id, _TopicIds())
        topic.window_us = window_us
        topic.newest = max(topic.newest, newest)
        needed = Stamp(oldest - window_us)
        search = _Search(hi, lo, needed)
        topic.keep_from = Stamp(needed - window_us // _SLACK)
        if needed < topic.floor:
            self._reach_back(topic_id, topic, topic.keep_from, search)
        for run in topic.runs:
            search.look_in(run)
        return search.found

    def follow(self, windows_us: Callable[[TopicId], int]) -> None:
        """Let go of what is older than its window, for who adds and does not judge: a standby.

        What is wanted of it all the same is read from `log`, as what was never in memory.
        """
        for topic_id, topic in self._topics.items():
            topic.window_us = windows_us(topic_id)
            kept_us = topic.window_us + topic.window_us // _SLACK
            topic.keep_from = Stamp(max(topic.keep_from, topic.newest - kept_us))

    def _reach_back(
        self, topic_id: TopicId, topic: _TopicIds, needed: Stamp, search: _Search
    ) -> None:
        """Read the rest of the window from `log`, and keep it if there is room for all of it."""
        room = self._max_ids - len(self)
        kept: list[Ids] = []
        overflow = False
        highest = int(topic.newest)
        for chunk in self._read_older(topic_id, needed, topic.floor):
            if not len(chunk):
                continue
            highest = max(highest, int(chunk.stamp.max()))
            room -= len(chunk)
            overflow = overflow or room < 0
            if not overflow:
                kept.append(chunk)
                continue
            for held in (*kept, chunk):
                search.look_in(held.sorted())
            kept.clear()
        if overflow:
            self._alarm(
                f"the index of message ids is at its bound of {self._max_ids}: ids of topic "
                f"{topic_id} from before its floor are looked up in `log`, slowly; raise "
                "order.max_index_ids, or shorten dedup_window_ms"
            )
            if topic.floor == _NEVER:
                topic.floor = Stamp(highest + 1)
            return
        topic.floor = needed
        if kept:
            topic.add(Ids.concat(kept))

    def add(self, topic_id: TopicId, ids: Ids) -> None:
        """Ids that were just ordered; of a topic nobody asked for yet, `log` is read in time."""
        topic = self._topics.get(topic_id)
        if topic is None or topic.floor == _NEVER:
            return
        topic.add(ids)
        if len(self) > self._max_ids:
            self._shrink()

    def _shrink(self) -> None:
        """First drop what no window needs, then the oldest half of the largest topics."""
        for topic in self._topics.values():
            topic.evict(Stamp(topic.newest - topic.window_us))
        while len(self) > self._max_ids:
            largest = max(self._topics.values(), key=len)
            stamps = np.concatenate([run.stamp for run in largest.runs])
            largest.evict(Stamp(int(np.partition(stamps, len(stamps) // 2)[len(stamps) // 2]) + 1))
            self._alarm(f"the index of message ids is over its bound of {self._max_ids}")

    def forget(self, topic_ids: Iterable[TopicId]) -> None:
        """Drop topics that are gone."""
        for topic_id in topic_ids:
            self._topics.pop(topic_id, None)

    def topics(self) -> Iterator[TopicId]:
        """Topics that the index knows."""
        yield from self._topics
