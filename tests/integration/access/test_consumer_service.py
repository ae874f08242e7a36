"""Consumer-service nodes whose doors are locked, as processes."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from deltalake import DeltaTable

from coordination.zookeeper.notifications import Notifier
from lakequeue import Admin, Producer, redrive_async
from lakequeue.errors import Forbidden
from lakequeue.wire import DeadLetterHeader
from tests.support.access.locked import Locks, as_, secret_of, wait_status
from tests.support.services.consumer_node import NodeProcess, Queue
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import ordering
from tests.support.services.zookeeper import wait_for

pytestmark = [pytest.mark.zookeeper, pytest.mark.timeout(300)]
OPEN = {"/healthz", "/readyz"}
Start = Callable[..., NodeProcess]


def http_of(node: NodeProcess) -> httpx2.Client:
    return httpx2.Client(base_url=node.url, timeout=60)


def test_doors_of_a_consumer_service(own_queue: Queue, start_node: Start) -> None:
    locks = Locks(own_queue.root).lock()
    topic = own_queue.log.topic("orders", partitions=1)
    other = own_queue.log.topic("other", partitions=1)
    node = start_node(own_queue, "a")
    second = start_node(own_queue, "b")
    consumer = locks.may("worker", "consume", "topic", topic.topic)
    locks.may("worker", "consume", "group", "billing-*")
    with http_of(node) as http, http_of(second) as http2:
        for each in (http, http2):
            wait_status(each, "/v1/groups", locks.keys["worker"], 200)
        consumer = locks.keys["worker"]
        no_operation_answers_without_credentials(http, locks.keys["admin"])
        groups_are_joined_by_who_may(http, consumer, topic.topic, other.topic)
        a_poll_ends_when_its_right_is_taken(http, locks, consumer, topic.topic)
        nodes_ask_each_other_by_keys_of_their_own(http, http2, locks.keys["admin"], topic.topic)
    assert secret_of(consumer) not in node.trace.read_text() + second.trace.read_text()
    for node_ in (node, second):
        node_.terminate()
    keys = [
        row
        for row in DeltaTable(f"{own_queue.root.uri}/access").to_pyarrow_table().to_pylist()
        if row["principal"] == "nodes-of-this-queue" and row["kind"] == "key"
    ]
    assert keys
    assert {r["name"] for r in keys if r["deleted"]} == {r["name"] for r in keys}


def no_operation_answers_without_credentials(http: httpx2.Client, admin: str) -> None:
    document = http.get("/openapi.json", headers=as_(admin)).json()
    asked = [
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    ]
    assert len(asked) >= 28
    for method, path in asked:
        plain = path.replace("{partition}", "0").replace("{offset}", "0")
        plain = plain.replace("{", "").replace("}", "")
        body = None if method == "GET" else dict[str, str]()
        for headers in ({}, as_("lq_a_b")):
            answer = http.request(method, plain, headers=headers, json=body)
            assert answer.status_code == (200 if path in OPEN else 401), (method, path)


def groups_are_joined_by_who_may(http: httpx2.Client, key: str, topic: str, other: str) -> None:
    def join(group: str, *topics: str) -> httpx2.Response:
        path = f"/v1/groups/{group}/members"
        return http.post(path, json={"topics": list(topics)}, headers=as_(key))

    assert join("theirs", topic).status_code == 403
    assert join("billing-1", topic, other).status_code == 403
    joined = join("billing-1", topic)
    assert joined.status_code == 201, joined.text
    member = f"/v1/groups/billing-1/members/{joined.json()['member_id']}"
    assert http.get(f"{member}/records?wait_ms=0", headers=as_(key)).status_code == 200
    assert http.get(f"{member}/records").status_code == 401
    listed = http.get("/v1/groups", headers=as_(key)).json()["groups"]
    assert [one["group"] for one in listed] == ["billing-1"]
    for verb in ("purge", "seek", "pause"):
        answer = http.post(f"/v1/groups/billing-1/{verb}", json={"to": "latest"}, headers=as_(key))
        assert answer.status_code == 403, verb
    assert http.delete("/v1/groups/billing-1", headers=as_(key)).status_code == 403
    assert http.get(f"/v1/topics/{topic}/records", headers=as_(key)).status_code == 403
    assert http.get("/metrics", headers=as_(key)).status_code == 403
    received = {"topics": [other]}
    answer = http.post("/v1/groups/billing-q/receive", json=received, headers=as_(key))
    assert answer.status_code == 403
    hook = {"url": "https://hooks.example.org/", "topics": [topic]}
    assert http.put("/v1/groups/billing-w/webhook", json=hook, headers=as_(key)).status_code == 403
    assert http.delete(member, headers=as_(key)).status_code == 204


def a_poll_ends_when_its_right_is_taken(
    http: httpx2.Client, locks: Locks, key: str, topic: str
) -> None:
    joined = http.post("/v1/groups/billing-2/members", json={"topics": [topic]}, headers=as_(key))
    member = f"/v1/groups/billing-2/members/{joined.json()['member_id']}"
    answers: list[httpx2.Response] = []

    def poll() -> None:
        answers.append(http.get(f"{member}/records?wait_ms=4000", headers=as_(key)))

    # The first tells the assignment; the second waits.
    poll()
    waiting = threading.Thread(target=poll)
    waiting.start()
    wait_for(lambda: 'kind="poll"} 1' in parked(http, locks.keys["admin"]), "the poll waits")
    locks.revoke("worker")
    wait_status(http, "/v1/groups", key, 401)
    waiting.join()
    assert answers[-1].status_code == 401, answers[-1].text
    assert answers[-1].json()["code"] == "unauthenticated"


def parked(http: httpx2.Client, admin: str) -> str:
    text = http.get("/metrics", headers=as_(admin)).text
    return "\n".join(line for line in text.splitlines() if "parked" in line or "wait" in line)


def nodes_ask_each_other_by_keys_of_their_own(
    http: httpx2.Client, http2: httpx2.Client, admin: str, topic: str
) -> None:
    """A purge at one node of what the other owns."""
    who = as_(admin)
    joined = http.post(
        "/v1/groups/purged/members",
        json={"topics": [topic], "mode": "queue", "session_timeout_ms": 120_000},
        headers=who,
    )
    assert joined.status_code == 201, joined.text
    path = f"/v1/groups/purged/members/{joined.json()['member_id']}"

    def owned() -> list[Any]:
        return [
            one
            for one in http.post(f"{path}/heartbeat", headers=who).json().get("assignment", [])
            if one["epoch"] is not None
        ]

    wait_for(
        lambda: owned() or http.get(f"{path}/records?wait_ms=500", headers=who).is_error, "owned"
    )
    for each in (http, http2):
        answer = each.post("/v1/groups/purged/purge", json={"topics": [topic]}, headers=who)
        assert answer.status_code == 200, answer.text
        assert [one["topic"] for one in answer.json()["partitions"]] == [topic]


def test_dead_letters_of_a_locked_queue_go_through_ingest(
    own_queue: Queue, start_node: Start, tmp_path: Path
) -> None:
    locks = Locks(own_queue.root).lock()
    key = locks.keys["admin"]
    topic = own_queue.log.topic("jobs", partitions=1)
    own_queue.log.append(topic, [b"one"])
    root = Path(own_queue.root.uri)
    with IngestService(root, "--zookeeper", own_queue.zookeeper.hosts) as ingest:
        created = ingest.http.put("/v1/topics/jobs.dlq", json={}, headers=as_(key))
        assert created.status_code in {200, 201}, created.text
        node = start_node(own_queue, "a")
        with http_of(node) as http:
            made = http.put("/v1/groups/jobs", json={"max_attempts": 1}, headers=as_(key))
            assert made.status_code == 200, made.text

            def received() -> list[dict[str, Any]]:
                answer = http.post(
                    "/v1/groups/jobs/receive",
                    json={"topics": ["jobs"], "wait_ms": 500},
                    headers=as_(key),
                )
                found: list[dict[str, Any]] = answer.json().get("records", [])
                return found

            record = wait_for(received, "the record")[0]
            said = {"nacks": [{"receipt": record["receipt"], "delay_ms": 0}]}
            http.post("/v1/groups/jobs/acks", json=said, headers=as_(key))
            sent = f"{root}/inbox"
            wait_for(
                lambda: any(
                    DeltaTable(str(shard)).to_pyarrow_table().num_rows
                    for shard in Path(sent).iterdir()
                ),
                "the dead letter in the inbox",
            )


def test_a_redrive_has_the_rights_of_its_admin_and_not_those_of_the_environment(
    own_queue: Queue, start_node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = Locks(own_queue.root).lock()
    key = locks.keys["admin"]
    other = locks.may("eve", "read", "topic", "jobs*")
    root = Path(own_queue.root.uri)
    notifier = Notifier(own_queue.session, "log").start()
    with (
        IngestService(root, "--zookeeper", own_queue.zookeeper.hosts) as ingest,
        contextlib.closing(notifier),
        ordering(own_queue.root, notifier=notifier),
    ):
        urls = str(ingest.ready["url"])
        node = start_node(own_queue, "a")
        with Admin(urls, node.url, credentials=key) as admin:
            admin.create_topic("jobs", partitions=1)
            admin.create_topic("jobs.dlq", partitions=1)
            with Producer(urls, acks="ordered", credentials=key) as producer:
                producer.send("jobs.dlq", 1, headers={DeadLetterHeader.TOPIC: "jobs"})
            monkeypatch.setenv("LAKEQUEUE_API_KEY", other)
            assert admin.redrive("jobs.dlq").redriven == 1
            done = asyncio.run(
                redrive_async("jobs.dlq", urls=urls, consumer_urls=node.url, credentials=key)
            )
            assert done.looked_at == 0
        monkeypatch.setenv("LAKEQUEUE_API_KEY", key)
        with Admin(urls, node.url, credentials=other) as admin, pytest.raises(Forbidden):
            admin.redrive("jobs.dlq")
