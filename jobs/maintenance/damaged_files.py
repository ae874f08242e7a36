"""Files of a table that maintenance cannot read. It leaves them, says so, and goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import structlog

from lakequeue.errors import CorruptTable
from queue_tables.delta.store import Store
from queue_tables.delta.table import TableLog

T = TypeVar("T")

log = structlog.get_logger("maintenance")


class DamagedFiles:
    """Those of one table that one run has met."""

    def __init__(self, store: Store, table_path: str) -> None:
        """`table_path` is relative to the root."""
        self._store, self._table_path = store, table_path
        self._why: dict[str, str] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._why

    def unless_damaged(self, path: str, read: Callable[[], T]) -> T | None:
        """What `read` returns of a file; `None` if it is damaged or missing, which is noted.

        Raises `FileNotFoundError` if the table does not name the file any more.
        """
        try:
            return read()
        except FileNotFoundError as error:
            # Another run may have rewritten it, and a vacuum deleted it.
            if path not in TableLog(self._store, self._table_path).open().files:
                raise
            self.note(path, error)
        except CorruptTable as error:
            self.note(path, error)
        return None

    def note(self, path: str, error: Exception) -> None:
        """The file stays as it is."""
        self._why[path] = str(error)
        log.warning("damaged_file.left", file=f"{self._table_path}/{path}", why=str(error))

    def report(self) -> dict[str, Any]:
        """For the report of the job, which then has failed; empty if all could be read."""
        if not self._why:
            return {}
        return {
            "damaged": [f"{self._table_path}/{path}" for path in self._why],
            "failed": f"left out {len(self._why)} files: {next(iter(self._why.values()))}",
        }
