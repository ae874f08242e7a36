"""Rows that their topic refuses become records of another topic; the others are as they were."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lakequeue.errors import InvalidRequest
from lakequeue.partitioner import partition_of
from lakequeue.records import Format
from lakequeue.wire import MAX_RECORD_BYTES
from pyspark_lakequeue.sink.bad_rows import Sorted
from pyspark_lakequeue.sink.inbox_rows import Shaper
from pyspark_lakequeue.sink.targets import Target

ORDERS = Target("id-orders", 4, "crc32", None, 100, '{"required": ["id"]}')
BAD = Target("id-bad", 1, "crc32", None, None)
TARGETS = {"orders": ORDERS, "bad": BAD}
ARRIVAL = 1_700_000_000_000_000


def sorted_rows(
    frame: pa.Table, topic: str | None = "orders", bad: Target = BAD, orders: Target = ORDERS
) -> tuple[Sorted, list[dict[str, Any]], list[dict[str, Any]]]:
    """What sorted them, the rows of `orders`, and those of `bad`."""
    targets = TARGETS | {"bad": bad, "orders": orders}
    sorting = Sorted(
        Shaper(targets, topic, ARRIVAL, "w/0/0/"), Shaper(targets, "bad", ARRIVAL, "w/0/0/refused/")
    )
    rows = sorting.shape(frame).to_pylist()
    good = [row for row in rows if row["topic_id"] == "id-orders"]
    return sorting, good, [row for row in rows if row["topic_id"] == "id-bad"]


def said(row: dict[str, Any]) -> dict[str, str]:
    return {h["key"]: h["value"].decode() for h in row["headers"]}


@pytest.mark.parametrize("at", [0, 17, 99])
def test_one_row_at_fault_goes_with_its_reason_and_the_others_stay(at: int) -> None:
    values = [json.dumps({"id": n}) for n in range(100)]
    values[at] = "{}"
    keys = [f"k{n}" for n in range(100)]
    sorting, good, (stray,) = sorted_rows(pa.table({"value": values, "key": keys}))
    assert [json.loads(r["value"])["id"] for r in good] == [n for n in range(100) if n != at]
    assert len({r["message_id"] for r in [*good, stray]}) == 100
    assert sorting.refused == 1
    assert (stray["value"], stray["key"], stray["value_format"]) == (
        *(b"{}", f"k{at}".encode()),
        int(Format.TEXT),
    )
    assert '"id" is a required property' in said(stray)["lakequeue-refused"]
    assert said(stray)["lakequeue-wanted-topic"] == "orders"


def test_all_rows_at_fault_go_and_a_retry_gives_them_the_same_ids() -> None:
    frame = pa.table({"value": [b"{}"] * 50, "topic": ["orders", "nowhere"] * 25})
    sorting, good, strays = sorted_rows(frame, topic=None)
    assert (sorting.refused, good, len(strays)) == (50, [], 50)
    assert {said(row)["lakequeue-wanted-topic"] for row in strays} == {"orders", "nowhere"}
    _, _, again = sorted_rows(frame, topic=None)
    assert [row["message_id"] for row in again] == [row["message_id"] for row in strays]


def test_a_value_that_is_far_too_large_is_cut_and_says_so() -> None:
    value = b"x" * (2 * MAX_RECORD_BYTES)
    _, _, (stray,) = sorted_rows(pa.table({"value": [value], "key": [value]}))
    assert stray["value"] == value[: MAX_RECORD_BYTES // 2]
    assert said(stray)["lakequeue-cut"] == said(stray)["lakequeue-cut-key"] == str(len(value))


def test_text_that_is_no_utf_8_stays_bytes() -> None:
    text = pa.array([b"\xff\xfe", b"{}"], pa.binary()).view(pa.string())
    _, _, strays = sorted_rows(pa.table({"value": text}))
    assert [(row["value"], row["value_format"]) for row in strays] == [
        (b"\xff\xfe", int(Format.BYTES)),
        (b"{}", int(Format.BYTES)),
    ]


def test_a_row_that_the_frame_itself_refuses_goes_with_its_headers() -> None:
    headers = [[{"key": "lakequeue-file", "value": b"in/1.json"}]] * 2
    frame = pa.table(
        {"value": ['{"id": 1}', "{"], "_refused": [None, "no JSON"], "_refused_headers": headers}
    )
    _, (good,), (stray,) = sorted_rows(frame)
    assert (good["value"], good["headers"]) == (b'{"id": 1}', [])
    assert said(stray) == {
        "lakequeue-file": "in/1.json",
        "lakequeue-refused": "no JSON",
        "lakequeue-wanted-topic": "orders",
    }


def test_values_in_avro_are_judged_and_a_topic_that_only_warns_takes_and_marks_them() -> None:
    rows = pa.table({"value": [b"\x02", b"", b"\x04"]})
    avro: dict[str, Any] = {"value_schema": '"int"', "value_schema_type": "avro"}
    _, good, stray = sorted_rows(rows, orders=replace(ORDERS, **avro))
    assert ([row["value"] for row in good], len(stray)) == ([b"\x02", b"\x04"], 1)
    _, good, stray = sorted_rows(rows, orders=replace(ORDERS, **avro, policy="warn"))
    assert [said(row) for row in good] == [
        {},
        {"lakequeue-value-fault": "there is no number of 64 bits"},
        {},
    ]
    assert stray == []


def test_a_topic_for_such_rows_that_refuses_them_is_named() -> None:
    strict = replace(BAD, value_schema='{"required": ["id"]}')
    with pytest.raises(InvalidRequest, match="topic 'bad', for rows that are refused, refuses one"):
        sorted_rows(pa.table({"value": ["{}"]}), bad=strict)


def test_a_row_whose_value_is_not_of_the_schema_goes_to_the_dead_letters_of_its_topic() -> None:
    rows = pa.table({"value": ["1", "x", "3"], "key": ["k", "k", None], "partition": [2, None, 1]})
    policy: dict[str, Any] = {"policy": "dead_letter", "dead_letters": "bad"}
    orders = replace(ORDERS, value_schema='{"type": "integer"}', **policy)
    sorting, (good, last), (dead,) = sorted_rows(rows, orders=orders)
    assert sorting.refused == 0
    assert (good["value"], dead["value"], last["value"]) == (b"1", b"x", b"3")
    assert (good["partition"], last["partition"]) == (2, 1)
    assert dead["partition"] < BAD.partitions
    assert dead["message_id"] != good["message_id"]
    assert said(dead) | {"lakequeue-dead-at": "", "lakequeue-value-fault": ""} == {
        "lakequeue-topic": "orders",
        "lakequeue-partition": str(partition_of(b"k", ORDERS.partitions, "crc32")),
        "lakequeue-reason": "wrong_value",
        "lakequeue-attempts": "0",
        "lakequeue-first-delivered-at": "",
        "lakequeue-dead-at": "",
        "lakequeue-value-fault": "",
    }
    assert sorted_rows(rows, orders=orders)[2][0]["message_id"] == dead["message_id"]
