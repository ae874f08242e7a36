"""Rows that cannot be written into `rejects` as they are: each is kept in some form, none stops."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import queue_tables.files.parquet
import queue_tables.log.writer
from lakequeue.clock import wall_micros
from lakequeue.testing import MemoryQueue
from lakequeue_cli.rejects_redrive import Redrive
from queue_tables.delta.columns import Table
from queue_tables.log.rejected import RejectFilter, rejected
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import REJECTS
from tests.support.data.foreign_shard import ForeignShard, records
from tests.support.data.order_truth import log_rows, reject_rows
from tests.support.data.topic_values import new_topic
from tests.support.runs.order_process import Orderer

BASE = 1_700_000_000_000_000
Fails = Callable[[dict[str, Any]], bool]


def fail_on(monkeypatch: pytest.MonkeyPatch, fails: Fails) -> None:
    """No file of `rejects` can be made of rows of which one is such."""
    right = queue_tables.files.parquet.rendered

    def rendered(rows: pa.Table, partition: Any, declared: Table, *more: Any) -> Any:
        if declared is REJECTS and any(map(fails, rows.to_pylist())):
            raise ZeroDivisionError("no page")
        return right(rows, partition, declared, *more)

    monkeypatch.setattr("jobs.ordering.reject_rows.rendered", rendered)


def commit_copies(root: QueueRoot, values: list[bytes]) -> str:
    """Sound records, and a copy of each: the copies go to `rejects`."""
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    ids = pa.array([f"m{n}" for n in range(len(values))])
    for stamp in (BASE, BASE + 1):
        rows = records(topic_id, stamp, values)
        at = rows.schema.get_field_index("message_id")
        shard.commit(stamp, rows.set_column(at, rows.schema.field(at), ids))
    return topic_id


def test_a_row_that_cannot_be_written_is_kept_as_bytes_and_the_rest_as_it_is(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = commit_copies(root, [b"a", b"poison", b"c"])
    fail_on(monkeypatch, lambda row: row["value"] == b"poison")
    Orderer(root, 1).drain()
    assert [r["value"] for r in log_rows(root)] == [b"a", b"poison", b"c"]
    rejects = reject_rows(root)
    assert [(r["row"], r["reason"], r["original_offset"]) for r in rejects] == [
        (n, "duplicate", n) for n in range(3)
    ]
    assert [r["value"] for r in rejects if r["row"] != 1] == [b"a", b"c"]
    kept = rejects[1]
    assert kept["detail"].startswith("kept as an Arrow stream of the whole row")
    assert "ZeroDivisionError: no page" in kept["detail"]
    whole = pa.ipc.open_stream(kept["value"]).read_all().to_pylist()
    assert [(r["value"], r["topic_id"], r["row"]) for r in whole] == [(b"poison", topic_id, 1)]


@pytest.mark.parametrize("form", ["cut", "told"])
def test_what_cannot_be_kept_whole_is_cut_with_its_length_and_digest(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    value = b"poison" * 50_000
    commit_copies(root, [b"a", value])
    cut = {65_536} if form == "cut" else set()

    def fails(row: dict[str, Any]) -> bool:
        return b"poison" in (row["value"] or b"") and len(row["value"]) not in cut

    fail_on(monkeypatch, fails)
    Orderer(root, 1).drain()
    kept = reject_rows(root)[1]
    assert kept["value"] == (value[:65_536] if form == "cut" else None)
    assert f"300000 bytes, sha256 {hashlib.sha256(value).hexdigest()}" in kept["detail"]
    assert len(log_rows(root)) == 2


def test_a_row_that_is_too_large_is_cut(root: QueueRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_copies(root, [b"a", b"x" * 100_000, b"c"])
    monkeypatch.setattr("jobs.ordering.reject_rows.MOST_BYTES", 99_999)
    monkeypatch.setattr("jobs.rows.kept_forms.MOST_BYTES", 99_999)
    Orderer(root, 1).drain()
    rejects = reject_rows(root)
    assert [r["value"] for r in rejects] == [b"a", b"x" * 65_536, b"c"]
    assert "OverflowError: a row has 100001 bytes, of 99999" in rejects[1]["detail"]


def test_many_bytes_go_to_several_files_in_one_commit(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_copies(root, [b"%d" % n * 1_000 for n in range(9)])
    monkeypatch.setattr("jobs.ordering.reject_rows._FILE_BYTES", 2_500)
    before = {path for path in root.store.sizes("rejects") if path.endswith(".parquet")}
    Orderer(root, 1).drain()
    files = {path for path in root.store.sizes("rejects") if path.endswith(".parquet")} - before
    assert len(files) >= 4
    assert [r["value"] for r in reject_rows(root)] == [b"%d" % n * 1_000 for n in range(9)]


def test_what_fails_for_every_row_is_no_rows_fault(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_copies(root, [b"a", b"b"])
    with monkeypatch.context() as broken:
        fail_on(broken, lambda _: True)
        with pytest.raises(ZeroDivisionError):
            Orderer(root, 1).drain()
    assert not reject_rows(root)
    assert not log_rows(root)
    Orderer(root, 2).drain()
    assert len(log_rows(root)) == len(reject_rows(root)) == 2


def test_a_fault_of_ours_reduces_no_row(root: QueueRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever form can still be written."""
    commit_copies(root, [b"a", b"b"])
    with monkeypatch.context() as broken:
        fail_on(broken, lambda row: row["message_id"] is not None)
        with pytest.raises(ZeroDivisionError):
            Orderer(root, 1).drain()
    assert not reject_rows(root)
    Orderer(root, 2).drain()
    assert [r["value"] for r in reject_rows(root)] == [b"a", b"b"]


def test_a_row_that_can_be_written_nowhere_is_put_aside_in_another_form(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither into `log` nor as it is into `rejects`."""
    topic_id = new_topic(root)
    rows = records(topic_id, BASE, [b"a", b"poison", b"c"])
    ForeignShard(root).commit(BASE, rows)
    right = queue_tables.log.writer._rendered

    def rendered(some: pa.Table, compression: str) -> Any:
        if b"poison" in some["value"].to_pylist():
            raise ZeroDivisionError("no log page")
        return right(some, compression)

    monkeypatch.setattr("queue_tables.log.writer._rendered", rendered)
    fail_on(monkeypatch, lambda row: row["value"] == b"poison")
    Orderer(root, 1).drain()
    assert [r["value"] for r in log_rows(root)] == [b"a", b"c"]
    (kept,) = reject_rows(root)
    assert (kept["row"], kept["reason"]) == (1, "unorderable")
    assert kept["detail"].endswith("ZeroDivisionError: no page; ZeroDivisionError: no log page")


def test_an_error_whose_text_is_no_text_ends_nothing(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = new_topic(root)
    ForeignShard(root).commit(BASE, records(topic_id, BASE, [b"a", b"poison", b"c"]))
    right = queue_tables.log.writer._rendered

    def rendered(some: pa.Table, compression: str) -> Any:
        if b"poison" in some["value"].to_pylist():
            raise ZeroDivisionError("a path of \udcff")
        return right(some, compression)

    monkeypatch.setattr("queue_tables.log.writer._rendered", rendered)
    Orderer(root, 1).drain()
    assert [r["detail"] for r in reject_rows(root)] == ["ZeroDivisionError: a path of \\udcff"]
    assert len(log_rows(root)) == 2


def test_what_stands_in_another_form_is_not_sent_again(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_copies(root, [b"a", b"poison"])
    fail_on(monkeypatch, lambda row: row["value"] == b"poison")
    Orderer(root, 1).drain()
    with Redrive(root, None, [], wall_micros()) as redrive:
        for row in rejected(root, RejectFilter(reasons=("duplicate",))):
            redrive.take(row)
    assert redrive.sent == 1
    assert [(one["row"], one["why"].partition(";")[0]) for one in redrive.refused] == [
        (1, "it does not stand in rejects as it was sent")
    ]


def test_what_is_refused_after_it_was_sent_is_in_the_report(root: QueueRoot) -> None:
    commit_copies(root, [b"a", b"b"])
    Orderer(root, 1).drain()
    with (
        MemoryQueue() as elsewhere,  # it has no such topic
        Redrive(root, None, [elsewhere.url], wall_micros()) as redrive,
    ):
        for row in rejected(root, RejectFilter(reasons=("duplicate",))):
            redrive.take(row)
    assert redrive.sent == 0
    assert [one["row"] for one in redrive.refused] == [0, 1]
