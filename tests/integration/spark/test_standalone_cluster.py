"""Both jobs on a Spark cluster: a master and two workers, executors in JVMs of their own.

Everything is read and written by executors (`driver_batch_bytes` 0). What comes out is held against
the same input taken by the driver's own functions, without Spark. On the way one of the two
machines is lost, when it has written files that no commit names.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from coordination.embedded import EmbeddedZooKeeper
from lakequeue.records import Epoch, Offset, Partition, Stamp, TopicId
from queue_tables.fact_rows import to_arrow
from queue_tables.facts import Fact, Kind
from queue_tables.group_state import read_group_offsets
from queue_tables.root import QueueRoot
from queue_tables.schemas import LOG
from queue_tables.shards import ShardWriter
from queue_tables.snapshot import load_snapshot
from queue_tables.topics import TopicStore
from tests.support.fold_process import Folder
from tests.support.order_process import Orderer
from tests.support.order_truth import Inbox, judge, log_rows, reject_rows
from tests.support.patching import environ
from tests.support.standalone_cluster import HOST, StandaloneCluster
from tests.support.watched_writers import WRITERS, pids
from tests.support.zookeeper import wait_for

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.timeout(540),
]
PROJECT = Path(__file__).resolve().parents[3]
BASE = 1_700_000_000_000_000
JOB_S = 240.0
"""Of a job on a busy machine."""
BATCH_BYTES = 20 << 20
GROUPS, ROWS, VALUE_BYTES = 34, 250, 5_000
"""Two batches of some 20 MB: each is read by two tasks and written as two files."""


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    """A queue with records of three shards, some of them copies, and facts of two."""
    root = QueueRoot.open(str(tmp_path / "queue"))
    topic, _ = TopicStore(root).create("orders", partitions=4)
    rng = random.Random(7)
    shards = [Inbox(root, node) for node in "abc"]
    for group in range(GROUPS):
        records = [
            {
                "topic_id": topic.topic_id,
                "partition": rng.randrange(4),
                "key": b"%d" % (group * ROWS + row),
                "value": rng.randbytes(VALUE_BYTES),
                "message_id": f"m{rng.randrange(GROUPS * ROWS)}",
            }
            for row in range(ROWS)
        ]
        shards[group % 3].commit(BASE + group * 1_000, records)
    for node in "cd":
        _facts(root, node)
    return root


def _facts(root: QueueRoot, node: str) -> None:
    shard = ShardWriter.create(root, "journal", node)
    for n in range(1, 31):
        where = (TopicId("t"), Partition(n % 3), 0, Epoch(1), Offset(n * 7))
        fact = Fact(Kind.COMMITTED, f"group-{node}", "orders", *where)
        shard.append(to_arrow([fact]), Stamp(BASE + n))


def by_hand(root: QueueRoot, folder: Path) -> QueueRoot:
    """A copy of the root, with the same done to it by the driver's functions."""
    shutil.copytree(root.uri, folder)
    copy = QueueRoot.open(str(folder))
    Orderer(copy, 1, BATCH_BYTES).drain()
    Folder(copy, 1, BATCH_BYTES).drain()
    return copy


def submit(root: QueueRoot, hosts: str, work: Path, java_home: str, master: str) -> list[Any]:
    """The command of the guide to operations, for a run that ends."""
    settings = {
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
    }
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", master]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--driver-memory", "512m", "jobs/driver.py", "--root", root.uri]
    command += ["--zookeeper", hosts, "--work-dir", str(work), "--available-now"]
    kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "SPARK_HOME"}}
    env = kept | {
        "JAVA_HOME": java_home,
        "PYSPARK_PYTHON": sys.executable,
        "LAKEQUEUE_ORDER__DRIVER_BATCH_BYTES": "0",
        "LAKEQUEUE_ORDER__MAX_BATCH_BYTES": str(BATCH_BYTES),
    }
    return [command, env]


def unnamed(root: QueueRoot) -> set[str]:
    """Files of `log` that no commit names."""
    there = {str(path.relative_to(Path(root.uri) / LOG.name)) for path in _data_files(root)}
    return there - load_snapshot(root.store, LOG.name).files.keys()


def _data_files(root: QueueRoot) -> list[Path]:
    return list((Path(root.uri) / LOG.name).glob("hour=*/*.parquet"))


def sent(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without the time at which they were ordered, which no two runs share."""
    for row in rows:
        for name in ("ordered_at", "rejected_at"):
            row.pop(name, None)
    return rows


def test_a_cluster_makes_the_same_log_though_a_machine_is_lost_in_the_middle(
    root: QueueRoot, zookeeper: EmbeddedZooKeeper, java_home: str, tmp_path: Path
) -> None:
    expected = by_hand(root, tmp_path / "by-hand")
    writers = tmp_path / "writers"
    writers.mkdir()
    (writers / "hold").touch()
    patched = environ("watched_writers", **{WRITERS: str(writers)})
    with StandaloneCluster(tmp_path, java_home, patched) as cluster:
        command, env = submit(root, zookeeper.hosts, tmp_path / "work", java_home, cluster.url)
        with (tmp_path / "driver.log").open("wb") as log:
            driver = subprocess.Popen(command, cwd=PROJECT, env=env, stdout=log, stderr=log)
        try:

            def held() -> set[int]:
                assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-4_000:]
                return pids(writers, "held")

            (victim,) = wait_for(held, "an executor has written a file of the log", JOB_S)
            assert _data_files(root), "it has written"
            cluster.lose_machine_of(victim)
            assert driver.wait(JOB_S) == 0, (tmp_path / "driver.log").read_text()[-4_000:]
        finally:
            with suppress(ProcessLookupError):
                driver.kill()
            driver.wait()
    judge(root)
    assert sent(log_rows(root)) == sent(log_rows(expected))
    assert sent(reject_rows(root)) == sent(reject_rows(expected))
    assert read_group_offsets(root)[0] == read_group_offsets(expected)[0]
    assert victim in pids(writers, "wrote"), "the lost one was a writer"
    assert len(pids(writers, "wrote")) >= 2, "and others wrote"
    assert unnamed(root), "what the lost one wrote is waste, which no commit names"
