"""Reading the marks of a root."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from lakequeue.errors import TailLost
from queue_tables.delta.table import TableLog
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG


class LogMarks:
    """Reads the marks of one root, keeping its place in `log`. Thread-safe."""

    def __init__(self, root: QueueRoot) -> None:
        self._lock = threading.Lock()
        self._table = TableLog(root.store, LOG.name, keep_files=False)
        self._opened = False
        self._durable = False

    def read(self, *names: str) -> Mapping[str, int]:
        """The marks of these names as of now, durable; of none, every mark: there may be many.

        Raises storage errors.
        """
        with self._lock:
            try:
                if not self._opened:
                    raise TailLost("not opened yet")
                if self._table.refresh():
                    self._durable = False
            except TailLost:
                self._table.open()
                self._opened, self._durable = True, False
            if not self._durable:
                # Whoever acts on a version makes it durable first; if that failed, the next one.
                self._table.make_durable()
                self._durable = True
            txns = self._table.txns
            if not names:
                return dict(txns)
            return {name: txns[name] for name in names if name in txns}
