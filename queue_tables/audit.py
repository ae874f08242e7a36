"""The table `audit`: who changed what, and what was refused.

A change is written before its call is answered. Refusals are gathered for a second, those of one
kind as one row, so that whoever knocks at every door fills no disk.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import structlog

from lakequeue.errors import CommitConflict, LakequeueError, TailLost
from queue_access.audit_line import Line
from queue_tables.delta.actions import Txn
from queue_tables.delta.maintenance import vacuumed
from queue_tables.delta.table import TableLog, create_table
from queue_tables.files.parquet import write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import AUDIT

log = structlog.get_logger("audit")

GATHER_S = 1.0
MOST_KINDS = 256
"""Kinds of refusals in one second that get a row each; those beyond share one."""


class Audit:
    """Writes the table of one root, and the same to the log. Thread-safe; raises nothing."""

    def __init__(self, root: QueueRoot, node: str) -> None:
        self._root = root
        self._node = node
        self._table: TableLog | None = None
        self._writing = threading.Lock()
        self._gathering = threading.Lock()
        self._refused: dict[Line, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit", daemon=True)

    def start(self) -> Audit:
        """Begin to write what is gathered."""
        self._thread.start()
        return self

    def changed(self, line: Line) -> None:
        """Write it now."""
        self._write([(line, 1)])

    def refused(self, line: Line) -> None:
        """Write a refusal soon."""
        self.soon(line)

    def soon(self, line: Line, count: int = 1) -> None:
        """Write it soon. Costs nothing that waits: for the event loop."""
        with self._gathering:
            if line not in self._refused and len(self._refused) >= MOST_KINDS:
                line = replace(line, principal="", address="", name="", how="", call="others")
            self._refused[line] = self._refused.get(line, 0) + count

    def close(self) -> None:
        """Write what is left."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(GATHER_S * 5)
        self.flush()

    def flush(self) -> None:
        """Write what is gathered."""
        with self._gathering:
            lines, self._refused = [*self._refused.items()], {}
        if lines:
            self._write(lines)

    def _run(self) -> None:
        while not self._stopping.wait(GATHER_S):
            self.flush()

    def _write(self, lines: Sequence[tuple[Line, int]]) -> None:
        for line, count in lines:
            told = {k: v for k, v in asdict(line).items() if v not in {"", None}}
            log.info("audit.recorded", count=count, **told)
        try:
            with self._writing:
                self._commit(lines)
        except LakequeueError as error:
            # What it tells of has happened; the log has it.
            log.warning("audit.failed", error=error.detail, lines=len(lines))
        except Exception:
            log.exception("audit.failed", lines=len(lines))

    def _commit(self, lines: Sequence[tuple[Line, int]]) -> None:
        now = datetime.now(UTC)
        rows = [
            asdict(line) | {"at": now, "node": self._node, "count": count} for line, count in lines
        ]
        try:
            self._append(rows)
        except TailLost:
            # The table was removed while we had it open: begin another.
            self._table = None
            self._append(rows)

    def _append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        store, table = self._root.store, self._table
        if table is None:
            create_table(store, AUDIT.name, AUDIT, dict(AUDIT.properties))
            table = self._table = TableLog(store, AUDIT.name, keep_files=False).open()
        told = pa.Table.from_pylist(rows, schema=AUDIT.arrow)
        add = write_data_file(store, AUDIT.name, told, {}, AUDIT)
        while True:
            number = table.txns.get(AUDIT.name, 0) + 1
            try:
                table.commit([add, Txn(AUDIT.name, number)], {"audit": len(rows)})
            except CommitConflict as conflict:
                if vacuumed([add], conflict.commits):
                    add = write_data_file(store, AUDIT.name, told, {}, AUDIT)
                continue
            return
