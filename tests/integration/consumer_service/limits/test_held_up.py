"""Clients that hold up a consumer-service node, or try to: others go on."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from tests.support.http.openapi_check import faults
from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue, group_of
from tests.support.services.fronts import Raw, posted
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
HUGE = (1 << 63, 1 << 70, -(1 << 70), 10**400)
JSON = "Content-Type: application/json"


def connected(node: NodeProcess, receive_bytes: int | None = None) -> Raw:
    parts = urlsplit(node.url)
    return Raw((parts.hostname or "", parts.port or 0), receive_bytes)


def asked(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def test_waiting_polls_stop_neither_acks_nor_health(queue: Queue, node: NodeProcess) -> None:
    """The 257th did."""
    topic, empty = queue.log.topic(), queue.log.topic()
    queue.log.append(topic, ["a"])
    with HttpMember(node.url, empty, group_of(empty)) as waiting:
        polls = [connected(node) for _ in range(400)]
        for raw in polls:
            raw.send(asked(f"{waiting.path}/records?wait_ms=60000"))
        with HttpMember(node.url, topic, group_of(topic)) as member:
            records = member.poll_until(1)
            assert member.ack(records).status_code == 200
        assert httpx2.get(f"{node.url}/healthz", timeout=2).status_code == 200
        for raw in polls:
            raw.close()


@pytest.mark.parametrize("data", [b"", b"G"], ids=["silent", "one byte"])
def test_clients_that_do_not_go_on_stop_nobody(node: NodeProcess, data: bytes) -> None:
    owned = [connected(node) for _ in range(300)]
    for raw in owned:
        raw.send(data)
    assert httpx2.get(f"{node.url}/healthz", timeout=2).status_code == 200
    assert httpx2.get(f"{node.url}/v1/groups", timeout=5).status_code == 200
    for raw in owned:
        raw.close()


def test_clients_that_never_read_stop_nobody(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["x" * 1_000] * 2_000)
    path = f"/v1/topics/{topic.topic}/records?partition=0&offset=0&max=2000"
    first = connected(node)
    assert len(first.get(path).body) > 2_000_000
    first.close()
    process = psutil.Process(node.worker)
    before = process.memory_info().rss
    owned = [connected(node, receive_bytes=4_096) for _ in range(400)]
    for raw in owned:
        raw.send(asked(path) * 4)
    most = 0

    def settled() -> bool:
        """They are answered, or told to come again."""
        nonlocal most
        most = max(most, process.memory_info().rss)
        metrics = httpx2.get(f"{node.url}/metrics", timeout=5).text
        return 'lakequeue_front_calls{kind="browse"} 0.0' in metrics

    wait_for(settled, "they are answered, or told to come again")
    assert most - before < 80 << 20, "32 MiB of answers, and what two threads need to build one"
    assert httpx2.get(f"{node.url}/healthz", timeout=2).status_code == 200
    with HttpMember(node.url, topic, group_of(topic)) as member:
        records = member.poll_until(500)
        assert member.ack(records).status_code == 200
    for raw in owned:
        raw.close()


def test_browses_without_end_stop_neither_acks_nor_health(queue: Queue, node: NodeProcess) -> None:
    """Eight clients ask for all they may have, again and again."""
    topic = queue.log.topic()
    queue.log.append(topic, ["x" * 1_000] * 10_000)
    path = f"/v1/topics/{topic.topic}/records?partition=0&offset=0&max=10000"
    over = threading.Event()

    def look() -> set[int]:
        answered = set()
        with httpx2.Client(base_url=node.url, timeout=30) as client:
            while not over.is_set():
                answered.add(client.get(path).status_code)
        return answered

    with ThreadPoolExecutor(8) as pool:
        looks = [pool.submit(look) for _ in range(8)]
        try:
            wait_for(lambda: _browsing(node) >= 2, "both threads of this kind are busy")
            with HttpMember(node.url, topic, group_of(topic)) as member:
                assert member.ack(member.poll_until(1)).status_code == 200
            assert httpx2.get(f"{node.url}/healthz", timeout=2).status_code == 200
        finally:
            over.set()
        assert set.union(*(one.result() for one in looks)) <= {200, 429}


def _browsing(node: NodeProcess) -> float:
    """Browses that are answered, or wait for a thread."""
    text = httpx2.get(f"{node.url}/metrics", timeout=5).text
    busy = re.search(r'lakequeue_front_calls\{kind="browse"\} (\S+)', text)
    return float(busy[1]) if busy else 0.0


def test_a_body_without_length_has_the_same_limit(node: NodeProcess) -> None:
    """600 MiB went through a limit of 4 MiB."""
    raw = connected(node)
    raw.send(
        b"POST /v1/groups/g/acks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    for _ in range(80):
        raw.send(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
    raw.send(b"0\r\n\r\n")
    assert raw.read().status == 413


@pytest.mark.parametrize("number", HUGE)
def test_no_number_is_too_large_to_be_judged(queue: Queue, node: NodeProcess, number: int) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    base = f"/v1/topics/{topic.topic}"
    group = f"/v1/groups/{group_of(topic)}"
    http = httpx2.Client(base_url=node.url, timeout=30)
    if abs(number) < 1 << 100:
        for name in ("offset", "time", "max", "partition"):
            query = {"partition": "0", name: str(number)}
            assert http.get(f"{base}/records", params=query).status_code < 500, name
        assert http.get(f"{base}/partitions/{number}/records/0").status_code < 500
        assert http.get(f"{base}/partitions/0/records/{number}").status_code < 500
        assert http.get(f"{group}{base[3:]}/partitions/0/records/{number}").status_code < 500
        assert http.get("/v1/advice", params={"over_ms": str(number)}).status_code < 500
    bodies: dict[str, list[dict[str, object]]] = {
        f"{group}/seek": [
            {"to": "offset", "offset": number},
            {"to": "time", "time": number},
            {"to": "shift", "shift": number},
            {"to": "offset", "offset": 0, "partitions": [number]},
        ],
        f"{group}/receive": [
            {name: number} for name in ("max", "wait_ms", "visibility_timeout_ms")
        ],
        f"{group}/pause": [{"partitions": [number], "topic": topic.topic}],
        f"{group}/purge": [{"topic": topic.topic, "timeout_ms": number}],
        f"{base}/redrive": [{"max": number}, {"timeout_ms": number}],
        "/v1/groups/g/members": [
            {"topics": [topic.topic], name: number}
            for name in ("session_timeout_ms", "max_poll_interval_ms", "max_in_flight",
                         "max_attempts", "visibility_timeout_ms", "backoff_ms")
        ],
        "/v1/groups/g/acks": [
            {"acks": [f"q.{'0' * 32}.{number}.{number}.{number}.1.1"]},
            {"acks": [f"{'0' * 32}.{number}.{number}.{number}"]},
            {"nacks": [{"receipt": "x", "delay_ms": number}]},
        ],
    }  # fmt: skip
    for path, several in bodies.items():
        for body in several:
            raw = connected(node)
            answer = raw.post(path, json.dumps(body).encode(), JSON)
            assert answer.status < 500, (path, body, answer.body)
            raw.close()


@pytest.mark.parametrize(
    "body", [rb'{"topics":["\ud800"]}', rb'{"acks":["\ud800"]}', b'{"a":' + b"[" * 100_000, b"\xff"]
)
def test_text_that_is_no_text_is_refused(node: NodeProcess, body: bytes) -> None:
    for path in ("/v1/groups/g/members", "/v1/groups/g/acks", "/v1/groups/%ED%A0%80/seek"):
        raw = connected(node)
        raw.send(posted(path, body, JSON))
        answer = raw.read()
        assert 400 <= answer.status < 500, answer.body
        assert answer.headers["content-type"] == "application/problem+json"


def test_the_description_is_valid_and_complete(node: NodeProcess) -> None:
    document = httpx2.get(f"{node.url}/openapi.json", timeout=30).json()
    assert faults(document) == []
    poll = document["paths"]["/v1/groups/{group}/members/{member}/records"]["get"]
    assert {"max", "wait_ms", "after"} <= {p["name"] for p in poll["parameters"]}
