"""Clients that hold up an ingest node, or try to: others go on, and memory stays within bounds."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest
import zstandard

from tests.support.http.openapi_check import faults
from tests.support.services.fronts import Raw, posted
from tests.support.services.ingest_service import IngestService
from tests.support.services.zookeeper import wait_for
from tests.unit.queue_tables.schema.values.test_json_cost import doubled

JSON = "Content-Type: application/json"
PATH = "/v1/topics/orders/records"
HUGE = (1 << 63, 1 << 64, 1 << 70, -(1 << 63), -(1 << 70), 10**400)


def address(service: IngestService) -> tuple[str, int]:
    parts = urlsplit(str(service.ready["url"]))
    return parts.hostname or "", parts.port or 0


def goes_on(service: IngestService) -> None:
    """Health and a send of somebody else, within two seconds each."""
    http = httpx2.Client(base_url=str(service.ready["url"]), timeout=2)
    assert http.get("/healthz").status_code == 200
    sent = http.post(PATH, json={"records": [{"value": "x"}]})
    assert sent.status_code == 200, sent.text


def held(service: IngestService, count: int, data: bytes) -> list[Raw]:
    found = [Raw(address(service)) for _ in range(count)]
    for raw in found:
        raw.send(data)
    return found


@pytest.mark.parametrize(
    "data",
    [b"", b"P", posted(PATH, b"{" * 1_000, JSON)[:-999]],
    ids=["silent", "one byte of the head", "one byte of the body"],
)
def test_clients_that_do_not_go_on_stop_nobody(service: IngestService, data: bytes) -> None:
    connections = held(service, 300, data)
    goes_on(service)
    for raw in connections:
        raw.close()


def test_sends_that_wait_for_their_order_stop_no_other(service: IngestService) -> None:
    body = json.dumps({"records": [{"value": "x"}]}).encode()
    waiting = held(service, 100, posted(f"{PATH}?wait=ordered&timeout_ms=4000", body, JSON))
    goes_on(service)
    assert {raw.read().status for raw in waiting} == {504}, "nobody orders here"


def test_a_body_without_length_has_the_same_limit(service: IngestService) -> None:
    raw = Raw(address(service))
    raw.send(
        b"PUT /v1/topics/endless HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    sent = 0
    for _ in range(64):
        raw.send(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        sent += 0x10000
    raw.send(b"0\r\n\r\n")
    assert raw.read().status == 413
    assert sent > 1 << 20


def test_a_body_in_tiny_chunks_takes_no_more_memory_than_it_has_bytes(
    service: IngestService,
) -> None:
    """Two bytes a chunk took thirty times as much, and were counted as two."""
    process = psutil.Process(service.worker)
    before = process.memory_info().rss
    raw = Raw(address(service))
    raw.send(
        b"POST /v1/topics/orders/records HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    size = 2 << 20
    piece = b"2\r\n  \r\n" * 0x4000
    for _ in range(size // (2 * 0x4000)):
        raw.send(piece)

    counted = re.compile(r'lakequeue_front_budget_bytes\{budget="bodies"\} (\S+)')

    def arrived() -> bool:
        found = counted.search(service.http.get("/metrics").text)
        return found is not None and float(found[1]) == size

    wait_for(arrived, "all of it is there, and counted")
    assert process.memory_info().rss - before < 24 << 20
    goes_on(service)
    raw.send(b"0\r\n\r\n")
    assert raw.read().status == 400, "spaces are no JSON"


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_of_empty_frames_is_refused_at_once(service: IngestService, encoding: str) -> None:
    one = gzip.compress(b"") if encoding == "gzip" else zstandard.ZstdCompressor().compress(b"")
    body = one * ((4 << 20) // len(one))
    began = time.monotonic()
    answer = Raw(address(service)).post(PATH, body, JSON, f"Content-Encoding: {encoding}")
    assert answer.status == 400
    assert time.monotonic() - began < 3


def test_bodies_that_become_much_take_no_memory(service: IngestService) -> None:
    """Four of these took 2 GiB."""
    process = psutil.Process(service.worker)
    before = process.memory_info().rss
    body = b'{"records":[{"value":[' + b",".join([b"[]"] * (5 << 20)) + b"]}]}"

    def send(_: int) -> int:
        return Raw(address(service)).post(PATH, body, JSON).status

    with ThreadPoolExecutor(4) as pool:
        statuses = set(pool.map(send, range(4)))
    assert statuses <= {413, 429}
    assert process.memory_info().rss - before < 256 << 20
    goes_on(service)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b'{"records":[' + b"{}," * (5 << 20) + b"{}]}"),
        ("application/json", b'{"records":[' + b"0," * (7 << 20) + b"0]}"),
        ("application/x-ndjson", b"10\n" * (5 << 20)),
        ("application/x-ndjson", b" \n" * (7 << 20)),
        ("application/cloudevents-batch+json", b"[" + b"{}," * (5 << 20) + b"{}]"),
    ],
    ids=["objects", "numbers", "lines", "empty lines", "events"],
)
def test_millions_of_tiny_records_take_no_memory_and_no_time(
    service: IngestService, kind: str, body: bytes
) -> None:
    process = psutil.Process(service.worker)
    times, rss = process.cpu_times(), process.memory_info().rss
    answer = Raw(address(service)).post(PATH, body, f"Content-Type: {kind}")
    assert answer.status in {413, 422}
    used = process.cpu_times()
    assert used.user + used.system - times.user - times.system < 3
    assert process.memory_info().rss - rss < 4 * len(body)
    goes_on(service)


def test_a_schema_that_would_take_for_ever_is_refused(service: IngestService) -> None:
    schema = json.dumps(doubled(25))
    answer = service.http.put("/v1/topics/doubled", json={"value_schema": schema})
    assert (answer.status_code, answer.json()["field"]) == (422, "value_schema")


@pytest.mark.parametrize(
    "field",
    [
        "partitions", "retention_ms", "retention_bytes", "ttl_ms", "dedup_window_ms",
        "max_record_bytes", "max_attempts", "backoff_ms", "backoff_max_ms",
        "backoff_jitter_percent", "closed_for_ms",
    ],
)  # fmt: skip
def test_no_number_of_a_topic_is_too_large_to_be_judged(service: IngestService, field: str) -> None:
    calls: list[Callable[..., httpx2.Response]] = [service.http.patch]
    if field != "closed_for_ms":
        calls.append(service.http.put)
    for call in calls:
        for number in HUGE:
            topic = "orders" if call == service.http.patch else "huge"
            body = f'{{"{field}": {number}}}'
            kind = {"Content-Type": "application/json"}
            answer = call(f"/v1/topics/{topic}", content=body.encode(), headers=kind)
            assert answer.status_code in {400, 422}, (body[:80], answer.text)


@pytest.mark.parametrize(
    "record",
    [
        *({name: number} for name in ("partition", "timestamp", "delay_ms", "ttl_ms", "deliver_at")
          for number in HUGE),
    ],
    ids=lambda record: "",
)  # fmt: skip
def test_no_number_of_a_record_is_too_large_to_be_judged(
    service: IngestService, record: dict[str, int]
) -> None:
    body = json.dumps({"records": [{"value": "x"} | record]}).encode()
    answer = service.http.post(PATH, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in {200, 400, 422}, answer.text


@pytest.mark.parametrize("field", ["sequence", "producer_epoch", "after", "timeout_ms"])
def test_no_number_of_an_envelope_is_too_large_to_be_judged(
    service: IngestService, field: str
) -> None:
    for number in HUGE:
        envelope = {"records": [{"value": "x"}], "producer_id": "p", field: number}
        query = f"?timeout_ms={number}" if field == "timeout_ms" else ""
        if field == "timeout_ms":
            del envelope[field]
        answer = service.http.post(
            PATH + query,
            content=json.dumps(envelope).encode(),
            headers={"Content-Type": "application/json"},
        )
        assert answer.status_code in {400, 413, 422, 503}, answer.text


@pytest.mark.parametrize(
    "body",
    [
        rb'{"records":[{"value":"\ud800"}]}',
        rb'{"records":[{"value":{"\udfff":1}}]}',
        rb'{"records":[{"value":"x","key":"\ud800"}]}',
        rb'{"records":[{"value":"x","headers":{"a":"\ud800"}}]}',
        rb'{"records":[{"value":"x","message_id":"\ud800"}]}',
        rb'{"records":[{"value":"x"}],"producer_id":"\ud800"}',
        rb'{"records":[{"value":123456789012345678901234567890,"key":"\ud800"}]}',
        b'{"records":[{"value":"\xed\xa0\x80"}]}',
        b'{"records":' + b"[" * 100_000,
        b'{"records":[{"value":' + b"[" * 5_000 + b"]" * 5_000 + b"}]}",
    ],
)  # fmt: skip
def test_text_that_is_no_text_is_refused(service: IngestService, body: bytes) -> None:
    for path in (PATH, "/v1/topics/other", "/v1/records"):
        call = service.http.put if path.endswith("other") else service.http.post
        answer = call(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in {400, 404, 422}, (path, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/topics/%ED%A0%80", "/v1/topics/%00", "/v1/topics/%FF%FE/records", "/%",
        "/v1/topics/orders/records?timeout_ms=%ED%A0%80", "/v1/topics/orders/records?%ED%A0%80=1",
        "/v1/producers/%ED%A0%80/epochs", "//", "/v1/topics/" + "x" * 5_000, "/v1/nodes?\xff",
    ],
)  # fmt: skip
def test_no_path_breaks_a_node(service: IngestService, path: str) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
        raw = Raw(address(service))
        raw.send(
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode(
                "latin-1"
            )
        )
        assert raw.read().status < 500
        raw.close()


def test_the_description_is_valid_and_complete(service: IngestService) -> None:
    document = service.http.get("/openapi.json").json()
    assert faults(document) == []
    produce = document["paths"]["/v1/topics/{topic}/records"]["post"]
    assert {"wait", "timeout_ms"} <= {p["name"] for p in produce["parameters"]}
