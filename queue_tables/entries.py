"""The table `access`: entries read and changed by compare-and-set, and watched by every process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import structlog

from lakequeue.errors import (
    CommitConflict,
    LakequeueError,
    RootUnusable,
    TailLost,
    UnlockedDoors,
)
from lakequeue.settings import AccessSettings
from queue_access.pages import is_loopback
from queue_access.registry import LOCKED, Entry, Registry, newest
from queue_tables.delta.actions import Txn
from queue_tables.delta.table import TableLog, create_table
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import ACCESS

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 1.0
"""A key that was revoked is good for so long at every node, and for one reading of the table."""
_FIELDS = ("kind", "name", "principal", "body", "expires_at", "version", "deleted")


class AccessTable:
    """The entries of one root. Not thread-safe."""

    def __init__(self, root: QueueRoot) -> None:
        """Reads them; a root without the table has none."""
        self._root = root
        self._table: TableLog | None = None
        self._entries: dict[tuple[str, str], Entry] = {}
        self.refresh()

    def entries(self) -> list[Entry]:
        """Those that count, sorted by kind and name; deleted ones too."""
        return [self._entries[about] for about in sorted(self._entries)]

    def registry(self) -> Registry:
        """What they come to."""
        return Registry(self._entries.values())

    @property
    def locked(self) -> bool:
        """Whether authentication is on."""
        found = self._entries.get((LOCKED, LOCKED))
        return found is not None and not found.deleted

    def refresh(self) -> bool:
        """Read what others have committed; true if there was anything."""
        table = self._table
        if table is None:
            if not self._root.is_table(ACCESS.name):
                return False
            self._reload()
            return True
        try:
            commits = table.refresh()
        except TailLost:
            self._reload()
            return True
        try:
            for commit in commits:
                self._read(add.path for add in commit.adds if add.data_change)
        except BaseException:
            # The handle has gone past them: without this a revoked key would stay good.
            self._table = None
            raise
        return bool(commits)

    def _reload(self) -> None:
        table = TableLog(self._root.store, ACCESS.name).open()
        self._read(table.files)
        self._table = table

    def _read(self, paths: Iterable[str]) -> None:
        for path in paths:
            rows = read_data_file(self._root.store, ACCESS.name, path, _FIELDS).to_pylist()
            found = [Entry(**row) for row in rows]
            self._entries = dict(newest([*self._entries.values(), *found]))

    def change(self, judge: Callable[[Registry], Sequence[Entry]], by: str) -> list[Entry]:
        """Commit the entries that `judge` asks for, judged anew whenever another was faster.

        Returns them, with their versions. What they replace is deleted by `deleted=True`.
        """
        while True:
            create_table(self._root.store, ACCESS.name, ACCESS, dict(ACCESS.properties))
            self.refresh()
            table = self._table
            wanted = judge(self.registry())
            if not wanted or table is None:
                return []
            made = [replace(one, version=self._next_version(one)) for one in wanted]
            now = datetime.now(UTC)
            rows = [
                {name: getattr(one, name) for name in _FIELDS}
                | {"changed_at": now, "changed_by": by}
                for one in made
            ]
            add = write_data_file(
                self._root.store,
                ACCESS.name,
                pa.Table.from_pylist(rows, schema=ACCESS.arrow),
                {},
                ACCESS,
            )
            number = table.txns.get(ACCESS.name, 0) + 1
            try:
                table.commit([add, Txn(ACCESS.name, number)], {"access": len(made)})
            except (CommitConflict, TailLost):
                # This handle has taken their commits in without the rows: read all of it.
                self._table = None
                continue
            self._entries = dict(newest([*self._entries.values(), *made]))
            return made

    def _next_version(self, entry: Entry) -> int:
        before = self._entries.get((entry.kind, entry.name))
        return 0 if before is None else before.version + 1


class AccessWatch:
    """Follows the table in a thread, and hands on each new `Registry`.

    While storage is away what was known goes on: nobody gets in by its failure.
    """

    def __init__(self, root: QueueRoot, tell: Callable[[Registry], object]) -> None:
        """Reads the table at once, and tells. Raises what storage raises."""
        self._table = AccessTable(root)
        self._tell = tell
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="access", daemon=True)
        tell(self._table.registry())

    @property
    def locked(self) -> bool:
        """Whether authentication is on."""
        return self._table.locked

    def start(self) -> AccessWatch:
        """Begin to follow."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Follow no more."""
        self._stopping.set()

    def _run(self) -> None:
        untold = False
        while not self._stopping.wait(LOOK_EVERY_S):
            try:
                untold = self._table.refresh() or untold
                if untold:
                    self._tell(self._table.registry())
                    untold = False
            except LakequeueError as error:
                log.warning("access.read_failed", error=error.detail)
            except Exception as error:
                log.exception("access.failed", error=str(error))


def must_be_locked(uri: str, host: str, settings: AccessSettings) -> None:
    """Raise `UnlockedDoors` for a port that others reach while everybody may do everything."""
    locked = False
    with contextlib.suppress(RootUnusable):  # there is no queue yet
        # Always: a table that cannot be read is found before anything is started.
        locked = AccessTable(QueueRoot.existing(uri)).locked
    if locked or is_loopback(host) or settings.let_anybody_read_write_and_delete:
        return
    raise UnlockedDoors(
        f"listening on {host} would let anybody who reaches the port read, write and delete "
        "everything in this queue",
        hint=f"switch authentication on: `lakequeue auth init --root {uri}`; or, if it is what you "
        "want, set access.let_anybody_read_write_and_delete = true "
        "(LAKEQUEUE_ACCESS__LET_ANYBODY_READ_WRITE_AND_DELETE=true)",
    )
