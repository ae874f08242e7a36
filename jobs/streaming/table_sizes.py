"""How large the queue's tables have grown: files, bytes and log objects, looked at now and then.

A table of very many files or log objects becomes slow to open; maintenance keeps both low, and
these numbers show whether it does. A look lists every object of the queue: cheap on a local disk,
a request for each thousand on an object store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

import structlog

from lakequeue import metrics
from lakequeue.clock import boot_seconds
from lakequeue.errors import LakequeueError
from lakequeue.metrics.declaring import Sample
from queue_tables.delta.store import Store
from queue_tables.schema.schemas import TABLES

log = structlog.get_logger("upkeep")

_LOG = "_delta_log"


class TableSizes:
    """Looks every `interval_s` (0: never), in a thread of its own."""

    def __init__(
        self, store: Store, interval_s: float, clock: Callable[[], float] = boot_seconds
    ) -> None:
        self._store = store
        self._interval_s = interval_s
        self._clock = clock
        self._due_at = clock()
        self._looking: threading.Thread | None = None
        self._found: list[Sample] = []

    def measure_if_due(self) -> None:
        """Begin a look if one is due. Never blocks; used by one thread."""
        if self._interval_s <= 0 or self._clock() < self._due_at:
            return
        if self._looking is not None and self._looking.is_alive():
            return
        self._due_at = self._clock() + self._interval_s
        self._looking = threading.Thread(target=self._look, name="table-sizes", daemon=True)
        self._looking.start()

    def samples(self) -> list[Sample]:
        """What the newest look found; [] before the first one has ended."""
        return self._found

    def _look(self) -> None:
        try:
            self._found = list(counted({name: self._store.sizes(name) for name in TABLES}))
        except LakequeueError as error:
            log.warning("table_sizes.failed", why=error.detail)


def counted(found: Mapping[str, Mapping[str, int]]) -> Iterator[Sample]:
    """Table → (path → bytes) as metrics. Pure."""
    for table, sizes in found.items():
        data = [size for path, size in sizes.items() if f"/{_LOG}/" not in path]
        label = (table,)
        yield Sample(metrics.driver.TABLE_FILES, len(data), label)
        yield Sample(metrics.driver.TABLE_BYTES, sum(data), label)
        yield Sample(metrics.driver.TABLE_LOG_OBJECTS, len(sizes) - len(data), label)
        if TABLES[table].sharded:
            yield Sample(metrics.driver.SHARDS, len(_shards(sizes)), label)


def _shards(paths: Iterable[str]) -> set[str]:
    return {path.split("/")[1] for path in paths}
