"""`wait=ordered`, with the test in the order job's place: it commits to `rejects` and `log`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from queue_tables.delta.actions import Txn
from queue_tables.delta.columns import Table
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import Tail
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG, REJECTS
from queue_tables.shards.shards import shard_path
from tests.support.services.ingest_service import IngestService

pytestmark = pytest.mark.timeout(400)


class OrderByHand:
    """Reads the inbox of a node's shard, and commits what the test says."""

    def __init__(self, root: Path, shard: str) -> None:
        self.root = QueueRoot.open(str(root), create=False)
        self.shard = shard
        self._pause = threading.Event()
        self._path = shard_path("inbox", shard)
        self._inbox = Tail(
            self.root.store, self._path, TableLog(self.root.store, self._path).open().version
        )

    def next_rows(self, wanted: int) -> list[dict[str, Any]]:
        """The next `wanted` rows of the shard, as soon as they are there."""
        rows: list[dict[str, Any]] = []
        deadline = time.monotonic() + 60
        while len(rows) < wanted:
            assert time.monotonic() < deadline, f"{len(rows)} of {wanted} rows came"
            self._pause.wait(0.005)
            for commit in self._inbox.poll():
                for add in commit.adds:
                    table = read_data_file(self.root.store, self._path, add.path)
                    rows += table.to_pylist()
        return rows

    def commit(self, table: Table, rows: list[dict[str, Any]], stamp: int | None = None) -> None:
        """Add rows; with `stamp` also move the shard's watermark there."""
        log = TableLog(self.root.store, table.name).open()
        data = pa.Table.from_pylist(rows, schema=table.file_arrow)
        hour = {"hour": "2026-01-01T00"}
        adds = [write_data_file(self.root.store, table.name, data, hour, table)] if rows else []
        txns = [] if stamp is None else [Txn(f"inbox/{self.shard}", stamp)]
        log.commit([*adds, *txns], {"order": 1})


@pytest.fixture
def order(service: IngestService) -> OrderByHand:
    return OrderByHand(service.root, service.ready["shard"])


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def send(
    pool: ThreadPoolExecutor, service: IngestService, values: list[str]
) -> Future[dict[str, Any]]:
    def call() -> dict[str, Any]:
        records = [{"value": v, "message_id": v, "partition": 1} for v in values]
        answer = service.send(records, query="?wait=ordered&timeout_ms=30000")
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    return pool.submit(call)


def ordered(shard: str, row: dict[str, Any], offset: int) -> dict[str, Any]:
    return row | {"topic": "orders", "offset": offset, "shard": shard}


def test_offsets_come_back_in_the_order_of_the_request(
    service: IngestService, order: OrderByHand, pool: ThreadPoolExecutor
) -> None:
    answer = send(pool, service, ["a", "b", "c"])
    rows = order.next_rows(3)
    # Written in another order than sent, as the log's sorting may do.
    log_rows = [ordered(order.shard, r, 10 + r["row"]) for r in reversed(rows)]
    order.commit(LOG, log_rows, rows[0]["stamp"])
    got = answer.result(30)
    assert got["stamp"] == rows[0]["stamp"]
    assert got["records"] == [
        {"partition": 1, "message_id": m, "offset": 10 + i} for i, m in enumerate("abc")
    ]


def test_duplicates_get_the_offset_of_the_original_and_refused_rows_a_reason(
    service: IngestService, order: OrderByHand, pool: ThreadPoolExecutor
) -> None:
    answer = send(pool, service, ["d", "e", "f"])
    one, two, three = order.next_rows(3)
    refused = {"topic": "orders", "shard": order.shard}
    duplicate = {"reason": "duplicate", "original_partition": 3, "original_offset": 7}
    order.commit(
        REJECTS, [two | refused | duplicate, three | refused | {"reason": "partition_gone"}]
    )
    assert not answer.done()  # only the log's commit makes it final
    order.commit(LOG, [ordered(order.shard, one, 20)], one["stamp"])
    assert answer.result(30)["records"] == [
        {"partition": 1, "message_id": "d", "offset": 20},
        {"partition": 3, "message_id": "e", "offset": 7, "duplicate": True},
        {"partition": 1, "message_id": "f", "reason": "partition_gone"},
    ]


def test_a_group_of_duplicates_alone_is_answered_by_the_watermark(
    service: IngestService, order: OrderByHand, pool: ThreadPoolExecutor
) -> None:
    answer = send(pool, service, ["g"])
    (row,) = order.next_rows(1)
    line = {"reason": "duplicate", "original_partition": 1, "original_offset": 4}
    order.commit(REJECTS, [row | line | {"topic": "orders", "shard": order.shard}])
    order.commit(LOG, [], row["stamp"])
    assert answer.result(30)["records"][0]["offset"] == 4


def test_several_wait_at_once(
    service: IngestService, order: OrderByHand, pool: ThreadPoolExecutor
) -> None:
    answers = [send(pool, service, [f"m{i}", f"n{i}"]) for i in range(4)]
    rows = order.next_rows(8)
    offsets = {r["message_id"]: 100 + i for i, r in enumerate(rows)}
    log_rows = [ordered(order.shard, r, offsets[r["message_id"]]) for r in rows]
    order.commit(LOG, log_rows, max(r["stamp"] for r in rows))
    for answer in answers:
        for record in answer.result(30)["records"]:
            assert record["offset"] == offsets[record["message_id"]]
