"""Records as CloudEvents on the way out: what came in comes out, and what was none becomes one."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from ingest.http.cloud_events import attributes_of, record_of_binary, records_of_events
from lakequeue.wire.cloud_events import BATCH, ONE, batch_of, binary_of, event_of, wants
from queue_rules.produce.validation import Limits, columns_of

LIMITS = Limits(1, "crc32", 1 << 20, 100)
EVENT: dict[str, Any] = {
    "specversion": "1.0",
    "id": "ä-1",
    "source": "/shop",
    "type": "order.made",
    "time": "2026-11-30T01:02:03Z",
    "subject": 'a "quoted" 100%',
    "partitionkey": "customer-7",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "datacontenttype": "application/json; charset=utf-8",
    "data": {"total": 9.5, "text": "ö"},
}
BESIDE = {"topic": "orders", "partition": 3, "offset": 1 << 40, "receipt": "r.1", "attempt": 2}
EXTENSIONS = {
    "lakequeuetopic": "orders",
    "lakequeuepartition": "3",
    "lakequeueoffset": str(1 << 40),
    "lakequeuereceipt": "r.1",
    "lakequeueattempt": "2",
}


def kept(event: dict[str, Any]) -> dict[str, Any]:
    """The record that a consumer gets of an event that was sent."""
    [sent] = records_of_events(orjson.dumps(event), LIMITS, batch=False)
    columns_of([sent], LIMITS)
    return {**sent, **BESIDE, "timestamp": 0}


def test_an_event_comes_out_as_it_came_in() -> None:
    assert event_of(kept(EVENT)) == EVENT | EXTENSIONS
    whole = EVENT | {"datacontenttype": "image/png", "data_base64": "AP8="}
    del whole["data"]
    assert event_of(kept(whole)) == whole | EXTENSIONS
    empty = {name: said for name, said in EVENT.items() if name != "data"}
    assert event_of(kept(empty)) == empty | EXTENSIONS
    text = EVENT | {"datacontenttype": "text/csv", "data": "a,b"}
    assert event_of(kept(text)) == text | EXTENSIONS


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "image/png"])
def test_a_binary_event_is_read_again_by_the_way_in(kind: str) -> None:
    data: Any = {"application/json": [1, "ä"], "text/plain": "ä"}.get(kind)
    event = EVENT | {"datacontenttype": kind, "data": data}
    if data is None:
        event["data_base64"] = base64.b64encode(b"\x00\xff").decode()
    headers, body = binary_of(kept(event))
    assert all(text.isascii() and text.isprintable() for text in headers.values())
    attributes = attributes_of(headers.items())
    assert attributes is not None
    again = record_of_binary(attributes, body)
    assert event_of({**again, **BESIDE}) == event_of(kept(event))


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"value": {"a": 1}}, {"datacontenttype": "application/json", "data": {"a": 1}}),
        ({"value": "x"}, {"datacontenttype": "text/plain", "data": "x"}),
        (
            {"value_base64": "AA=="},
            {"datacontenttype": "application/octet-stream", "data_base64": "AA=="},
        ),
        ({"value": None}, {}),
        ({"value": None, "undecodable": "why"}, {"lakequeueundecodable": "why"}),
    ],
)
def test_a_record_that_was_no_event_is_one_of_its_topic_and_place(
    record: dict[str, Any], said: dict[str, Any]
) -> None:
    headers = [{"key": "x-own", "value": "y"}, {"key": "ce_subject", "value": "s"}]
    found = event_of(record | BESIDE | {"key": "k", "headers": headers, "timestamp": 1_000_000})
    assert found == EXTENSIONS | said | {
        "specversion": "1.0",
        "id": f"3-{1 << 40}",
        "source": "/topics/orders",
        "type": "lakequeue.record",
        "time": "1970-01-01T00:00:01Z",
        "subject": "s",
        "partitionkey": "k",
    }


def test_headers_that_would_end_a_line_of_http_do_not() -> None:
    headers = [
        {"key": "ce_subject", "value": "a\r\nx: y"},
        {"key": "content-type", "value": "text/plain\r\nx: y"},
    ]
    sent, _ = binary_of({"value": "x", "headers": headers} | BESIDE)
    assert sent["ce-subject"] == "a%0D%0Ax:%20y"
    assert sent["content-type"] == "application/octet-stream"


def test_a_content_type_that_does_not_fit_json_is_not_believed() -> None:
    headers = [{"key": "content-type", "value": "image/png"}]
    event = event_of({"value": [1], "headers": headers} | BESIDE)
    assert event["datacontenttype"] == "application/json"


def test_a_batch_is_an_array_and_is_asked_for_by_accept() -> None:
    assert orjson.loads(batch_of([kept(EVENT)])) == [EVENT | EXTENSIONS]
    assert wants(f"text/plain, {BATCH}; q=0.5", BATCH)
    assert not wants(f"{ONE}, */*", BATCH)
    assert not wants(None, BATCH)
