"""A table that cannot be read when processes start: they say so, wait, and serve when it is mended.

Whoever can do without the table goes on.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from pyspark.sql import SparkSession

from coordination.embedded import EmbeddedZooKeeper
from jobs.ordering.order_job import OrderJob
from jobs.source.source import SourceOptions
from jobs.streaming.leader import Leader
from jobs.streaming.query import ShardQuery
from lakequeue.settings import OrderSettings
from queue_tables.delta.actions import CommitInfo, Protocol, commit_path, encode
from queue_tables.delta.table import TableLog
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import TABLES
from queue_tables.topics import TopicStore
from queue_tables.upkeep.repair import repair_table
from tests.support.access.certificates import Authority
from tests.support.faults.patching import environ
from tests.support.runs.light_driver import PlainQuery
from tests.support.services.ingest_service import IngestService
from tests.support.services.zookeeper import MakeSession, wait_for

pytestmark = [pytest.mark.zookeeper, pytest.mark.timeout(300)]


@dataclass
class Damage:
    """What is done to the newest commit of a table, and how it is undone."""

    do: Callable[[QueueRoot, str], object]
    undo: Callable[[QueueRoot, str], object]
    says: str


def _torn(root: QueueRoot, table: str) -> None:
    path = commit_path(table, TableLog(root.store, table).open().version)
    kept = bytes(root.store.get(path))
    root.store.put(f"kept/{table}", kept)
    root.store.delete(path)
    root.store.put(path, kept[: len(kept) // 2])


def _put_back(root: QueueRoot, table: str) -> None:
    """As from a backup."""
    newest = max((Path(root.uri) / table / "_delta_log").glob("*.json"))
    newest.write_bytes(root.store.get(f"kept/{table}"))


def _unknown_feature(root: QueueRoot, table: str) -> None:
    version = TableLog(root.store, table).open().version + 1
    needs = encode([CommitInfo(engine="other"), Protocol(3, 7, ("anew",), ("anew",))])
    root.store.put_new(commit_path(table, version), needs)


def _repaired(root: QueueRoot, table: str) -> None:
    repair_table(root, table, TABLES[table], execute=True)


DAMAGES = {
    "a torn commit": Damage(_torn, _put_back, "cannot be read"),
    "an unknown feature": Damage(_unknown_feature, _repaired, "another engine switched on"),
}
each_damage = pytest.mark.parametrize("how", DAMAGES)


@contextmanager
def service(module: str, root: QueueRoot, *args: str) -> Iterator[list[dict[str, Any]]]:
    """A process of a service; its events as they come."""
    command = [sys.executable, "-m", module, "--root", root.uri, "--port", "0", "--node", "n"]
    out = Path(root.uri).with_name(f"{module}.out")
    with out.open("wb") as written:
        process = subprocess.Popen(
            [*command, "--die-with-parent", str(os.getpid()), *args],
            stdout=written,
            stderr=subprocess.DEVNULL,
            cwd=Path(__file__).parents[3],
            env=os.environ | environ("quick_looks"),
        )
    events: list[dict[str, Any]] = []

    class Events(list[dict[str, Any]]):
        def __len__(self) -> int:
            assert process.poll() is None, out.read_text()
            self[:] = [json.loads(line) for line in out.read_text().splitlines()]
            return super().__len__()

    events = Events()
    try:
        yield events
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    made = QueueRoot.open(str(tmp_path / "queue"))
    TopicStore(made).create("orders", partitions=1)
    return made


def event(events: list[dict[str, Any]], number: int) -> dict[str, Any]:
    wait_for(lambda: len(events) > number, f"event {number}", 150.0)
    return events[number]


@each_damage
@pytest.mark.parametrize("table", ["topics", "log"])
def test_a_consumer_service_node_waits_and_serves_when_it_is_mended(
    root: QueueRoot, zookeeper: EmbeddedZooKeeper, table: str, how: str
) -> None:
    damage = DAMAGES[how]
    damage.do(root, table)
    with service("consumer_service", root, "--zookeeper", zookeeper.hosts) as events:
        waits = event(events, 0)
        assert waits["event"] == "waits"
        _says_what_is_wrong(waits["url"], table, damage)
        damage.undo(root, table)
        assert event(events, 1)["event"] == "ready"
        assert events[1]["url"] == waits["url"]
        wait_for(
            lambda: httpx2.get(f"{waits['url']}/readyz", timeout=10).status_code == 200, "ready"
        )


@each_damage
def test_an_ingest_node_waits_for_the_topics(root: QueueRoot, how: str) -> None:
    damage = DAMAGES[how]
    damage.do(root, "topics")
    with service("ingest", root) as events:
        waits = event(events, 0)
        _says_what_is_wrong(waits["url"], "topics", damage)
        damage.undo(root, "topics")
        url = event(events, 1)["url"]
        sent = httpx2.post(f"{url}/v1/topics/orders/records", json=_ONE, timeout=30)
        assert sent.status_code == 200, sent.text


def test_a_node_that_waits_speaks_tls_on_its_port(
    root: QueueRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    files = authority.sign("node")
    monkeypatch.setenv("LAKEQUEUE_TLS__CERT", str(files.cert))
    monkeypatch.setenv("LAKEQUEUE_TLS__KEY", str(files.key))
    _torn(root, "topics")
    trusted = ssl.create_default_context(cafile=str(authority.ca))
    with service("ingest", root) as events:
        waits = event(events, 0)
        assert waits["url"].startswith("https://")
        ready = httpx2.get(f"{waits['url']}/readyz", verify=trusted, timeout=10)
        assert ready.status_code == 503
        assert ready.json()["reasons"][0]["detail"].startswith("topics")


_ONE = {"records": [{"value": 1}]}


def _says_what_is_wrong(url: str, table: str, damage: Damage) -> None:
    ready = httpx2.get(f"{url}/readyz", timeout=10)
    assert ready.status_code == 503
    [reason] = ready.json()["reasons"]
    assert reason["detail"].startswith(table)
    assert damage.says in reason["detail"]
    assert httpx2.get(f"{url}/healthz", timeout=10).status_code == 200
    other = httpx2.post(f"{url}/v1/topics/orders/records", json=_ONE, timeout=10)
    assert (other.status_code, other.json()["code"], other.json()["retryable"]) == (
        503,
        "not_ready",
        True,
    )
    assert "Retry-After" in other.headers


@each_damage
@pytest.mark.parametrize("table", ["log", "rejects", "group_offsets", "metrics", "group_history"])
def test_an_ingest_node_takes_records_without_the_tables_that_it_only_reads(
    root: QueueRoot, table: str, how: str
) -> None:
    damage = DAMAGES[how]
    damage.do(root, table)
    with IngestService(Path(root.uri)) as ingest:
        assert ingest.ready["event"] == "ready"
        assert ingest.send([{"value": 1}]).status_code == 200
        ready = ingest.http.get("/readyz").json()
        assert any(w["detail"].startswith(table) for w in ready["warnings"]), ready
        damage.undo(root, table)


@each_damage
@pytest.mark.parametrize("table", ["topics", "log", "rejects"])
def test_the_order_job_waits_and_leads_when_it_is_mended(
    root: QueueRoot,
    tmp_path: Path,
    sessions: MakeSession,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    how: str,
) -> None:
    monkeypatch.setattr("jobs.streaming.leader._DAMAGED_S", 0.05)
    damage = DAMAGES[how]
    damage.do(root, table)
    opened = QueueRoot.open(root.uri, needs=())
    work = OrderJob(opened, OrderSettings(), None)
    options = SourceOptions(opened.uri, tmp_path, "inbox", 1 << 20, 1 << 20, 60.0, 0.0, 1)
    query = PlainQuery(cast(SparkSession, None), options, work.prepare)
    query.start(tmp_path)
    leader = Leader(work, sessions("one"), cast(ShardQuery, query), lambda **_: None, patient=True)
    leader.start()
    try:
        wait_for(lambda: leader.damage, "it says what keeps it from the table")
        assert damage.says in leader.troubles()[0]
        assert leader.error is None
        assert not leader.failed.is_set()
        damage.undo(root, table)
        wait_for(lambda: leader.leading, "it leads")
        assert leader.troubles() == []
    finally:
        leader.stop()
