"""The marks of a root, as those who act on them read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakequeue.errors import StorageUnavailable
from lakequeue.records import Partition, TopicId, TopicPartition
from queue_tables.delta.actions import Txn
from queue_tables.delta.store import LocalStore
from queue_tables.delta.table import TableLog, create_table
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import (
    FOLDED,
    PLANS,
    WATERMARKS,
    has_next_offset,
    mirror_aim,
    mirror_aims_in,
    mirror_mark,
    next_offsets_in,
    offset_mark,
    producer_mark,
)
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


def test_names_of_marks_are_read_back_as_they_were_built() -> None:
    txns = {
        "order": 9,
        offset_mark("t1", 4): 7,
        WATERMARKS.name("node-1"): 3,
        PLANS.name("node-1"): 5,
        FOLDED.name("node-2"): 6,
        mirror_mark("q"): 1,
        mirror_aim("q"): 2,
    }
    assert next_offsets_in(txns) == {TopicPartition(TopicId("t1"), Partition(4)): 7}
    assert has_next_offset(txns, "t1")
    assert not has_next_offset(txns, "t")
    assert [marks.read(txns) for marks in (WATERMARKS, PLANS, FOLDED)] == [
        {"node-1": 3},
        {"node-1": 5},
        {"node-2": 6},
    ]
    assert mirror_aims_in(txns) == {"q": 2}
