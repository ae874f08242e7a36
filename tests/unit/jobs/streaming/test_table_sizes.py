"""Files, bytes and log objects of the tables."""

from __future__ import annotations

from pathlib import Path

from jobs.streaming.table_sizes import TableSizes, counted
from lakequeue import metrics
from lakequeue.metrics.declaring import Sample
from queue_tables.delta.store import LocalStore


def test_what_lies_in_the_log_folder_is_a_log_object() -> None:
    sizes = {
        "inbox/a-1/_delta_log/00000000000000000000.json": 5,
        "inbox/a-1/hour=2026-11-28-10/part-1.parquet": 100,
        "inbox/b-2/_delta_log/00000000000000000000.json": 6,
    }
    assert list(counted({"inbox": sizes})) == [
        Sample(metrics.driver.TABLE_FILES, 1, ("inbox",)),
        Sample(metrics.driver.TABLE_BYTES, 100, ("inbox",)),
        Sample(metrics.driver.TABLE_LOG_OBJECTS, 2, ("inbox",)),
        Sample(metrics.driver.SHARDS, 2, ("inbox",)),
    ]


def test_a_look_lists_the_root_when_it_is_due(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("log/hour=1/part.parquet", b"12345")
    now = [0.0]
    sizes = TableSizes(store, 60.0, clock=lambda: now[0])
    assert sizes.samples() == []
    sizes.measure_if_due()
    first = sizes._looking
    assert first is not None
    first.join(60)
    assert Sample(metrics.driver.TABLE_BYTES, 5, ("log",)) in sizes.samples()
    now[0] = 59.0
    sizes.measure_if_due()
    assert sizes._looking is first, "not due yet"
    now[0] = 60.0
    sizes.measure_if_due()
    assert sizes._looking is not first


def test_an_interval_of_zero_never_looks(tmp_path: Path) -> None:
    sizes = TableSizes(LocalStore(tmp_path), 0.0)
    sizes.measure_if_due()
    assert sizes._looking is None
