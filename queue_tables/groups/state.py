"""The state of groups: the folded rows of `group_offsets`, and the facts not folded yet.

What makes a reading whole while folds go on: the rows and the fold position (the `folded/<shard>`
txns) come from one snapshot, taken first; then every journal shard is read from that position to
its end. A fold that commits meanwhile only means that facts are joined twice, which changes
nothing. Folded facts stay in their shards for at least an hour, far longer than a reading takes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.errors import CommitConflict, CorruptTable, LeadershipLost, TailLost
from lakequeue.records import Epoch, Partition, ShardName, Stamp, TopicId, Version
from lakequeue.steps import Step, reach
from lakequeue.wire.limits import MAX_WHOLE
from queue_tables.delta.actions import Add, Commit, Remove, Txn, commit_path
from queue_tables.delta.stamps import sound_stamp
from queue_tables.delta.store import Store
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import Tail, find_version, stamp_at
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.groups.fact_checks import SetAside
from queue_tables.groups.fact_rows import (
    news_from_arrow,
    states_from_arrow,
    states_to_arrow,
    under_stamp,
)
from queue_tables.groups.facts import Fence, GroupState, Key, States, fold_news
from queue_tables.groups.set_aside import SetAsideLog
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import FOLDED, OFFSETS_TXN
from queue_tables.schema.schemas import GROUP_OFFSETS
from queue_tables.shards.damage import brought_by
from queue_tables.shards.shards import SEALED, shard_path

FenceOf: TypeAlias = tuple[str, TopicId, Partition, Epoch]
"""(group, topic_id, partition, epoch)"""
_COUNTER_BITS = 40
_ATTEMPTS = 3


@dataclass(slots=True)
class JournalNews:
    """What commits of one journal shard say."""

    states: list[GroupState] = field(default_factory=list)
    """What each of the facts says."""
    fences: list[Fence] = field(default_factory=list)
    last_stamp: Stamp | None = None
    """Of the newest commit with rows and a stamp; `None` if there was none."""
    sealed: bool = False
    aside: list[SetAside] = field(default_factory=list)
    """Rows that are no facts."""
    torn: str = ""
    """Why a commit cannot be read. The facts that it brought are there, from its data file."""


@dataclass(frozen=True, slots=True)
class GroupReading:
    """The state of groups as of one moment, folded or not."""

    states: States
    fences: list[Fence]
    """Fences met behind the fold positions; they are part of `states`."""
    folded: dict[ShardName, Stamp]
    shards: list[ShardName]
    """The journal shards that were read."""


def journal_news(
    store: Store,
    shard: ShardName,
    commits: Iterable[Commit],
    group: str | None = None,
    *,
    pass_gone: bool = False,
) -> JournalNews:
    """Read the facts and fences that `commits` of a journal shard brought, of one group or all.

    A data file that is damaged is set aside as a whole, as the fold does. So is one that is gone,
    with `pass_gone`; else that raises `FileNotFoundError`: a newer fold may have what was in it.
    """
    news = JournalNews()
    path = shard_path("journal", shard)
    for commit in commits:
        if commit.torn:
            news.torn = commit.torn
        if commit.torn or commit.appends:
            for name, stamp in _files_of(store, path, commit):
                try:
                    rows = under_stamp(_facts_in(store, path, name), stamp)
                except (FileNotFoundError, CorruptTable) as error:
                    if isinstance(error, FileNotFoundError) and not pass_gone:
                        raise
                    why = f"{name} cannot be read: {type(error).__name__}: {error}"
                    news.aside.append(SetAside(shard, stamp, None, why))
                    continue
                if group is not None:
                    rows = rows.filter(pc.equal(rows.column("group"), pa.scalar(group)))
                news.states += news_from_arrow(rows, shard, news.aside)
        news.fences += [
            Fence(shard, *fence)
            for fence in fences_in(commit.info)
            if group is None or fence[0] == group
        ]
        if (stamp := sound_stamp(commit)) is not None:
            news.last_stamp = stamp
        if not commit.foreign and (commit.configuration or {}).get(SEALED):
            news.sealed = True
    return news


def _files_of(store: Store, path: str, commit: Commit) -> list[tuple[str, Stamp | None]]:
    if commit.torn:
        return [(one.path, one.stamp) for one in brought_by(store, path, commit.version)]
    return [(add.path, sound_stamp(commit)) for add in commit.adds]


def _facts_in(store: Store, shard_table: str, path: str) -> pa.Table:
    try:
        return read_data_file(store, shard_table, path)
    except CorruptTable:
        return read_data_file(store, shard_table, path)  # a read that was cut short is no damage


def fences_in(info: Mapping[str, Any]) -> list[FenceOf]:
    """The fences that a commit of a journal shard sets; what is none is left out."""
    given = info.get("fence", ())
    return [tuple(one) for one in given if _is_fence(one)] if isinstance(given, list) else []


def _is_fence(given: Any) -> bool:
    kinds = (str, str, int, int)
    return (
        isinstance(given, list)
        and len(given) == len(kinds)
        and all(type(value) is kind for value, kind in zip(given, kinds, strict=True))
        and all(0 <= value <= MAX_WHOLE for value in given[2:])
    )


def read_group_offsets(
    root: QueueRoot, at: Version | None = None
) -> tuple[States, dict[ShardName, Stamp]]:
    """The folded states, and for each journal shard the last stamp folded: of one snapshot.

    `at`: of that version; raises `FileNotFoundError` if its file has been cleaned up.
    """
    return _folded(TableLog(root.store, GROUP_OFFSETS.name).open(at))


def read_group_state(root: QueueRoot, group: str | None = None) -> GroupReading:
    """The states of `group` (or of all) with every fact there is. See `GroupStateReader`."""
    return GroupStateReader(root).read(group)


@dataclass(slots=True)
class _Followed:
    """A journal shard as far as it was read: the next reading goes on from there."""

    tail: Tail
    newest: Stamp
    """Of the commits so far."""
    news: list[JournalNews] = field(default_factory=list)
    """Of each commit behind the fold position."""

    def add(self, news: JournalNews) -> None:
        """What the next commit says."""
        if news.last_stamp is not None:
            if news.last_stamp > self.newest:
                self.newest = news.last_stamp
            else:
                # The fold waits there: nothing up to it says that this is folded.
                news.last_stamp = None
        self.news.append(news)

    def drop_folded(self, folded: Stamp | None) -> None:
        """Forget what a newer fold has, and commits without a stamp below that."""
        for at in range(len(self.news) - 1, -1, -1):
            stamp = self.news[at].last_stamp
            if folded is not None and stamp is not None and stamp <= folded:
                del self.news[: at + 1]
                return


class GroupStateReader:
    """Reads the state of groups again and again; keeps its handle on `group_offsets`.

    A reading of all groups goes on where the one before has ended, unless `forget` comes between.
    Not thread-safe.
    """

    def __init__(self, root: QueueRoot) -> None:
        self._root = root
        self._table = TableLog(root.store, GROUP_OFFSETS.name).open()
        self._followed: dict[ShardName, _Followed] = {}
        self._aside = SetAsideLog()

    def forget(self) -> None:
        """Let go of what was read: the next reading begins at the fold positions."""
        self._followed.clear()

    def read(self, group: str | None = None) -> GroupReading:
        """All that is committed when this is called is in the answer, and durable.

        Data files that are damaged or gone are set aside, as the fold does. A journal's commit that
        cannot be read counts by the data file that it brought. Raises `CorruptTable` for
        `group_offsets`, or `TailLost` if commits that are not folded are gone.
        """
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(TailLost, FileNotFoundError):
                return self._read(group)
            # A shard was cleaned up or removed behind a newer fold: that fold has what is gone.
            self._root.forget_shards("journal")
        return self._read(group, pass_gone=True)

    def _read(self, group: str | None, *, pass_gone: bool = False) -> GroupReading:
        before = set(self._root.shards("journal"))
        try:
            self._table.refresh()
        except TailLost:
            self._table.open()
        self._table.make_durable()
        states, folded = _folded(self._table, group)
        shards = self._root.shards("journal")
        if gone := before.difference(shards):
            # Folded to its end, but perhaps by a fold that came after ours.
            raise TailLost(f"journal shard {min(gone)} was removed meanwhile", hint="read again")
        news = {
            shard: self._journal(shard, folded.get(shard), group, pass_gone=pass_gone)
            for shard in shards
        }
        all_news = [one for several in news.values() for one in several]
        fences = [fence for one in all_news for fence in one.fences]
        self._aside.found(odd for one in all_news for odd in one.aside)
        return GroupReading(
            fold_news(
                states,
                [state for one in all_news for state in one.states],
                fences,
                {shard for shard, several in news.items() if any(one.sealed for one in several)},
            ),
            fences,
            folded,
            shards,
        )

    def _journal(
        self, shard: ShardName, folded: Stamp | None, group: str | None, *, pass_gone: bool
    ) -> list[JournalNews]:
        """What each commit behind the fold position says."""
        store = self._root.store
        # Put back when all has gone well: whoever tries again begins anew.
        followed = self._followed.pop(shard, None) if group is None else None
        if followed is None:
            followed = self._follow(shard, folded)
        for commit in followed.tail.poll():
            news = journal_news(store, shard, [commit], group, pass_gone=pass_gone)
            if news.torn:
                self._root.suspects[shard_path("journal", shard)] = news.torn
            followed.add(news)
        # Whoever acts on a version makes it durable first.
        followed.tail.make_durable()
        followed.drop_folded(folded)
        if group is None:
            self._followed[shard] = followed
        return followed.news

    def _follow(self, shard: ShardName, folded: Stamp | None) -> _Followed:
        store, path = self._root.store, shard_path("journal", shard)
        start, newest = Version(-1), Stamp(0)
        if folded is not None:
            start = find_version(store, path, folded)
            if start > 0 and not store.exists(commit_path(path, start)):
                # All that is left is above our fold: what was cleaned up is in a newer one.
                raise TailLost(f"{path}: facts behind {folded} were cleaned up", hint="read again")
            newest = stamp_at(store, path, start) or newest
        return _Followed(Tail(store, path, start, pass_torn=True), newest)


class GroupOffsetsWriter:
    """The one committer of `group_offsets`: the offsets leader, in its epoch.

    The lease is for liveness, the `offsets` txn for safety: a commit lands right after the last
    one this leader has seen, or not at all, so it never lands after a newer leader's first.
    """

    def __init__(self, root: QueueRoot) -> None:
        self._store = root.store
        self._table = TableLog(root.store, GROUP_OFFSETS.name).open()
        self._epoch = Epoch(0)
        self._counter = 0

    @property
    def recorded_epoch(self) -> Epoch:
        """The newest epoch in the table: a new leader's must be above it."""
        return Epoch(self._table.txns.get(OFFSETS_TXN, 0) >> _COUNTER_BITS)

    def begin(self, epoch: Epoch) -> tuple[States, dict[ShardName, Stamp]]:
        """Commit the epoch, so that earlier leaders can commit no more; the state to go on from.

        Raises `LeadershipLost` if the table has this epoch or a higher one already.
        """
        while True:
            if self.recorded_epoch >= epoch:
                raise LeadershipLost(
                    f"epoch {epoch} presented, {self.recorded_epoch} in group_offsets",
                    hint="take a higher epoch",
                )
            try:
                self._table.commit([Txn(OFFSETS_TXN, epoch << _COUNTER_BITS)], {"epoch": epoch})
            except (CommitConflict, TailLost):
                continue
            self._epoch, self._counter = epoch, 0
            return _folded(self._table)

    def commit(
        self,
        states: Mapping[Key, GroupState],
        folded: Mapping[ShardName, Stamp],
    ) -> Version:
        """Replace the rows by `states` and move the fold positions to `folded`, in one commit.

        Raises `LeadershipLost` when a newer leader has begun.
        """
        if not self._epoch:
            raise ValueError("begin() comes first")
        add = write_data_file(
            self._store, GROUP_OFFSETS.name, states_to_arrow(states.values()), {}, GROUP_OFFSETS
        )
        reach(Step.FOLD_DATA_WRITTEN)
        self._counter += 1
        while True:
            try:
                version = self._table.commit(
                    [
                        *_removals(self._table, add.modification_time),
                        add,
                        Txn(OFFSETS_TXN, (self._epoch << _COUNTER_BITS) | self._counter),
                        *(Txn(FOLDED.name(shard), stamp) for shard, stamp in folded.items()),
                    ],
                    {"epoch": self._epoch, "counter": self._counter, "rows": len(states)},
                )
            except (CommitConflict, TailLost):
                self._check_epoch(add)
                continue
            reach(Step.FOLD_COMMITTED)
            return version

    def _check_epoch(self, unused: Add) -> None:
        if self.recorded_epoch != self._epoch:
            self._store.delete(f"{GROUP_OFFSETS.name}/{unused.path}")
            raise LeadershipLost(
                f"epoch {self._epoch} presented, {self.recorded_epoch} in group_offsets",
                hint="this term is over",
            )


def _removals(table: TableLog, now_ms: int) -> list[Remove]:
    return [old.removal(now_ms) for old in table.files.values()]


def _folded(table: TableLog, group: str | None = None) -> tuple[States, dict[ShardName, Stamp]]:
    states: States = {}
    for path, add in table.files.items():
        rows = read_data_file(table.store, table.path, path, vector=add.deletion_vector)
        if group is not None:
            # Before they are parsed: a partition of another group can have a million open records.
            rows = rows.filter(pc.equal(rows["group"], group))
        states |= states_from_arrow(rows)
    return states, FOLDED.read(table.txns)
