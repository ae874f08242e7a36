"""CloudEvents as records: every mode, and what is refused."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ingest.http.bodies import BINARY_EVENT, request_of
from ingest.http.cloud_events import attributes_of
from lakequeue.errors import InvalidRequest, LakequeueError, MalformedBody, TooLarge
from lakequeue.records import Format
from queue_rules.produce.rows import Request
from queue_rules.produce.validation import Limits

LIMITS = Limits(partitions=4, partitioner="crc32", max_record_bytes=10_000, max_records=3)
EVENT = {
    "specversion": "1.0",
    "id": "a-1",
    "source": "/tills/7",
    "type": "com.example.sold",
    "time": "2018-04-05T17:31:00Z",
    "datacontenttype": "application/json",
    "partitionkey": "till-7",
    "retries": 3,
    "test": True,
    "data": {"total": 12.5},
}
HEADERS = {
    "ce_specversion": b"1.0",
    "ce_id": b"a-1",
    "ce_source": b"/tills/7",
    "ce_type": b"com.example.sold",
    "ce_time": b"2018-04-05T17:31:00Z",
    "content-type": b"application/json",
    "ce_partitionkey": b"till-7",
    "ce_retries": b"3",
    "ce_test": b"true",
}


def parse(what: Any, kind: str = "event") -> Request:
    return request_of(orjson.dumps(what), kind, {}, "t", LIMITS)


def headers_of(request: Request, i: int = 0) -> dict[str, Any]:
    assert request.rows.headers is not None
    return dict(request.rows.headers[i])


def test_an_event_becomes_a_record_as_the_kafka_binding_has_it() -> None:
    request = parse(EVENT)
    rows = request.rows
    assert (rows.keys, rows.key_formats) == ([b"till-7"], [Format.TEXT])
    assert (rows.values, rows.value_formats) == ([b'{"total":12.5}'], [Format.JSON])
    assert rows.message_ids == ["/tills/7#a-1"]
    assert rows.timestamps == [1_522_949_460_000_000]
    assert headers_of(request) == HEADERS


def test_a_batch_is_several_and_one_that_is_bad_is_named() -> None:
    events = [EVENT | {"id": str(n)} for n in range(3)]
    assert parse(events, "events").rows.message_ids == [f"/tills/7#{n}" for n in range(3)]
    with pytest.raises(InvalidRequest, match="record 1: type is missing") as refused:
        parse([EVENT, EVENT | {"type": ""}], "events")
    assert refused.value.extra["record"] == 1
    with pytest.raises(TooLarge):
        parse([EVENT] * 4, "events")


@pytest.mark.parametrize(
    ("content_type", "body", "value", "fmt"),
    [
        ("application/json", b'{"total": 12.5}', b'{"total":12.5}', Format.JSON),
        ("application/vnd.till+json; charset=utf-8", b"[1]", b"[1]", Format.JSON),
        ("text/plain", "Grüße".encode(), "Grüße".encode(), Format.TEXT),
        ("image/png", b"\x89PNG", b"\x89PNG", Format.BYTES),
        ("application/json", b"", None, Format.BYTES),
    ],
)
def test_binary_mode(content_type: str, body: bytes, value: bytes | None, fmt: Format) -> None:
    attributes = attributes_of(
        [
            *(("Content-Type", content_type), ("CE-SpecVersion", "1.0"), ("Ce-Id", "a-1")),
            *(("ce-source", "/tills/7"), ("ce-type", "com.example.sold")),
            *(("ce-subject", "caf%C3%A9"), ("X-Other", "no")),
        ]
    )
    assert attributes is not None
    request = request_of(body, BINARY_EVENT, {}, "t", LIMITS, attributes)
    assert (request.rows.values, request.rows.value_formats) == ([value], [fmt])
    assert headers_of(request)["ce_subject"] == "café".encode()
    assert headers_of(request)["content-type"] == content_type.encode()
    assert "x-other" not in headers_of(request)


def test_a_request_without_the_attributes_is_no_event() -> None:
    assert attributes_of([("Content-Type", "application/json"), ("ce-id", "1")]) is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": None}, "id"),
        ({"source": 5}, "source"),
        ({"specversion": "0.3"}, "specversion"),
        ({"data_base64": "AA=="}, "data"),
        ({"Bad-Name": "x"}, "Bad-Name"),
        ({"nested": {"a": 1}}, "nested"),
        ({"time": "yesterday"}, "timestamp"),
    ],
)
def test_what_is_no_event_is_refused_with_the_attribute(change: Any, field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(EVENT | change)
    assert refused.value.extra["field"] == field


@pytest.mark.parametrize(("what", "kind"), [([EVENT], "event"), (EVENT, "events"), (5, "event")])
def test_a_body_of_the_other_mode_is_refused(what: Any, kind: str) -> None:
    with pytest.raises(LakequeueError):
        parse(what, kind)
    with pytest.raises(MalformedBody):
        request_of(b"{", kind, {}, "t", LIMITS)


def test_a_long_id_is_a_digest_that_differs() -> None:
    long = ["x" * 600 + end for end in "ab"]
    ids = [parse(EVENT | {"id": name}).rows.message_ids[0] for name in long]
    assert len({*ids}) == 2
    assert {len(name or "") for name in ids} == {64}
