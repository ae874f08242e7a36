"""Requests to one Arrow table."""

from __future__ import annotations

import orjson
import pyarrow as pa

from ingest.commit.inbox_table import SUBMITTED, to_table
from lakequeue.wire import Consumed
from queue_rules.produce.rows import Request, Rows, no_record
from queue_tables.schema.marks import NO_TOPIC

CONSUMED = Consumed(group="g", topic="t", partition=1, from_offset=5, next_offset=9, epoch=2)


def rows(*values: bytes | None, headers: bool = False) -> Rows:
    n = len(values)
    return Rows(
        keys=[b"k"] * n,
        key_formats=[1] * n,
        values=list(values),
        value_formats=[0] * n,
        headers=[[("h", b"\xff"), ("n", None)] for _ in values] if headers else None,
        partitions=[2] * n,
        timestamps=[1_000_000] * n,
        message_ids=[None] * n,
        sizes=[5] * n,
    )


def test_requests_follow_one_another_and_keep_what_is_theirs() -> None:
    table = to_table(
        [
            Request("t1", rows(b"a", b"b"), "p", sequence=7, atomic=True, request_id="r1"),
            Request("t2", rows(None, headers=True), request_id="r2"),
        ]
    )
    assert table.schema == SUBMITTED
    assert table["value"].to_pylist() == [b"a", b"b", None]
    assert table["topic_id"].to_pylist() == ["t1", "t1", "t2"]
    assert table["sequence"].to_pylist() == [7, 8, None]
    assert table["producer_id"].to_pylist() == ["p", "p", None]
    assert table["atomic"].to_pylist() == [True, True, False]
    assert table["request"].to_pylist() == ["r1", "r1", "r2"]
    assert table["headers"].to_pylist() == [
        [],
        [],
        [{"key": "h", "value": b"\xff"}, {"key": "n", "value": None}],
    ]
    assert table["producer_epoch"].null_count == table["consumed"].null_count == 3
    table = to_table(
        [
            Request("t1", rows(b"a", b"b"), "p", 3),
            Request(NO_TOPIC, no_record(), consumed=CONSUMED, consumed_topic_id="in"),
        ]
    )
    assert table["producer_epoch"].to_pylist() == [3, 3, None]
    assert [s and orjson.loads(s) for s in table["consumed"].to_pylist()] == [
        None,
        None,
        {
            "group": "g",
            "topic_id": "in",
            "partition": 1,
            "from_offset": 5,
            "next_offset": 9,
            "epoch": 2,
            "generation": 0,
        },
    ]


def test_times_arrive_as_they_are() -> None:
    table = to_table([Request("t1", rows(b"a", b"b", None))])
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [1_000_000] * 3
    table.validate(full=True)


def test_records_without_headers_have_an_empty_list() -> None:
    table = to_table([Request("t1", rows(b"a"), request_id="r")])
    assert table["headers"].to_pylist() == [[]]
    assert table["atomic"].to_pylist() == [False]
