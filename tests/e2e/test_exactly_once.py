"""A fenced producer, a transform and effects in Delta, while everything is killed in turn."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from history_checker.load import wait_until
from lakequeue.client.admin import Admin
from lakequeue_cli.supervisor.cluster import Cluster
from queue_tables.root import QueueRoot
from tests.support.data.order_truth import judge, log_rows
from tests.support.forking.forked import Forked

HERE = Path(__file__).parents[2]
COUNT = 1000


class Role:
    """A process of `tests.support.runs` that is started again when it is killed."""

    def __init__(self, module: str, *args: str) -> None:
        self._command = [sys.executable, "-m", f"tests.support.runs.{module}", *args]
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return Forked(self._command, cwd=HERE, stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        """SIGKILL, and begin anew."""
        self.end()
        self._process = self._start()

    def end(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait(30)


@contextmanager
def roles(cluster: Cluster, table: str) -> Iterator[dict[str, Role]]:
    """All three, for the time of a block."""
    ingest, consumer = ",".join(cluster.ingest_urls), ",".join(cluster.consumer_urls)
    counter = ("--producer-id", "counter", "--count", str(COUNT), "--topic", "in", "--batch", "4")
    running = {
        "producer": Role("producer_process", "--url", ingest, *counter),
        "transform": Role("transform_process", "--ingest", ingest, "--consumer", consumer),
        "effect": Role("effect_process", "--consumer", consumer, "--table", table),
    }
    try:
        yield running
    finally:
        for role in running.values():
            role.end()


@pytest.mark.faults
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_each_record_and_each_effect_is_there_once_whatever_is_killed(
    cluster: Cluster, admin: Admin, tmp_path: Path
) -> None:
    cluster.wait_ready()
    for topic in ("in", "out"):
        admin.create_topic(topic, partitions=2)
    table = str(tmp_path / "result")
    deltalake.DeltaTable.create(table, pa.schema([pa.field("n", pa.int64())]))
    root = QueueRoot.open(cluster.root)

    def values(topic: str) -> list[int]:
        return sorted(int(r["value"]) for r in log_rows(root) if r["topic"] == topic)

    def written() -> list[int]:
        numbers: list[int] = deltalake.DeltaTable(table).to_pyarrow_table()["n"].to_pylist()
        return sorted(numbers)

    def grown() -> Callable[[], bool]:
        start = len(values("out")), len(written())

        def moved() -> bool:
            now = len(values("out")), len(written())
            return (now[0] > start[0] and now[1] > start[1]) or len(values("in")) == COUNT

        return moved

    with roles(cluster, table) as running:
        for name in ("producer", "transform", "effect"):
            wait_until(f"all move, before {name} is killed", grown(), 90)
            running[name].kill()
        for name in ("ingest-1", "consumer-1"):
            wait_until(f"all move, before {name} is killed", grown(), 90)
            cluster.kill(name)
            cluster.wait_ready()
        leader = cluster.leader()
        assert leader is not None
        wait_until("all move, before the order leader is killed", grown(), 90)
        cluster.kill(leader)
        cluster.wait_leader(other_than=leader)
        wait_until("all is sent", lambda: len(values("in")) == COUNT, 120)
        wait_until("all is transformed", lambda: len(values("out")) >= COUNT // 2, 90)
        wait_until("all is written", lambda: len(written()) >= COUNT, 90)

    assert values("in") == list(range(COUNT))
    assert values("out") == [n * n for n in range(0, COUNT, 2)]
    assert written() == list(range(COUNT))
    judge(root, complete=False)
