"""The tail of a table: the commits after a version, read from the commit files themselves.

A poll that finds nothing costs one failed open: no listing, no snapshot. Commits come in order,
each exactly once; what a commit means (new rows, compaction, a fence) is the caller's to judge.
"""

from __future__ import annotations

from collections.abc import Callable

from lakequeue.clock import boot_seconds
from lakequeue.errors import CorruptTable, TailLost
from lakequeue.records import Stamp, Version
from queue_tables.delta.actions import Commit, commit_path, commit_version
from queue_tables.delta.commit_json import parse, parse_or_pass
from queue_tables.delta.stamps import sound_stamp
from queue_tables.delta.store import Store

UNREADABLE = (CorruptTable, ValueError, TypeError, LookupError)
"""What the tail of a table raises whose log cannot be read."""
_ABOVE_ALL = 1 << 64
_LOOK_BACK_EVERY = 32
_LOOK_BACK_AFTER_S = 60.0
"""Far below the hour that commits are kept for their followers."""


class Tail:
    """Reads what follows `start` (-1: everything). Not thread-safe."""

    def __init__(
        self,
        store: Store,
        table_path: str,
        start: Version,
        clock: Callable[[], float] = boot_seconds,
        check: Callable[[Commit], object] | None = None,
        *,
        pass_torn: bool = False,
    ) -> None:
        """`check` raises `CorruptTable` for a commit that counts as a torn one.

        `pass_torn`: a torn one is returned as an empty commit, which says that it is `torn`.
        """
        self._store = store
        self._table_path = table_path
        self._version = start
        self._clock = clock
        self._check = check
        self._read = parse_or_pass if pass_torn else parse
        self._found: list[Commit] = []
        """Read by a poll that failed then: nobody has heard of them."""
        self._empty_polls = 0
        self._looked_at = 0.0

    @property
    def version(self) -> Version:
        """The newest version that `poll` has returned, or the start."""
        return self._version

    def poll(self, limit: int | None = None) -> list[Commit]:
        """The new commits in order, at most `limit`; [] if there is none.

        Raises `TailLost` if the next commits were cleaned up, `CorruptTable` for a torn one, and
        what the store raises. The commits before a torn one are returned first; those before one
        that could not be read this time by the next poll, which many take to be all there are.
        """
        while limit is None or len(self._found) < limit:
            version = Version(self._version + len(self._found) + 1)
            try:
                data = self._store.get(commit_path(self._table_path, version))
            except FileNotFoundError:
                break
            try:
                commit = self._read(version, data, self._table_path)
                if self._check is not None:
                    self._check(commit)
            except CorruptTable:
                if self._found:
                    break
                raise
            self._found.append(commit)
        most = len(self._found) if limit is None else limit
        found, self._found = self._found[:most], self._found[most:]
        if found:
            self._version = found[-1].version
            self._empty_polls = 0
        else:
            self._look_back()
        return found

    def make_durable(self) -> None:
        """Make what was polled durable: to be called before acting on a version.

        The content of a commit is durable before it is visible; its directory entry may not be.
        """
        self._store.make_durable(f"{self._table_path}/_delta_log")

    def _look_back(self) -> None:
        # "Nothing new" and "the next ones were cleaned up" look alike. Clean-up goes from old to
        # new and never takes the newest, so as long as the commit before is there, nothing is
        # lost. Looked at on the first empty poll and then on some: a busy tail never needs it. And
        # whenever the last look is long ago: who polls once an hour takes each answer for whole.
        self._empty_polls += 1
        now = self._clock()
        recent = now - self._looked_at < _LOOK_BACK_AFTER_S
        if recent and self._empty_polls % _LOOK_BACK_EVERY != 1:
            return
        self._looked_at = now
        if self._version >= 0 and self._store.exists(commit_path(self._table_path, self._version)):
            return
        if self._store.exists(commit_path(self._table_path, self._version + 1)):
            return  # committed between the two looks
        raise TailLost(
            f"{self._table_path}: version {self._version} was cleaned up, so later commits may"
            " be missing",
            hint="catch up from the snapshot, then tail from its version",
        )


def commit_versions(store: Store, table_path: str) -> list[Version]:
    """The versions whose commit files exist, rising. [] if there is no table."""
    names = store.names(f"{table_path}/_delta_log")
    return [v for n in names if (v := commit_version(n)) is not None]


def find_version(store: Store, table_path: str, stamp: int, *, exact: bool = True) -> Version:
    """The newest version of a shard whose stamp is at most `stamp`: where to tail on from.

    Commits without a stamp (creation, fence, seal) are not counted, nor are torn ones, so a tail
    that starts here sees the fences behind the last stamp again. A stamp that is none counts as
    above all others, so the tail meets that commit. Found by binary search over the commit files;
    if all of them are above `stamp`, the one before the first. Where stamps do not rise, the search
    may miss the commit of just that stamp, which is then looked for one by one if it is `exact`.
    Raises `FileNotFoundError`.
    """
    versions = commit_versions(store, table_path)
    if not versions:
        raise FileNotFoundError(f"no Delta table at {table_path}")
    best = Version(versions[0] - 1) if versions[0] > 0 else Version(0)
    reached, place = None, 0
    low, high = 0, len(versions)
    while low < high:
        middle = (low + high) // 2
        at, found = _stamp_at_or_before(store, table_path, versions, middle, low)
        if found is None or found > stamp:
            # No stamp in [low, middle] means: look on the right; too high: look on the left.
            if found is None:
                low = middle + 1
            else:
                high = at
        else:
            best, reached, place = versions[at], found, at
            low = middle + 1
    if exact and stamp > 0 and reached is not None:
        before = _stamp_at_or_before(store, table_path, versions, place - 1, 0)[1]
        if reached < stamp or (before is not None and before >= reached):
            just = (v for v in versions if _stamp_of(store, table_path, v) == stamp)
            best = next(just, best)
    return best


def stamp_at(store: Store, table_path: str, version: Version) -> Stamp | None:
    """The stamp of one commit; None if it has none, or is cleaned up, or torn."""
    try:
        found = _stamp_of(store, table_path, version)
    except FileNotFoundError:
        return None
    return None if found is None or found == _ABOVE_ALL else Stamp(found)


def _stamp_at_or_before(
    store: Store, table_path: str, versions: list[Version], index: int, lowest: int
) -> tuple[int, int | None]:
    for i in range(index, lowest - 1, -1):
        if (found := _stamp_of(store, table_path, versions[i])) is not None:
            return i, found
    return lowest, None


def _stamp_of(store: Store, table_path: str, version: Version) -> int | None:
    commit = parse_or_pass(version, store.get(commit_path(table_path, version)), table_path)
    if commit.info.get("stamp") is None:
        return None
    return sound_stamp(commit) or _ABOVE_ALL
