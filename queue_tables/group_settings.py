"""The table `group_settings`: what people said about groups, changed by compare-and-set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

import pyarrow as pa

from lakequeue.errors import CommitConflict, TailLost
from queue_tables.delta.actions import Txn
from queue_tables.delta.table import TableLog, create_table
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import GROUP_SETTINGS

SettingKind = Literal["options", "pause", "webhook"]
Key = tuple[SettingKind, str]
_FIELDS = ("kind", "group", "version", "deleted", "body")


@dataclass(frozen=True, slots=True)
class Setting:
    """One version of a setting of a group."""

    kind: SettingKind
    group: str
    body: str = ""
    """JSON."""
    deleted: bool = False
    version: int = 0

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.kind, self.group


Judge = Callable[[dict[Key, Setting]], Iterable[Setting]]
"""The settings that count → the ones to write in their place; none: nothing to do."""


class GroupSettings:
    """The settings of one root. Not thread-safe."""

    def __init__(self, root: QueueRoot) -> None:
        """Reads nothing yet."""
        self._root = root
        self._table: TableLog | None = None
        self._known: dict[Key, Setting] = {}

    def read(self) -> dict[Key, Setting]:
        """Those that count now, deleted ones too."""
        if self._table is None:
            if not self._root.is_table(GROUP_SETTINGS.name):
                return {}
            table = TableLog(self._root.store, GROUP_SETTINGS.name).open()
            self._take(table.files)
            self._table = table
            return dict(self._known)
        try:
            commits = self._table.refresh()
            for commit in commits:
                self._take(add.path for add in commit.adds if add.data_change)
        except TailLost:
            self._table = None
            return self.read()
        except BaseException:
            # The handle has gone past them.
            self._table = None
            raise
        return dict(self._known)

    def change(self, judge: Judge, by: str) -> None:
        """Commit what `judge` asks for, judged anew whenever another was faster. Durable."""
        while True:
            known = self.read()
            wanted = [
                replace(one, version=known[one.key].version + 1 if one.key in known else 0)
                for one in judge(known)
            ]
            if not wanted:
                return
            if self._table is None:
                create_table(
                    self._root.store,
                    GROUP_SETTINGS.name,
                    GROUP_SETTINGS,
                    dict(GROUP_SETTINGS.properties),
                )
                continue
            now = datetime.now(UTC)
            rows = [
                {name: getattr(one, name) for name in _FIELDS}
                | {"changed_at": now, "changed_by": by}
                for one in wanted
            ]
            written = pa.Table.from_pylist(rows, schema=GROUP_SETTINGS.arrow)
            add = write_data_file(
                self._root.store, GROUP_SETTINGS.name, written, {}, GROUP_SETTINGS
            )
            number = self._table.txns.get(GROUP_SETTINGS.name, 0) + 1
            try:
                self._table.commit([add, Txn(GROUP_SETTINGS.name, number)], {"rows": len(wanted)})
            except (CommitConflict, TailLost):
                # This handle has taken their commits in without the rows: read all of it.
                self._table = None
                continue
            self._known |= {one.key: one for one in wanted}
            return

    def _take(self, paths: Iterable[str]) -> None:
        for path in paths:
            rows = read_data_file(self._root.store, GROUP_SETTINGS.name, path, _FIELDS).to_pylist()
            for one in (Setting(**row) for row in rows):
                known = self._known.get(one.key)
                if known is None or known.version < one.version:
                    self._known[one.key] = one
