"""Whatever lies in an inbox: what is sound is ordered, what is not stands in `rejects`."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX
from tests.support.data.foreign_shard import ForeignShard, between_good_ones, records
from tests.support.data.hostile_rows import hostile_rows
from tests.support.data.order_truth import log_rows, reject_rows
from tests.support.data.topic_values import new_topic
from tests.support.runs.order_process import Orderer

BASE = 1_700_000_000_000_000
HOSTILE = [h for h in hostile_rows(INBOX) if h.column != "hour"]


@pytest.mark.parametrize("whole", [True, False], ids=["driver", "tasks"])
def test_every_hostile_row_is_put_aside_or_ordered_and_stops_nothing(
    root: QueueRoot, whole: bool
) -> None:
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    for n, hostile in enumerate(HOSTILE):
        shard.commit(BASE + n, between_good_ones(topic_id, BASE + n, hostile))
    orderer = Orderer(root, 1, whole=whole)
    orderer.drain()
    log, rejects = log_rows(root), reject_rows(root)
    assert [r["offset"] for r in log] == list(range(len(log)))
    places = sorted((r["stamp"], r["row"]) for r in [*log, *rejects])
    assert places == [(BASE + n, row) for n in range(len(HOSTILE)) for row in range(3)]
    in_log = {(r["stamp"], r["row"]) for r in log}
    for n, hostile in enumerate(HOSTILE):
        assert {(BASE + n, 0), (BASE + n, 2)} <= in_log, hostile.name
    by_stamp = {r["stamp"]: r for r in rejects}
    for n, hostile in enumerate(HOSTILE):
        refused = by_stamp.get(BASE + n)
        if refused is not None and hostile.column not in {"topic_id", "partition"}:
            assert refused["reason"] == "malformed", hostile.name
            assert refused["detail"].startswith(hostile.column), hostile.name
        if "not UTF-8" in hostile.name and hostile.column not in {"key", "value"}:
            assert (refused is not None) == ("headers.value" not in hostile.name), hostile.name
    assert len(rejects) > 60


def test_every_engine_reads_what_was_put_aside(root: QueueRoot) -> None:
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    for n, hostile in enumerate(HOSTILE):
        shard.commit(BASE + n, between_good_ones(topic_id, BASE + n, hostile))
    Orderer(root, 1).drain()
    path = Path(root.uri.removeprefix("file://")) / "rejects"
    rows = DeltaTable(str(path)).to_pyarrow_table()
    rows.validate(full=True)
    assert rows.to_pylist()
    found = duckdb.sql(
        "SELECT message_id, detail FROM rows WHERE starts_with(detail, 'message_id is')"
    )
    assert found is not None
    assert ("\\xff\\xfe", "message_id is not UTF-8 (byte 0)") in found.fetchall()
    for offset in range(0, len(log_rows(root)), 50):
        LogReader(root).read_range(topic_id, 0, offset, 50).to_pylist()  # type: ignore[arg-type]


def test_an_atomic_request_with_a_hostile_row_is_refused_whole(root: QueueRoot) -> None:
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    rows = records(topic_id, BASE, [b"a", b"b", b"c", b"d"], atomic=True, request="r")
    rows = pa.concat_tables([rows.slice(0, 3), records(topic_id, BASE, [b"d"] * 4).slice(3)])
    ids = pa.array([b"a", b"\xff", b"c", b"d"], pa.binary()).view(pa.string())
    at = rows.schema.get_field_index("message_id")
    shard.commit(BASE, rows.set_column(at, INBOX.arrow.field(at), ids))
    Orderer(root, 1).drain()
    assert [r["value"] for r in log_rows(root)] == [b"d"]
    assert [(r["value"], r["reason"]) for r in reject_rows(root)] == [
        (b"a", "request_refused"),
        (b"b", "malformed"),
        (b"c", "request_refused"),
    ]
