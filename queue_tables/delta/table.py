"""The handle of one table: its newest state, and commits at exactly the next version.

A commit file is created only if it is absent, which is the Delta protocol's own mutual exclusion.
So a commit either lands at `version + 1`, or somebody else's is there and the caller judges it:
a fence, a seal, a newer epoch, or a compaction to go on from. No handle is ever stale unnoticed.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from lakequeue.errors import (
    CommitConflict,
    CorruptTable,
    LakequeueError,
    RootUnusable,
    SchemaDrift,
    StorageFull,
    StorageUnavailable,
    TailLost,
)
from lakequeue.records import Version
from queue_tables.delta.actions import (
    Action,
    Add,
    Commit,
    CommitInfo,
    Metadata,
    Protocol,
    Txn,
    commit_path,
    encode,
    has_table,
)
from queue_tables.delta.columns import Table
from queue_tables.delta.declared import delta_schema
from queue_tables.delta.guard import (
    FOREIGN_TXN,
    GUARDED,
    GUARDED_TXN,
    check_readable,
    is_guarded,
    reinstated,
)
from queue_tables.delta.snapshot import Snapshot, load_snapshot
from queue_tables.delta.storage_meter import METER
from queue_tables.delta.store import Store
from queue_tables.delta.tail import Tail

_PUT_ATTEMPTS = 3


class TableLog:
    """Reader and writer of one table. Not thread-safe: one committer owns a handle.

    What other engines do to its files does not count (`Snapshot`), unless for `every_engine`.
    """

    def __init__(
        self,
        store: Store,
        path: str,
        *,
        keep_files: bool = True,
        every_engine: bool = False,
        pass_torn: bool = False,
    ) -> None:
        """`pass_torn`: a commit that cannot be read counts as an empty one."""
        self.store = store
        self.path = path
        self._every_engine = every_engine
        self._pass_torn = pass_torn
        self._snapshot = Snapshot(keep_files=keep_files)
        self._tail = self._tail_from(Version(-1))

    def open(self, at: Version | None = None, *, unreadable_too: bool = False) -> TableLog:
        """Load the newest state. Raises `FileNotFoundError` if there is no table.

        `at`: that of an earlier version, to be read; a commit would meet what came after it.
        Raises `SchemaDrift` for a table whose files read otherwise than by their names, unless
        `unreadable_too`: for who repairs it.
        """
        self._snapshot = load_snapshot(
            self.store,
            self.path,
            keep_files=self._snapshot.keep_files,
            at=at,
            every_engine=self._every_engine,
            pass_torn=self._pass_torn,
        )
        self._tail = self._tail_from(self.version)
        if not unreadable_too:
            check_readable(self.path, self.protocol)
        return self

    @property
    def version(self) -> Version:
        """The newest version this handle has seen."""
        return self._snapshot.version

    @property
    def txns(self) -> Mapping[str, int]:
        """Application id → version."""
        return self._snapshot.txns

    @property
    def configuration(self) -> Mapping[str, str]:
        """The table properties."""
        return self._snapshot.configuration

    @property
    def files(self) -> Mapping[str, Add]:
        """Path → file, of the files that belong to the table; empty without `keep_files`."""
        return self._snapshot.files

    @property
    def protocol(self) -> Protocol:
        """What readers and writers of the table must understand."""
        return self._snapshot.protocol

    @property
    def foreign(self) -> Version:
        """The newest version that is known to be another engine's; -1: none."""
        return Version(max(self._snapshot.foreign, self.txns.get(FOREIGN_TXN, -1)))

    @property
    def is_settled(self) -> bool:
        """Whether the files are what a reader of Delta sees: no other engine changed them."""
        return self._snapshot.is_settled

    @property
    def metadata(self) -> Metadata:
        """Schema and properties. Raises `ValueError` before `open`."""
        if self._snapshot.metadata is None:
            raise ValueError(f"{self.path} is not open")
        return self._snapshot.metadata

    @property
    def torn(self) -> Mapping[Version, str]:
        """Commits that could not be read and were passed since the last checkpoint, and why."""
        return self._snapshot.torn

    @property
    def from_v2(self) -> bool:
        """Whether a checkpoint of version 2 stands for its earlier commits."""
        return self._snapshot.from_v2

    def refresh(self) -> list[Commit]:
        """The commits since `version`, applied: of those of other engines what counts.

        Raises `TailLost`: open the table anew.
        """
        commits = self._tail.poll()
        newest = [a for commit in commits for a in commit.actions if isinstance(a, Protocol)]
        if newest:
            try:
                check_readable(self.path, newest[-1])
            except SchemaDrift:
                # Not taken in: when the table is repaired, these commits are still to come.
                self._tail = self._tail_from(self.version)
                raise
        applied: list[Commit] = []
        for commit in commits:
            try:
                applied.append(self._snapshot.apply(commit))
            except CorruptTable:
                self._tail = self._tail_from(self.version)
                if applied:
                    break  # the next call raises it
                raise
        return applied

    def _tail_from(self, version: Version) -> Tail:
        return Tail(self.store, self.path, version, pass_torn=self._pass_torn)

    def put_guard(self) -> bool:
        """Commit the guard (`queue_tables.delta.guard`) if it is missing; whether it was. Durable.

        Whoever commits to the table at once does the same, or goes on behind this commit. Raises
        `SchemaDrift` if the table needs what the queue's commits would break.
        """
        while self._missing(()):
            try:
                self.commit((), {"guard": True})
            except (CommitConflict, TailLost):
                continue
            return True
        return False

    def _missing(self, actions: Iterable[Action]) -> tuple[Action, ...]:
        """What a commit of `actions` has to bring besides, for the table to be guarded."""
        known = is_guarded(self.protocol) or GUARDED_TXN in self.txns
        mark = () if known else (Txn(GUARDED_TXN, self.version + 1),)
        if any(isinstance(action, Protocol) for action in actions):
            return mark  # a repair says itself what is to be
        said = next((a for a in actions if isinstance(a, Metadata)), self.metadata)
        vectors = self.protocol != GUARDED and (
            # Without the files at hand they may have some.
            not self._snapshot.keep_files or any(f.deletion_vector for f in self.files.values())
        )
        named = self._snapshot.from_v2
        added = reinstated(self.path, self.protocol, said, vectors=vectors, checkpoints=named)
        return (*added, *mark)

    def make_durable(self) -> None:
        """Make the seen version durable, before acting on one that another process committed."""
        self._tail.make_durable()

    def commit(self, actions: Iterable[Action], info: Mapping[str, Any] | None = None) -> Version:
        """Commit at exactly `version + 1`; durable when it returns.

        `info` becomes the commit's `lakequeue` object. Raises `CommitConflict` with the foreign
        `commits`, already applied to this handle; `TailLost`, with the handle opened anew, if
        commits this handle has not seen were cleaned up; `StorageFull` and `StorageUnavailable`
        say by `stored` whether the commit may have landed ("unknown") or not ("no").
        """
        provenance = CommitInfo(
            lakequeue=info or {},
            timestamp=time.time_ns() // 1_000_000,
            txn_id=uuid.uuid4().hex,
        )
        wanted = tuple(actions)
        guard = self._missing(wanted)
        if self._snapshot.foreign > self.txns.get(FOREIGN_TXN, -1):
            guard += (Txn(FOREIGN_TXN, self._snapshot.foreign),)
        if any(isinstance(action, Metadata) for action in guard):
            wanted = tuple(a for a in wanted if not isinstance(a, Metadata))
        made = [provenance, *guard, *wanted]
        data = encode(made)
        version = Version(self.version + 1)
        if not self._put(version, data):
            try:
                foreign = self.refresh()
            except TailLost as lost:
                self.open()
                lost.stored = "no"
                raise
            if not foreign:
                raise StorageUnavailable(
                    f"{self.path}: version {version} exists, and could not be read",
                    stored="no",
                    retry_after_s=1.0,
                )
            raise CommitConflict(
                f"{self.path}: version {version} was committed by another process",
                hint="judge the newer commits, then commit again",
                stored="no",
                commits=tuple(foreign),
            )
        self._refuse_a_gap(version)
        self._snapshot.apply(Commit(version, tuple(made)))
        self._tail = self._tail_from(version)
        return version

    def _refuse_a_gap(self, version: Version) -> None:
        # A handle that slept past the retention of commits may find the next name free because
        # the commit of that name was cleaned up: ours would lie there and never be read. Clean-up
        # goes from old to new and never takes the newest, so then the one before is gone too.
        try:
            if version == 0 or self.store.exists(commit_path(self.path, version - 1)):
                return
            newest = self._newest_version()
        except (StorageUnavailable, RootUnusable, CorruptTable) as e:
            raise _unknown(self.path, "the commit landed, and could not be checked", e) from e
        if newest == version:
            return
        # Without a commit right behind ours it is certain that ours is read by nobody.
        unread = not self.store.exists(commit_path(self.path, version + 1))
        if unread:
            self.store.delete(commit_path(self.path, version))
        if newest is None:
            raise TailLost(
                f"{self.path} was removed",
                hint="a shard is removed when it is sealed and done with: open a new one",
                stored="no" if unread else "unknown",
            )
        self.open()
        raise TailLost(
            f"{self.path}: version {version} was committed and cleaned up long ago, the newest is"
            f" {self.version}",
            hint="judge the table as it is now, then commit again",
            stored="no" if unread else "unknown",
        )

    def _newest_version(self) -> Version | None:
        """None: the table was removed, and what we have put is all there is."""
        try:
            return load_snapshot(
                self.store, self.path, keep_files=False, pass_torn=self._pass_torn
            ).version
        except (FileNotFoundError, CorruptTable):
            if has_table(self.store.names(f"{self.path}/_delta_log")):
                raise
            return None

    def _put(self, version: Version, data: bytes) -> bool:
        """True: our commit is version `version`, durably. False: another's is."""
        path = commit_path(self.path, version)
        for attempt in range(1, _PUT_ATTEMPTS + 1):
            try:
                self.store.put_new(path, data)
            except FileExistsError:
                # Ours, if an earlier attempt landed although it was answered by an error; object
                # store clients also try again by themselves.
                landed = self._landed(path, data)
                if landed is None and not self.store.local_path and attempt < _PUT_ATTEMPTS:
                    # S3 answers so too while another put of that name is under way.
                    METER.retried()
                    continue
                if not landed:
                    return False
            except (StorageFull, StorageUnavailable, RootUnusable) as e:
                landed = self._landed(path, data)
                if landed is False:
                    return False
                if landed is None:
                    if isinstance(e, StorageUnavailable) and attempt < _PUT_ATTEMPTS:
                        METER.retried()
                        continue
                    # A local failure is over when it is answered; a request to an object store
                    # may still be on its way.
                    e.stored = "no" if self.store.local_path else "unknown"
                    raise
            else:
                return True
            self._must_be_durable()
            return True
        raise AssertionError("unreachable")

    def _landed(self, path: str, data: bytes) -> bool | None:
        """True ours, False another's, None nothing there."""
        try:
            return self.store.get(path) == data
        except FileNotFoundError:
            return None
        except (StorageUnavailable, RootUnusable) as e:
            raise _unknown(path, "it could not be found out whether the commit landed", e) from e

    def _must_be_durable(self) -> None:
        try:
            self.store.make_durable(f"{self.path}/_delta_log")
        except (StorageUnavailable, StorageFull) as e:
            what = "the commit is visible, and could not be made durable"
            raise _unknown(self.path, what, e) from e


def create_table(
    store: Store,
    path: str,
    table: Table,
    configuration: Mapping[str, str] | None = None,
    *,
    over_files: bool = True,
) -> bool:
    """Commit version 0 of `table` at `path`, durable. False if there is a table already.

    Without `over_files` it raises `CorruptTable` if data files are there and no log is.
    """
    now_ms = time.time_ns() // 1_000_000
    actions: list[Action] = [
        CommitInfo(timestamp=now_ms, operation="CREATE TABLE", txn_id=uuid.uuid4().hex),
        GUARDED,
        Metadata(
            id=str(uuid.uuid4()),
            schema_string=delta_schema(table.arrow, table.meanings),
            partition_columns=table.partition_by,
            configuration=configuration or {},
            created_time=now_ms,
        ),
    ]
    if store.names(f"{path}/_delta_log"):
        return False  # version 0 may have been cleaned up behind a checkpoint
    if not over_files and _has_files(store, path):
        if store.names(f"{path}/_delta_log"):
            return False  # somebody has created it meanwhile, and written
        raise CorruptTable(
            f"{path} has data files, and its _delta_log is gone",
            hint=f"put {path}/_delta_log back from a backup, or move the folder {path} away",
        )
    with contextlib.suppress(FileExistsError):
        store.put_new(commit_path(path, 0), encode(actions))
        return True
    return False


def _has_files(store: Store, path: str) -> bool:
    return any("=" in name or name.endswith(".parquet") for name in store.names(path))


def _unknown(place: str, what: str, error: LakequeueError) -> StorageUnavailable:
    """Of a commit that may be there or not, or may not last."""
    return StorageUnavailable(
        f"{place}: {what}: {error.detail}", stored="unknown", retry_after_s=1.0
    )
