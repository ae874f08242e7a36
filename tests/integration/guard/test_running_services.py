"""Statements that land while services run: they go on, say so in `/readyz`, and start after it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx2
import pytest

from coordination.embedded import EmbeddedZooKeeper
from jobs.streaming.driver_metrics import DriverMetrics
from lakequeue.settings import Settings
from queue_tables.delta.actions import commit_path
from queue_tables.delta.tail import commit_versions
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import TABLES
from queue_tables.upkeep.health import table_paths
from queue_tables.upkeep.repair import repair_table
from tests.support.data.log_builder import LogBuilder
from tests.support.faults.foreign import CALLS, unguarded
from tests.support.faults.looks import SOON_S
from tests.support.faults.patching import environ
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
    open_queue,
    start_node,
)
from tests.support.services.ingest_service import IngestService
from tests.support.services.zookeeper import MakeSession, wait_for

__all__ = ["start_node"]

pytestmark = [pytest.mark.zookeeper, pytest.mark.timeout(300)]

QUICK = environ("quick_looks")
STATEMENTS = {
    "log": "delta-rs delete",
    "topics": "delta-rs append",
    "rejects": "delta-rs properties",
    "group_offsets": "delta-rs overwrite",
    "metrics": "delta-rs properties",
    "group_history": "delta-rs properties",
}
"""Table → what somebody does to it who has taken the guard off."""


def warned(url: str) -> set[str]:
    """The tables that `/readyz` warns of, of a service that is ready."""
    answer = httpx2.get(f"{url}/readyz", timeout=10)
    assert answer.status_code == 200, answer.text
    warnings = answer.json()["warnings"]
    assert all("lakequeue repair" in w["detail"] for w in warnings), warnings
    return {w["detail"].partition(":")[0] for w in warnings}


def _warns(url: str, tables: set[str]) -> bool:
    return warned(url) == tables


def sent(ingest: IngestService, topic: str) -> None:
    """A record goes in; who orders is the test itself."""
    assert ingest.send([{"value": "taken"}], topic=topic).status_code == 200


def test_services_go_on_and_start_after_every_statement(
    tmp_path: Path,
    own_zookeeper: EmbeddedZooKeeper,
    start_node: Callable[..., NodeProcess],
    sessions: MakeSession,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("queue_tables.upkeep.health._FRESH_S", SOON_S)
    [queue] = list(_opened(tmp_path, own_zookeeper))
    root = queue.root
    topic = queue.log.topic("orders")
    queue.log.append(topic, ["0", "1", "2"])
    node = start_node(queue, "running", **QUICK)
    watching = DriverMetrics("driver", sessions("driver"), root, Settings(root=root.uri))
    with IngestService(Path(root.uri), **QUICK) as ingest, HttpMember(node.url, topic) as member:
        records = member.poll_until(3)
        assert warned(node.url) == set()
        assert watching.warnings() == []
        done: set[str] = set()
        for number, (table, call) in enumerate(STATEMENTS.items()):
            CALLS[call](unguarded(root, table))
            done.add(table)
            for url in (node.url, str(ingest.http.base_url).rstrip("/")):
                wait_for(partial(_warns, url, done), f"{url} warns of {done}")
            wait_for(
                lambda: {w.partition(":")[0] for w in watching.warnings()} == done,
                "the driver warns",
            )
            # All goes on: what was delivered is acked, what is sent is taken, what is new comes.
            assert member.ack(records).status_code == 200
            LogBuilder(root).append(topic, [f"new-{number}"])
            records = member.poll_until(1)
            assert [r["value"] for r in records] == [f"new-{number}"]
            sent(ingest, "orders")
        assert member.ack(records).status_code == 200

    doctor = subprocess.run(
        [sys.executable, "-m", "lakequeue_cli.app", "doctor", "--root", root.uri, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    said = json.dumps(json.loads(doctor.stdout))
    for table in STATEMENTS:
        assert f"{table}: version" in said, table
    assert "lakequeue repair" in said

    # As after a stop of everything.
    node.kill()
    again = start_node(queue, "again", **QUICK)
    with (
        IngestService(Path(root.uri), node="n2", **QUICK) as ingest,
        HttpMember(again.url, topic) as member,
    ):
        assert warned(again.url) == set(STATEMENTS)
        LogBuilder(root).append(topic, ["last"])
        assert [r["value"] for r in member.poll_until(1)] == ["last"]
        sent(ingest, "orders")
        for path, declared in table_paths(root).items():
            assert repair_table(root, path, declared, execute=True).lost == []
        wait_for(lambda: warned(again.url) == set(), "nothing is wrong any more")
    assert QueueRoot.open(root.uri).damaged == {}


def test_a_torn_commit_of_a_journal_stops_no_group_and_is_named(
    tmp_path: Path, own_zookeeper: EmbeddedZooKeeper, start_node: Callable[..., NodeProcess]
) -> None:
    """While its node runs, and after a restart: what was acked does not come again."""
    [queue] = list(_opened(tmp_path, own_zookeeper))
    root, store = queue.root, queue.root.store
    topic = queue.log.topic("orders")
    queue.log.append(topic, ["0", "1", "2"])
    node = start_node(queue, "node", **QUICK)
    with HttpMember(node.url, topic) as member:
        assert member.ack(member.poll_until(3)).status_code == 200
        [shard] = root.shards("journal")
        path = f"journal/{shard}"
        newest = max(commit_versions(store, path))
        # The newest commit is torn, and one stands where the node's next would go.
        acked = commit_path(path, newest)
        kept = bytes(store.get(acked))
        store.delete(acked)
        store.put(acked, kept[: len(kept) // 2])
        store.put_new(commit_path(path, newest + 1), b"")

        LogBuilder(root).append(topic, ["3"])
        got: list[str] = []

        def acks_again() -> bool:
            # The lease is taken anew, under a shard that can be written to.
            records = member.poll_until(1)
            got.extend(r["value"] for r in records)
            return member.ack(records).status_code == 200

        wait_for(acks_again, "an ack is taken", 60.0)
        assert set(got) == {"3"}
        wait_for(partial(_warns, node.url, {path}), "it is named")

    node.kill()
    again = start_node(queue, "node", **QUICK)
    with HttpMember(again.url, topic) as member:
        LogBuilder(root).append(topic, ["4"])
        assert [r["value"] for r in member.poll_until(1)] == ["4"]
        wait_for(partial(_warns, again.url, {path}), "it is named after a restart")
        assert repair_table(root, path, TABLES["journal"], execute=True).lost == []
        wait_for(partial(_warns, again.url, set()), "nothing is wrong any more")


def _opened(folder: Path, server: EmbeddedZooKeeper) -> list[Queue]:
    return [next(open_queue(folder / "queue", server))]
