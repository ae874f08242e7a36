"""Each part of a queue stands still in turn, or hangs: plain sends and acks of others go on."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from lakequeue import Producer
from lakequeue.client.admin import Admin
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from tests.support.faults.faulty_cluster import LightLayout
from tests.support.faults.patching import environ
from tests.support.faults.sickness import SICK_FILE
from tests.support.faults.stopped import stopped
from tests.support.services.consumer_node import HttpMember, Records
from tests.support.services.endpoint import Endpoint
from tests.support.services.fronts import Raw
from tests.support.services.zookeeper import wait_for

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(300)]
RECORDS = 200
WITHIN_S = 4.0
"""Of one send or ack; what stands still would take for ever."""


@dataclass
class Parts:
    """A queue whose parts can be stopped, and a member at `consumer-2` with records to ack."""

    cluster: Cluster
    chart: Path
    member: HttpMember
    records: Records

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """It stands still in the block, and goes on after it."""
        with stopped(self.cluster.child(name).pid):
            yield

    @contextmanager
    def reads_hang(self, name: str, *tables: str) -> Iterator[None]:
        """No read of these tables comes back to this node."""
        ills = {"unreadable": 1.0, "unreadable_within_ms": 20_000, "only": [name]}
        ills |= {"tables": tables} if tables else {}
        self.chart.write_text(json.dumps(ills))
        try:
            yield
        finally:
            self.chart.unlink()

    def sends_go_on(self, node: str = "ingest-2", times: int = 5) -> None:
        """Plain ones, each in time."""
        with httpx2.Client(base_url=self.cluster.url(node), timeout=WITHIN_S) as http:
            for _ in range(times):
                answer = http.post("/v1/topics/orders/records", json={"records": [{"value": 1}]})
                assert answer.status_code == 200, answer.text

    def acks_go_on(self, times: int = 5) -> None:
        """Of a group at `consumer-2`, each in time."""
        receipts = [self.records.pop(0)["receipt"] for _ in range(times)]
        path = f"{self.cluster.url('consumer-2')}{self.member.path}/acks"
        for receipt in receipts:
            answer = httpx2.post(path, json={"acks": [receipt]}, timeout=WITHIN_S)
            assert answer.status_code == 200, answer.text

    def well(self) -> None:
        """All is as before."""
        self.cluster.wait_ready(120)
        with Producer(self.cluster.ingest_urls, acks="ordered") as producer:
            producer.send("orders", "well")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parts]:
    folder = tmp_path_factory.mktemp("parts")
    chart = folder / "sick.json"
    cluster = Cluster(
        ClusterOptions(
            root=str(folder / "root"),
            ingest_nodes=2,
            consumer_nodes=2,
            environ={
                **environ("sickness"),
                SICK_FILE: str(chart),
                "LAKEQUEUE_CONSUMER__WEBHOOK_ALLOW_PRIVATE": "true",
            },
        )
    )
    real = cluster.layout
    cluster.layout = LightLayout(**{f.name: getattr(real, f.name) for f in fields(real)})
    with cluster:
        cluster.wait_ready(180)
        with Admin(cluster.ingest_urls) as admin:
            topic, _ = admin.create_topic("orders", partitions=2)
            admin.create_topic("pushed", partitions=1)
        with Producer(cluster.ingest_urls, acks="ordered") as producer:
            for number in range(RECORDS):
                producer.send("orders", number, partition=number % 2)
        options: dict[str, Any] = {"mode": "queue", "from": "earliest", "max_in_flight": RECORDS}
        options["visibility_timeout_ms"] = 3_600_000
        with HttpMember(cluster.url("consumer-2"), topic, "acking", options) as member:  # type: ignore[arg-type]
            records = member.poll_until(RECORDS)
            yield Parts(cluster, chart, member, records)


@pytest.mark.parametrize("name", ["driver-1", "consumer-1", "ingest-1"])
def test_a_part_that_stands_still_holds_up_nobody_else(parts: Parts, name: str) -> None:
    with parts.stopped(name):
        parts.sends_go_on(times=20)
        parts.acks_go_on(times=10)
    parts.well()


def test_sends_that_wait_for_a_stopped_driver_hold_up_no_plain_ones(parts: Parts) -> None:
    body = b'{"records":[{"value":1}]}'
    head = (
        b"POST /v1/topics/orders/records?wait=ordered&timeout_ms=60000 HTTP/1.1\r\n"
        b"Host: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    place = urlsplit(parts.cluster.url("ingest-2"))
    with parts.stopped("driver-1"):
        waiting = [Raw((place.hostname or "", place.port or 0)) for _ in range(200)]
        for raw in waiting:
            raw.send(head + body)
        parts.sends_go_on(times=20)
    assert {raw.read().status for raw in waiting} == {200}, "they get their offsets in the end"
    for raw in waiting:
        raw.close()


def test_zookeeper_that_stands_still_stops_no_send_and_no_ack_of_a_lease(parts: Parts) -> None:
    with parts.stopped("zookeeper"):
        parts.acks_go_on(times=5)
        parts.sends_go_on(times=20)
    parts.well()


def test_a_webhook_endpoint_that_hangs_holds_up_nobody(parts: Parts) -> None:
    hangs = threading.Event()
    with Endpoint(lambda _post, _handler: (hangs.wait(60), None)[1]) as endpoint:
        hook = {"url": endpoint.url, "topics": ["pushed"], "concurrency": 8}
        path = f"{parts.cluster.url('consumer-2')}/v1/groups/hook/webhook"
        answer = httpx2.put(path, json=hook, timeout=30)
        assert answer.status_code == 200, answer.text
        with Producer(parts.cluster.ingest_urls) as producer:
            for number in range(20):
                producer.send("pushed", number)
        wait_for(lambda: len(endpoint.posts) > 0, "the endpoint is called")
        parts.sends_go_on(times=10)
        parts.acks_go_on(times=10)
        hangs.set()
        assert httpx2.delete(path, timeout=30).status_code == 204


def test_tables_that_cannot_be_read_stop_no_send(parts: Parts) -> None:
    with parts.reads_hang("ingest-1", "log", "topics", "group_offsets"):
        parts.sends_go_on("ingest-1", times=5)
        parts.sends_go_on("ingest-2", times=5)
    parts.well()


def test_tables_that_cannot_be_read_stop_no_ack(parts: Parts) -> None:
    with parts.reads_hang("consumer-2", "log", "topics", "group_offsets"):
        parts.acks_go_on(times=10)
    parts.well()


def test_storage_that_hangs_for_one_node_holds_up_no_other(parts: Parts) -> None:
    """The node itself says that it cannot tell, and that one may try again."""
    with parts.reads_hang("ingest-1"):
        url = parts.cluster.url("ingest-1")
        answer = httpx2.post(
            f"{url}/v1/topics/orders/records", json={"records": [{"value": 1}]}, timeout=60
        )
        assert answer.status_code in {200, 503}
        assert answer.status_code == 200 or answer.json()["retryable"]
        parts.sends_go_on("ingest-2", times=10)
        parts.acks_go_on(times=5)
        assert httpx2.get(f"{url}/healthz", timeout=WITHIN_S).status_code == 200
    parts.well()
