"""Whole bodies to requests: JSON, NDJSON and the envelope."""

from __future__ import annotations

import json as stdlib_json
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ingest.commit.inbox_table import to_table
from ingest.http.bodies import media_type, query_of, request_of
from lakequeue import wire
from lakequeue.errors import (
    InvalidName,
    InvalidRequest,
    LakequeueError,
    MalformedBody,
    TooLarge,
    UnknownTopic,
    UnsupportedMediaType,
)
from queue_rules.produce.json_body import Parts, parts_of
from queue_rules.produce.rows import NO_PARTITION, NO_TIMESTAMP, Request
from queue_rules.produce.validation import Limits
from queue_tables.schema.record_rules import faults_of
from queue_tables.schema.schemas import INBOX

CONSUMED = {"group": "g", "topic": "in", "partition": 0, "from_offset": 3, "next_offset": 5}
LIMITS = Limits(partitions=4, partitioner="crc32", max_record_bytes=10_000, max_records=10)


def parse(body: bytes, kind: str = "json", **query: str) -> Request:
    return request_of(body, kind, query, "t1", LIMITS)


def json(**envelope: Any) -> bytes:
    return orjson.dumps({"records": [{"value": 1}, {"value": 2}]} | envelope)


def test_json_envelope() -> None:
    got = parse(json(producer_id="p", sequence=7, after=12, atomic=True))
    assert (got.topic_id, got.producer_id, got.sequence, got.after) == ("t1", "p", 7, 12)
    assert got.atomic
    assert got.rows.message_ids == ["p:7", "p:8"]
    assert not parse(json()).atomic


def test_ndjson_takes_its_envelope_from_the_query() -> None:
    body = b'{"value":1}\r\n\n{"value":"b"}'
    got = parse(body, "ndjson", producer_id="p", sequence="3", atomic="true", after="9")
    assert got.rows.values == [b"1", b"b"]
    assert got.rows.message_ids == ["p:3", "p:4"]
    assert (got.atomic, got.after) == (True, 9)


@pytest.mark.parametrize(
    ("envelope", "field"),
    [
        ({"sequence": 1}, "producer_id"),
        ({"producer_id": ""}, "producer_id"),
        ({"producer_id": 1}, "producer_id"),
        ({"producer_id": "p", "sequence": -1}, "sequence"),
        ({"producer_id": "p", "sequence": 1.0}, "sequence"),
        ({"producer_id": "p", "sequence": (1 << 63) - 2}, "sequence"),
        ({"after": "x"}, "after"),
        ({"atomic": "yes"}, "atomic"),
        ({"atmoic": True}, "atmoic"),
        ({"producer_epoch": 0}, "producer_epoch"),
        ({"producer_epoch": 1}, "producer_id"),
        ({"producer_id": "p", "producer_epoch": 1 << 60}, "producer_epoch"),
        ({"consumed": {"group": "g"}}, "consumed.topic"),
        ({"consumed": {**CONSUMED, "next_offset": 3}}, "consumed.next_offset"),
        ({"consumed": {**CONSUMED, "from_offset": -1}}, "consumed.from_offset"),
        ({"consumed": {**CONSUMED, "partition": "0"}}, "consumed.partition"),
    ],
)
def test_a_bad_envelope_names_its_field(envelope: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse(json(**envelope))
    assert refused.value.extra["field"] == field
    assert refused.value.stored == "no"


def test_an_epoch_comes_with_every_kind_of_body() -> None:
    assert parse(json(producer_id="p", producer_epoch=3)).producer_epoch == 3
    got = parse(b'{"value":1}', "ndjson", producer_id="p", producer_epoch="4")
    assert (got.producer_epoch, got.judged) == (4, True)
    assert not parse(json(producer_id="p", sequence=1, producer_epoch=None)).judged
    with pytest.raises(InvalidName):
        parse(json(producer_id="a/b", producer_epoch=3))


def test_what_was_consumed_makes_a_request_atomic_and_may_stand_alone() -> None:
    request = parse(json(consumed=CONSUMED))
    assert request.atomic
    assert request.judged
    assert request.consumed == wire.Consumed.model_validate(CONSUMED)
    alone = parse(b'{"records": [], "consumed": %s}' % stdlib_json.dumps(CONSUMED).encode())
    assert alone.bare
    assert (len(alone.rows), alone.rows.total_bytes) == (1, 0)
    with pytest.raises(InvalidRequest, match="no records"):
        parse(b'{"records": []}')


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"x"',
        b"{}",
        b'{"records": {}}',
        b'{"records": null}',
        b"\xff\xfe",
        b'{"records": [{"value": NaN}]}',
        b'{"records": [{"value": 1e400}]}',
        b'{"records": [{"value": "\\ud800"}]}',
        b'{"records": [' + b"[" * 5000 + b"]" * 5000 + b"]}",
    ],
)
def test_malformed_json(body: bytes) -> None:
    with pytest.raises(MalformedBody) as refused:
        parse(body)
    assert refused.value.http_status == 400
    assert refused.value.stored == "no"


def test_a_malformed_line_is_named() -> None:
    with pytest.raises(MalformedBody, match=r"record 1 \(line 3\)") as refused:
        parse(b'{"value":1}\n\n{"value":\n{"value":3}', "ndjson")
    assert (refused.value.extra["record"], refused.value.extra["line"]) == (1, 3)


@pytest.mark.parametrize("kind", ["json", "ndjson"])
def test_too_many_records(kind: str) -> None:
    line = b'{"value":1}'
    body = (
        b"\n".join([line] * 11)
        if kind == "ndjson"
        else b'{"records":[%s]}' % b",".join([line] * 11)
    )
    with pytest.raises(TooLarge, match="at most 10"):
        parse(body, kind)


@pytest.mark.parametrize("kind", ["json", "ndjson"])
def test_integers_beyond_64_bits_stay_exact(kind: str) -> None:
    number = b"123456789012345678901234567890"
    record = b'{"value":{"n":%s,"s":"e1\xc3\xa4"}}' % number
    body = record if kind == "ndjson" else b'{"records":[%s]}' % record
    assert parse(body, kind).rows.values == [b'{"n":%s,"s":"e1\xc3\xa4"}' % number]


def test_an_exact_parse_of_a_deep_value_is_taken_or_malformed() -> None:
    deep = b"[" * 250 + b"100000000000000000000000" + b"]" * 250
    assert parse(b'{"records":[{"value":%s}]}' % deep).rows.values == [deep]


def test_media_types() -> None:
    assert media_type("application/json; charset=utf-8") == "json"
    assert media_type("Application/X-NDJSON") == "ndjson"
    assert media_type("application/vnd.apache.arrow.stream") == "arrow"
    assert media_type("application/cloudevents+json; charset=utf-8") == "event"
    assert media_type("application/cloudevents-batch+json") == "events"
    for other in ("", "text/plain", "application/cloudevents+avro"):
        with pytest.raises(UnsupportedMediaType):
            media_type(other)


def test_query() -> None:
    query, rest = query_of({"wait": "ordered", "timeout_ms": "5"}, "json")
    assert (query.wait, query.timeout_ms, rest) == ("ordered", 5, {})
    _, rest = query_of({"producer_id": "p"}, "ndjson")
    assert rest == {"producer_id": "p"}
    for args, kind in [
        ({"wiat": "ordered"}, "ndjson"),
        ({"producer_id": "p"}, "json"),
        ({"wait": "forever"}, "json"),
        ({"timeout_ms": "0"}, "json"),
        ({"timeout_ms": "1e9"}, "json"),
        ({"consumed": "{}"}, "ndjson"),
    ]:
        with pytest.raises(InvalidRequest):
            query_of(args, kind)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.dictionaries(
    st.sampled_from(
        [
            "key",
            "key_base64",
            "value",
            "value_base64",
            "headers",
            "partition",
            "message_id",
            "timestamp",
            "deliver_at",
            "delay_ms",
            "ttl_ms",
            "other",
        ]
    ),
    JSON_VALUES,
    max_size=5,
)


# How quickly bodies are made up says nothing about what is tested, and depends on the machine.
@settings(suppress_health_check=[HealthCheck.too_slow])
@example(body=b'{"records":[{"value":null}]}', kind="json")
@given(
    body=st.one_of(
        st.binary(max_size=100),
        st.fixed_dictionaries({"records": st.lists(RECORDS | JSON_VALUES, max_size=4)}).map(
            lambda body: stdlib_json.dumps(body).encode()
        ),
    ),
    kind=st.sampled_from(["json", "ndjson", "arrow"]),
)
def test_any_body_is_taken_or_refused_with_a_reason(body: bytes, kind: str) -> None:
    try:
        got = parse(body, kind)
    except LakequeueError as e:
        refused = e
    else:
        assert len(got.rows) > 0
        # What this gate takes, the order job takes as well: it judges by rules of its own. What the
        # node fills in before it commits is filled in.
        got.rows.partitions = [0 if p == NO_PARTITION else p for p in got.rows.partitions]
        got.rows.timestamps = [0 if t == NO_TIMESTAMP else t for t in got.rows.timestamps]
        assert faults_of(to_table([got]), INBOX) == {}
        return
    assert refused.http_status in {400, 413, 422}
    assert refused.stored == "no"
    assert refused.detail


def limits_of(topic: str) -> tuple[str, Limits]:
    if topic == "nowhere":
        raise UnknownTopic(f"topic {topic!r} does not exist")
    return f"id-{topic}", LIMITS


def many(*records: Any, **envelope: Any) -> Parts:
    return parts_of(orjson.dumps({"records": records} | envelope), limits_of, 10)


def test_records_of_several_topics_are_one_request_in_parts() -> None:
    a, b = {"topic": "a"}, {"topic": "b"}
    parts = many(
        {"value": 0, **a}, {"value": 1, **b}, {"value": 2, **a}, producer_id="p", atomic=True
    )
    assert parts.topics == ["a", "b"]
    assert [r.topic_id for r in parts.requests] == ["id-a", "id-b"]
    assert [r.rows.values for r in parts.requests] == [[b"0", b"2"], [b"1"]]
    assert parts.numbers == [0, 2, 1]
    assert all(r.atomic and r.producer_id == "p" for r in parts.requests)
    alone = many(consumed=CONSUMED)
    assert (alone.topics, alone.requests[0].bare) == (["in"], True)


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"value": 1}, "topic"),
        ({"value": 1, "topic": 5}, "topic"),
        ({"value": 1, "topic": "nowhere"}, "records"),
        ({"value": 1, "topic": "a", "partition": 99}, "partition"),
        ([], "topic"),
    ],
)
def test_a_bad_record_among_several_topics_is_named_by_its_place(record: Any, field: str) -> None:
    ok = {"value": 1, "topic": "a"}
    with pytest.raises(LakequeueError) as refused:
        many(ok, {"value": 1, "topic": "b"}, record, ok)
    assert refused.value.extra == {"record": 2, "field": field}
    for bad in ((), (ok,) * 11):
        with pytest.raises(LakequeueError):
            many(*bad)
    with pytest.raises(InvalidRequest, match="sequence"):
        many(ok, producer_id="p", sequence=1)
