"""The HTTP calls of a running node: what comes back, and what stands in the inbox after."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
import zstandard

from lakequeue import wire
from lakequeue.wire import cloud_events
from tests.support.services.ingest_service import IngestService, inbox_rows

pytestmark = pytest.mark.timeout(400)

JSON = {"Content-Type": "application/json"}


def rows_with(service: IngestService, message_id: str) -> list[dict[str, Any]]:
    rows = inbox_rows(service.root)
    found: list[dict[str, Any]] = rows.filter(pc.equal(rows["message_id"], message_id)).to_pylist()
    return found


def assert_problem(
    answer: Any, status: int, code: str, stored: str | None = "no"
) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == wire.PROBLEM
    body: dict[str, Any] = answer.json()
    assert (body["status"], body["code"]) == (status, code)
    assert body.get("stored") == stored
    assert isinstance(body["retryable"], bool)
    assert body["detail"]
    return body


# -- topics -------------------------------------------------------------------------------------


def test_life_of_a_topic(service: IngestService) -> None:
    http = service.http
    created = http.put("/v1/topics/life", json={"partitions": 3})
    assert created.status_code == 201
    assert http.put("/v1/topics/life", json={"partitions": 3}).status_code == 200
    assert_problem(http.put("/v1/topics/life", json={"partitions": 4}), 409, "topic_exists", None)
    assert http.get("/v1/topics/life").json() == created.json()
    changed = http.patch("/v1/topics/life", json={"partitions": 5, "retention_ms": 10**9})
    assert (changed.status_code, changed.json()["partitions"]) == (200, 5)
    assert_problem(
        http.patch("/v1/topics/life", json={"partitions": 1}), 422, "invalid_request", None
    )
    assert "life" in [t["topic"] for t in http.get("/v1/topics").json()["topics"]]
    assert http.delete("/v1/topics/life").status_code == 204
    assert_problem(http.get("/v1/topics/life"), 404, "unknown_topic", None)
    assert_problem(http.delete("/v1/topics/life"), 404, "unknown_topic", None)
    again = http.put("/v1/topics/life").json()
    assert again["topic_id"] != created.json()["topic_id"]


def test_a_minimal_answer_says_no_more_than_the_partitions(service: IngestService) -> None:
    http, prefer = service.http, {"Prefer": "return=minimal"}
    http.put("/v1/topics/minimal", json={"partitions": 4})
    body = {"records": [{"value": "a", "partition": 3}, {"value": "b", "message_id": "minimal-b"}]}
    answer = http.post("/v1/topics/minimal/records", json=body, headers=prefer).json()
    assert set(answer) == {"partitions", "stamp"}
    assert answer["partitions"][0] == 3
    (row,) = rows_with(service, "minimal-b")
    assert (row["partition"], row["stamp"]) == (answer["partitions"][1], answer["stamp"])
    full = http.post("/v1/topics/minimal/records", json=body).json()
    assert [one["message_id"] for one in full["records"]] == [None, "minimal-b"]


def test_a_minimal_answer_is_none_where_there_is_more_to_say(service: IngestService) -> None:
    http, prefer = service.http, {"Prefer": "return=minimal"}
    for topic in ("minimal-1", "minimal-2"):
        http.put(f"/v1/topics/{topic}", json={"partitions": 1})
    body = {"records": [{"topic": f"minimal-{n}", "value": n} for n in (1, 2)]}
    answer = http.post("/v1/records", json=body, headers=prefer).json()
    assert [one["partition"] for one in answer["records"]] == [0, 0]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b'{"partitions": 0}', 422),
        (b'{"partitions": "4"}', 422),
        (b'{"partitons": 4}', 422),
        (b'{"value_schema": "{"}', 422),
        (b'{"value_schema": "{\\"$ref\\": \\"http://127.0.0.1:1/x\\"}"}', 422),
        (b'{"partitioner": "fnv"}', 422),
    ],
)
def test_a_bad_topic_is_refused(service: IngestService, body: bytes, status: int) -> None:
    answer = service.http.put("/v1/topics/bad", content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == wire.PROBLEM
    assert_problem(service.http.get("/v1/topics/bad"), 404, "unknown_topic", None)


def test_a_bad_name_is_refused(service: IngestService) -> None:
    assert_problem(service.http.put("/v1/topics/a%20b"), 422, "invalid_name", None)


# -- produce ------------------------------------------------------------------------------------


def test_what_is_sent_stands_in_the_inbox(service: IngestService) -> None:
    topic = service.http.get("/v1/topics/orders").json()
    answer = service.send(
        [
            {"key": "k", "value": {"a": [1, 2.5, None]}, "message_id": "all-1"},
            {"value": "text", "message_id": "all-2", "headers": {"h": "v"}, "partition": 2},
            {"value_base64": "/w==", "message_id": "all-3", "timestamp": "2013-01-31T07:00:00Z"},
        ],
        producer_id="p",
        sequence=40,
        atomic=True,
    )
    assert answer.status_code == 200, answer.text
    records, stamp = answer.json()["records"], answer.json()["stamp"]
    assert [r["message_id"] for r in records] == ["all-1", "all-2", "all-3"]
    assert records[0]["partition"] == zlib.crc32(b"k") % 4
    assert records[1]["partition"] == 2
    one, two, three = (rows_with(service, f"all-{i}")[0] for i in (1, 2, 3))
    assert (one["key"], one["value"], one["value_format"]) == (b"k", b'{"a":[1,2.5,null]}', 2)
    assert (two["value"], two["value_format"]) == (b"text", 1)
    assert two["headers"] == [{"key": "h", "value": b"v"}]
    assert (three["value"], three["value_format"]) == (b"\xff", 0)
    assert three["timestamp"].isoformat() == "2013-01-31T07:00:00+00:00"
    for i, row in enumerate((one, two, three)):
        assert row["topic_id"] == topic["topic_id"]
        assert (row["stamp"], row["producer_id"], row["sequence"]) == (stamp, "p", 40 + i)
        assert row["atomic"]
        assert row["request"] == one["request"]
        assert row["row"] == one["row"] + i


def test_cloud_events_are_taken_in_every_mode(service: IngestService) -> None:
    path = "/v1/topics/orders/records"
    event = {"specversion": "1.0", "source": "/tills", "type": "sold", "partitionkey": "k"}

    def batch(*ids: str) -> bytes:
        return json.dumps([event | {"id": i, "data": {"of": i}} for i in ids]).encode()

    structured = {"content-type": "application/cloudevents+json"}
    one = json.dumps(event | {"id": "ce-1", "data": {"of": "ce-1"}}).encode()
    many = {"content-type": "application/cloudevents-batch+json; charset=utf-8"}
    plain = {f"ce-{name}": value for name, value in event.items()} | {"ce-id": "ce-4"}
    plain["content-type"] = "application/json"
    for body, headers in (
        (one, structured),
        (batch("ce-2", "ce-3"), many),
        (b'{"of":"ce-4"}', plain),
    ):
        answer = service.http.post(path, content=body, headers=headers)
        assert answer.status_code == 200, answer.text
    for number in range(1, 5):
        (row,) = rows_with(service, f"/tills#ce-{number}")
        assert (row["key"], row["value"]) == (b"k", b'{"of":"ce-%d"}' % number)
        assert {"key": "ce_type", "value": b"sold"} in row["headers"]
    bad = service.http.post(path, content=b"{}", headers=structured)
    assert assert_problem(bad, 422, "invalid_request")["field"] == "specversion"


def test_values_satisfy_the_schema_of_their_topic(service: IngestService) -> None:
    schema = '{"type": "object", "required": ["id"]}'
    made = service.http.put("/v1/topics/checked", json={"value_schema": schema})
    assert (made.status_code, made.json()["value_schema"]) == (201, schema)
    path = "/v1/topics/checked/records"
    good = {"records": [{"value": {"id": 1}, "message_id": "fits"}, {"value": None}]}
    assert service.http.post(path, json=good).status_code == 200
    bad = {"records": [{"value": {"id": 1}, "message_id": "with-a-bad-one"}, {"value": {}}]}
    problem = assert_problem(service.http.post(path, json=bad), 422, "invalid_request")
    assert (problem["record"], problem["field"]) == (1, "value")
    assert "required property" in problem["detail"]
    assert len(rows_with(service, "fits")) == 1
    assert rows_with(service, "with-a-bad-one") == []
    several = {"records": [{"topic": "checked", "value": 5}]}
    assert_problem(service.http.post("/v1/records", json=several), 422, "invalid_request")
    assert service.http.patch("/v1/topics/checked", json={"value_schema": None}).status_code == 200
    assert service.http.post(path, json=bad).status_code == 200


def test_values_in_avro_are_judged_whichever_way_they_come(service: IngestService) -> None:
    said = {"value_schema": '"int"', "value_schema_type": "avro"}
    made = service.http.put("/v1/topics/in-avro", json=said)
    assert (made.status_code, made.json()["value_schema_type"]) == (201, "avro")
    path, good, bad = "/v1/topics/in-avro/records", b"\x02", b"\x02\x02"
    for value, status in ((good, 200), (bad, 422)):
        encoded = base64.b64encode(value).decode()
        record = {"value_base64": encoded}
        event = {"specversion": "1.0", "id": encoded, "source": "/t", "type": "t"}
        event["data_base64"] = encoded
        columns = pa.table({"value": pa.array([value], pa.binary())})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, columns.schema) as writer:
            writer.write_table(columns)
        for body, kind in (
            (json.dumps({"records": [record]}).encode(), "application/json"),
            (json.dumps(record).encode(), "application/x-ndjson"),
            (sink.getvalue().to_pybytes(), "application/vnd.apache.arrow.stream"),
            (json.dumps(event).encode(), "application/cloudevents+json"),
        ):
            answer = service.http.post(path, content=body, headers={"content-type": kind})
            assert answer.status_code == status, (kind, answer.text)
        several = {"records": [{"topic": "in-avro", **record}]}
        assert service.http.post("/v1/records", json=several).status_code == status
    for said in ({"value_schema": "{"}, {"value_schema": '"no-type"'}):
        refused = assert_problem(
            service.http.patch("/v1/topics/in-avro", json=said), 422, "invalid_request", None
        )
        assert refused["field"] == "value_schema"
    assert service.http.patch("/v1/topics/in-avro", json={"value_policy": "warn"}).is_success
    marked = {"records": [{"value": 1, "message_id": "marked"}]}
    assert service.http.post(path, json=marked).status_code == 200
    (row,) = rows_with(service, "marked")
    assert [header["key"] for header in row["headers"]] == ["lakequeue-value-fault"]
    assert "lakequeue_ingest_faulty_values_total 1.0" in service.http.get("/metrics").text


def test_stamps_rise_and_a_carried_one_is_passed(service: IngestService) -> None:
    first = service.send([{"value": 1}]).json()["stamp"]
    carried = first + 2_000_000
    assert service.send([{"value": 1}], after=carried).json()["stamp"] > carried
    assert service.send([{"value": 1}]).json()["stamp"] > carried


def test_a_stamp_too_far_ahead_is_clock_skew(service: IngestService) -> None:
    stamp = service.send([{"value": 1}]).json()["stamp"]
    answer = service.send([{"value": 1}], after=stamp + 60_000_000)
    body = assert_problem(answer, 503, "clock_skew")
    assert body["retryable"]
    assert int(answer.headers["retry-after"]) >= 30


def test_derived_message_ids(service: IngestService) -> None:
    answer = service.send([{"value": 1}, {"value": 2}], producer_id="dm", sequence=5)
    assert [r["message_id"] for r in answer.json()["records"]] == ["dm:5", "dm:6"]
    assert len(rows_with(service, "dm:6")) == 1


@pytest.mark.parametrize("encoding", ["gzip", "zstd", None])
@pytest.mark.parametrize("kind", ["json", "ndjson", "arrow"])
def test_every_media_type_and_encoding(
    service: IngestService, kind: str, encoding: str | None
) -> None:
    ids = [f"{kind}-{encoding}-{i}" for i in range(3)]
    records = [{"value": f"v{i}", "message_id": m} for i, m in enumerate(ids)]
    if kind == "json":
        content_type, body = wire.JSON, json.dumps({"records": records}).encode()
    elif kind == "ndjson":
        content_type, body = wire.NDJSON, "\n".join(map(json.dumps, records)).encode()
    else:
        sink = pa.BufferOutputStream()
        table = pa.Table.from_pylist(records)
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        content_type, body = wire.ARROW_STREAM, bytes(sink.getvalue())
    headers = {"Content-Type": content_type}
    if encoding is not None:
        pack = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}[encoding]
        headers["Content-Encoding"], body = encoding, pack(body)
    answer = service.http.post("/v1/topics/orders/records", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    for i, message_id in enumerate(ids):
        (row,) = rows_with(service, message_id)
        assert (row["value"], row["value_format"]) == (f"v{i}".encode(), 1)


def test_a_body_of_unknown_length_is_taken(service: IngestService) -> None:
    body = json.dumps({"records": [{"value": "x" * 1000, "message_id": "chunked"}]}).encode()
    pieces = (body[i : i + 100] for i in range(0, len(body), 100))
    answer = service.http.post("/v1/topics/orders/records", content=pieces, headers=JSON)
    assert answer.status_code == 200, answer.text
    assert len(rows_with(service, "chunked")) == 1


def test_one_bad_record_of_500_refuses_the_request(service: IngestService) -> None:
    records: list[dict[str, Any]] = [{"value": i, "message_id": f"bad500-{i}"} for i in range(500)]
    records[317]["partition"] = 99
    body = assert_problem(service.send(records), 422, "invalid_request")
    assert (body["record"], body["field"]) == (317, "partition")
    assert "record 317" in body["detail"]
    assert not rows_with(service, "bad500-0")


def test_limits(service: IngestService) -> None:
    body = assert_problem(service.send([{"value": "x" * 101}], "small"), 413, "too_large")
    assert body["record"] == 0
    assert service.send([{"value": "x" * 100}], "small").status_code == 200
    assert_problem(service.send([{"value": "x" * (1 << 20) + "y"}]), 413, "too_large")
    assert service.send([{"value": "x" * (1 << 20)}]).status_code == 200
    assert service.send([{"value": 1}] * 10_000).status_code == 200
    assert_problem(service.send([{"value": 1}] * 10_001), 413, "too_large")


@pytest.mark.parametrize("encoding", [None, "gzip", "zstd"])
def test_a_request_over_16_mib_is_refused_packed_or_not(
    service: IngestService, encoding: str | None
) -> None:
    body = b" " * ((16 << 20) + 1)
    headers = dict(JSON)
    if encoding is not None:
        pack = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}[encoding]
        headers["Content-Encoding"], body = encoding, pack(body * 8)
    answer = service.http.post("/v1/topics/orders/records", content=body, headers=headers)
    assert_problem(answer, 413, "too_large")
    assert service.send([{"value": 1}]).status_code == 200


def test_an_atomic_request_must_fit_into_one_group(service: IngestService) -> None:
    records = [{"value": "x" * (1 << 20)}] * 9
    assert_problem(service.send(records, atomic=True), 413, "too_large")
    answer = service.send([r | {"message_id": f"large-{i}"} for i, r in enumerate(records)])
    assert answer.status_code == 200
    assert {rows_with(service, f"large-{i}")[0]["stamp"] for i in range(9)} == {
        answer.json()["stamp"]
    }


def test_refusals(service: IngestService) -> None:
    post = service.http.post
    url = "/v1/topics/orders/records"
    assert_problem(service.send([{"value": 1}], "nowhere"), 404, "unknown_topic")
    assert_problem(post(url, content=b"{", headers=JSON), 400, "malformed_body")
    assert_problem(post(url, content=b"x"), 415, "unsupported_media_type")
    packed = JSON | {"Content-Encoding": "br"}
    assert_problem(post(url, content=b"x", headers=packed), 415, "unsupported_media_type")
    damaged = JSON | {"Content-Encoding": "gzip"}
    assert_problem(post(url, content=b"x", headers=damaged), 400, "malformed_body")
    assert_problem(service.send([]), 422, "invalid_request")
    assert_problem(service.send([{"value": 1}], query="?wait=never"), 422, "invalid_request")
    wrong_envelope: dict[str, Any]
    for wrong_envelope in ({"producer_epoch": 1}, {"consumed": {}}):
        assert_problem(service.send([{"value": 1}], **wrong_envelope), 422, "invalid_request")
    assert_problem(service.http.get("/v1/nothing"), 404, "not_found")
    wrong = service.http.put(url)
    assert_problem(wrong, 405, "method_not_allowed")
    assert "POST" in wrong.headers["allow"]


# -- wait=ordered without an order job ----------------------------------------------------------


def test_order_timeout_says_that_the_records_are_stored(service: IngestService) -> None:
    answer = service.send([{"value": 1, "message_id": "ot"}], query="?wait=ordered&timeout_ms=50")
    body = assert_problem(answer, 504, "order_timeout", "yes")
    assert body["retryable"]
    assert body["stamp"] > 0
    assert body["records"][0]["message_id"] == "ot"
    assert len(rows_with(service, "ot")) == 1


# -- state --------------------------------------------------------------------------------------


def test_state_pages(service: IngestService) -> None:
    assert service.http.get("/healthz").json()["status"] == "alive"
    ready = service.http.get("/readyz")
    assert (ready.status_code, ready.json()["reasons"]) == (200, [])
    service.send([{"value": 1}])
    text = service.http.get("/metrics").text
    assert 'lakequeue_ingest_requests_total{outcome="ok"}' in text
    assert "lakequeue_ingest_pending_bytes 0.0" in text


def test_openapi(service: IngestService) -> None:
    document = service.http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    produce = document["paths"]["/v1/topics/{topic}/records"]["post"]
    assert {"wait", "timeout_ms", "topic"} <= {p["name"] for p in produce["parameters"]}
    kinds = {wire.JSON, wire.NDJSON, wire.ARROW_STREAM, cloud_events.ONE, cloud_events.BATCH}
    assert set(produce["requestBody"]["content"]) == kinds
    text = json.dumps(document)
    schemas = document["components"]["schemas"]
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in schemas
    assert "#/$defs/" not in text
