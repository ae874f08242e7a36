"""Every call that changes something leaves one line in the audit; what is read counts in quotas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from deltalake import DeltaTable

from coordination.embedded import EmbeddedZooKeeper
from queue_access.calls import CONSUMER, INGEST
from queue_access.quotas import Quota
from queue_tables.schema.topic_rules import Topic
from tests.support.access.locked import Locks, as_, wait_status
from tests.support.services.consumer_node import NodeProcess, Queue, open_queue
from tests.support.services.ingest_service import IngestService

pytestmark = [pytest.mark.zookeeper, pytest.mark.timeout(300)]
Row = dict[str, Any]


@dataclass
class Doors:
    """Both services of one locked queue."""

    locks: Locks
    queue: Queue
    topic: Topic
    ingest: httpx2.Client
    consumer: httpx2.Client

    def call(self, method: str, path: str, body: object = None, key: str = "") -> httpx2.Response:
        """Groups, records to look at and redrives are the consumer service's; the rest is sent."""
        theirs = "/groups/" in path or "/records?" in path or path.endswith("/redrive")
        http = self.consumer if theirs else self.ingest
        who = as_(key or self.locks.keys["admin"])
        return http.request(method, path, headers=who, json=body)

    def lines(self, call: str, name: str) -> list[Row]:
        """The changes by a call that was about this name."""
        rows: list[Row] = DeltaTable(f"{self.locks.root.uri}/audit").to_pyarrow_table().to_pylist()
        return [r for r in rows if (r["call"], r["name"]) == (call, name)]


@pytest.fixture(scope="module")
def doors(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[Doors]:
    for queue in open_queue(tmp_path_factory.mktemp("changes"), zookeeper):
        locks = Locks(queue.root).lock()
        topic = queue.log.topic("jobs", partitions=1)
        queue.log.append(topic, [b"x" * 1_000 for _ in range(40)])
        at = ("--zookeeper", zookeeper.hosts)
        private = {"LAKEQUEUE_CONSUMER__WEBHOOK_ALLOW_PRIVATE": "true"}
        with IngestService(Path(queue.root.uri), *at) as ingest:
            node = NodeProcess(queue, "a", None, 0, **private)
            with httpx2.Client(base_url=node.url, timeout=60) as consumer:
                wait_status(consumer, "/v1/groups", locks.keys["admin"], 200)
                yield Doors(locks, queue, topic, ingest.http, consumer)
            node.kill()


CHANGES: list[tuple[str, str, str, object, bool, bool]] = [
    # call, path, body, there is something before it, and something after it beside what was asked
    ("PUT", "/v1/topics/{topic}", "/v1/topics/jobs.dlq", {}, False, False),
    ("PATCH", "/v1/topics/{topic}", "/v1/topics/jobs", {"retention_ms": 86_400_000}, True, False),
    ("POST", "/v1/topics/{topic}/settle", "/v1/topics/jobs/settle?timeout_ms=1", {}, True, False),
    (
        "POST",
        "/v1/producers/{producer_id}/epochs",
        "/v1/producers/till/epochs?timeout_ms=1",
        {},
        True,
        False,
    ),
    ("PUT", "/v1/groups/{group}", "/v1/groups/workers", {"max_attempts": 4}, False, False),
    ("POST", "/v1/groups/{group}/pause", "/v1/groups/workers/pause", {}, True, True),
    ("POST", "/v1/groups/{group}/resume", "/v1/groups/workers/resume", {}, True, True),
    (
        "POST",
        "/v1/groups/{group}/purge",
        "/v1/groups/workers/purge",
        {"topics": ["jobs"]},
        True,
        True,
    ),
    (
        "PUT",
        "/v1/groups/{group}/webhook",
        "/v1/groups/workers/webhook",
        {"url": "http://127.0.0.1:9/", "topics": ["jobs"], "max_attempts": 4},
        False,
        False,
    ),
    ("DELETE", "/v1/groups/{group}/webhook", "/v1/groups/workers/webhook", None, True, False),
    (
        "POST",
        "/v1/groups/{group}/seek",
        "/v1/groups/moved/seek",
        {"topics": ["jobs"], "to": "latest"},
        False,
        True,
    ),
    ("DELETE", "/v1/groups/{group}", "/v1/groups/moved", None, True, False),
    ("POST", "/v1/topics/{topic}/redrive", "/v1/topics/jobs.dlq/redrive", {}, True, True),
    ("DELETE", "/v1/topics/{topic}", "/v1/topics/jobs.dlq", None, True, False),
]


def test_every_call_that_changes_something_leaves_one_line(doors: Doors) -> None:
    declared = {(c.method, c.path) for c in (*INGEST, *CONSUMER) if c.changes}
    assert {(method, path) for method, path, *_ in CHANGES} == declared
    for method, call, path, body, before, more in CHANGES:
        name = path.split("/")[3].partition("?")[0]
        answer = doors.call(method, path, body)
        assert answer.status_code < 500 or answer.status_code == 504, (path, answer.text)
        [line] = doors.lines(f"{method} {call}", name)
        assert line["principal"] == "admin"
        assert line["how"].startswith("key lq_")
        assert line["address"] == "127.0.0.1"
        assert (line["outcome"] == "done") == (answer.status_code < 400), (path, answer.text)
        assert line["status"] == answer.status_code
        assert (line["before"] is not None) == before, (path, line)
        if before:
            assert isinstance(orjson.loads(line["before"]), dict)
        if body:
            assert line["after"] is not None
        if more and answer.status_code < 400:
            assert {"asked", "led_to"} == orjson.loads(line["after"]).keys()


def test_where_a_group_stood_and_stands_is_in_the_audit(doors: Doors) -> None:
    doors.call("POST", "/v1/groups/stood/seek", {"topics": ["jobs"], "to": "latest"})
    doors.call("POST", "/v1/groups/stood/seek", {"topics": ["jobs"], "to": "earliest"})
    _, line = sorted(doors.lines("POST /v1/groups/{group}/seek", "stood"), key=lambda r: r["at"])
    assert orjson.loads(line["before"])["positions"] == {"jobs/0": 40}
    assert orjson.loads(line["after"])["led_to"]["positions"] == {"jobs/0": 0}


def test_a_group_that_a_join_or_a_receive_makes_is_in_the_audit_once(doors: Doors) -> None:
    for _ in range(2):
        joined = doors.call("POST", "/v1/groups/joined/members", {"topics": ["jobs"]})
        assert joined.status_code == 201, joined.text
        received = doors.call("POST", "/v1/groups/taken/receive", {"topics": ["jobs"]})
        assert received.status_code == 200, received.text
    [join] = doors.lines("POST /v1/groups/{group}/members", "joined")
    [receive] = doors.lines("POST /v1/groups/{group}/receive", "taken")
    assert orjson.loads(join["after"])["mode"] == "stream"
    assert orjson.loads(receive["after"])["mode"] == "queue"
    assert (join["principal"], join["detail"], join["before"]) == ("admin", "made", None)


def test_who_has_read_too_much_waits_and_may_still_ack(doors: Doors) -> None:
    doors.locks.limit("reader", Quota(bytes_per_s=2_000.0))
    doors.locks.may("reader", "read", "topic", "jobs")
    doors.locks.may("reader", "consume", "topic", "jobs")
    key = doors.locks.may("reader", "consume", "group", "heavy")
    wait_status(doors.consumer, "/v1/groups/heavy", key, 404)
    received = doors.call("POST", "/v1/groups/heavy/receive", {"topics": ["jobs"], "max": 40}, key)
    records = received.json()["records"]
    assert len(records) == 40, received.text
    for method, path, body in (
        ("POST", "/v1/groups/heavy/receive", {"topics": ["jobs"]}),
        ("GET", "/v1/topics/jobs/records?partition=0&offset=0", None),
    ):
        again = doors.call(method, path, body, key)
        assert (again.status_code, again.json()["code"]) == (429, "over_quota"), again.text
        assert int(again.headers["Retry-After"]) > 10
    acks = [record["receipt"] for record in records]
    assert doors.call("POST", "/v1/groups/heavy/acks", {"acks": acks}, key).status_code == 200
    assert doors.call("GET", "/v1/groups/heavy", None, key).status_code == 200
    told = doors.consumer.get("/metrics", headers=as_(doors.locks.keys["admin"])).text
    assert 'lakequeue_access_refused_total{code="over_quota"} 2' in told


def test_a_stream_of_who_has_read_too_much_pauses_and_goes_on(doors: Doors) -> None:
    doors.locks.limit("streamer", Quota(bytes_per_s=8_000.0))
    doors.locks.may("streamer", "consume", "topic", "jobs")
    key = doors.locks.may("streamer", "consume", "group", "streamed")
    wait_status(doors.consumer, "/v1/groups/streamed", key, 404)
    joined = doors.call("POST", "/v1/groups/streamed/members", {"topics": ["jobs"]}, key)
    path = f"/v1/groups/streamed/members/{joined.json()['member_id']}/events"
    seen = 0
    with doors.consumer.stream("GET", path, headers=as_(key)) as events:
        assert events.status_code == 200
        for line in events.iter_lines():
            seen += line.startswith("event: record")
            if seen == 40:
                # Several seconds' worth, so also on a slow machine what comes now waits.
                doors.queue.log.append(doors.topic, [b"y" * 1_000 for _ in range(10)])
            if seen == 50:
                break
    told = doors.consumer.get("/metrics", headers=as_(doors.locks.keys["admin"])).text
    assert "lakequeue_access_pauses_total 0" not in told
