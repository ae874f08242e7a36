"""Maintenance, erasure, replicas and SQL on an S3 server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakequeue.duck
from jobs import compaction, retention
from lakequeue.clock import wall_micros
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.maintained import DAY_MS, read, two_topics
from tests.support.data.replicas import first_life, is_same, second_life
from tests.support.data.wall import HOUR, Wall
from tests.support.runs.erase_process import run_erase
from tests.support.runs.maintenance_process import run_metrics
from tests.support.runs.mirror_process import run_job, run_mirror
from tests.support.services.s3 import BUCKET, S3Server

BATCHES = 4


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as running:
        yield running


@pytest.fixture
def root(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> QueueRoot:
    for name, value in server.environ.items():
        monkeypatch.setenv(name, value)
    return QueueRoot.open(f"s3://{BUCKET}/{uuid.uuid4().hex}")


def test_compaction_retention_erasure_and_sql(
    root: QueueRoot, capsys: pytest.CaptureFixture[str]
) -> None:
    then = wall_micros() - 5 * HOUR
    first, second = two_topics(root, Wall(then - then % HOUR, 1_000_000), BATCHES)

    def run(main: Any, *args: str) -> dict[str, Any]:
        assert main(["--root", root.uri, "--json", *args]) == 0
        said: dict[str, Any] = json.loads(capsys.readouterr().out)
        return said

    done = run(compaction.main)["log"]
    assert (done["files_before"], done["files_after"]) == (BATCHES, 2)
    assert read(LogReader(root), first, 1) == [b"%d-1" % n for n in range(BATCHES)]
    with lakequeue.duck.connect(root.uri) as sql:
        rows = sql.sql("SELECT topic, count(*) FROM records GROUP BY 1 ORDER BY 1").fetchall()
        assert rows == [("orders", 2 * BATCHES), ("visits", 2 * BATCHES)]
    run_erase(root, "visits", "partition = 1", delete_now=True)
    assert read(LogReader(root), second, 1) == [None] * BATCHES
    TopicStore(root).alter("orders", retention_ms=DAY_MS // 24)
    run(retention.main)
    left = load_snapshot(root.store, "log").files
    assert len(left) == 1, "the file of orders is gone"


def test_a_replica_on_s3_of_a_queue_on_disk_and_back(root: QueueRoot, tmp_path: Path) -> None:
    source = QueueRoot.open(str(tmp_path / "queue"))
    first_life(source)
    there, back = f"{root.uri}-replica", str(tmp_path / "back")
    run_mirror(source, there)
    second_life(source)
    run_mirror(source, there, grace_hours=0)
    is_same(QueueRoot.existing(there, replica_too=True), source)
    run_mirror(QueueRoot.existing(there, replica_too=True), back)
    is_same(QueueRoot.existing(back, replica_too=True), source)
    assert run_job(source.uri, "--to", there, "--promote")["promoted"]
    promoted = QueueRoot.open(there, create=False)
    assert run_metrics(promoted, wall_micros() + 2 * HOUR)["rows"] > 0
