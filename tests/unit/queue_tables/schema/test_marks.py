"""The marks of a root, as those who act on them read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakequeue.errors import StorageUnavailable
from queue_tables.delta.actions import Txn
from queue_tables.delta.store import LocalStore
from queue_tables.delta.table import TableLog, create_table
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import offset_mark, producer_mark
from queue_tables.schema.schemas import LOG


class Slow(LocalStore):
    """Fails to make a directory durable as often as it is told."""

    failures = 0
    synced = 0

    def make_durable(self, path: str) -> None:
        if self.failures:
            self.failures -= 1
            raise StorageUnavailable("away")
        self.synced += 1
        super().make_durable(path)


def test_what_could_not_be_made_durable_is_not_handed_out_at_the_next_read(tmp_path: Path) -> None:
    store = Slow(tmp_path)
    create_table(store, LOG.name, LOG)
    writer = TableLog(LocalStore(tmp_path), LOG.name, keep_files=False).open()
    marks = LogMarks(QueueRoot(store, ""))
    assert marks.read() == {}
    writer.commit([Txn(producer_mark("p"), 3), Txn(offset_mark("t", 0), 7)])
    store.failures, store.synced = 2, 0
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            marks.read()
    assert store.synced == 0
    assert marks.read() == {"producer/p": 3, "offset/t/0": 7}
    assert store.synced == 1
    assert marks.read("offset/t/0", "producer/nobody") == {"offset/t/0": 7}
    assert store.synced == 1
