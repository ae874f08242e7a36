"""The jobs on a Spark cluster: a master and two workers, executors in JVMs of their own.

Everything is read and written by executors (`driver_batch_bytes` 0). What comes out is held against
the same input taken by the driver's own functions, without Spark. On the way one of the two
machines is lost, when it has written files that no commit names. On what is left of the cluster the
offsets job runs alone, and maintenance.
"""

from __future__ import annotations

import json
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
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Key, Kind
from queue_tables.groups.state import read_group_offsets
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import Inbox, judge, log_rows, reject_rows
from tests.support.faults.patching import environ
from tests.support.faults.sickness import SICK_FILE
from tests.support.faults.watched_writers import WRITERS, pids
from tests.support.runs.fold_process import Folder
from tests.support.runs.order_process import Orderer
from tests.support.services.zookeeper import wait_for
from tests.support.spark.standalone_cluster import HOST, StandaloneCluster

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.timeout(540),
]
PROJECT = Path(__file__).resolve().parents[4]
BASE = 1_700_000_000_000_000
JOB_S = 240.0
"""Of a job on a busy machine."""
BATCH_BYTES = 20 << 20
GROUPS, ROWS, VALUE_BYTES = 34, 250, 5_000
"""Two batches of some 20 MB: each is read by two tasks and written as two files."""
LATER_S = 3 * 3_600.0
"""For maintenance: the hour of the run is closed."""


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


def submission(master: str, job: str, root: QueueRoot, *options: str) -> list[str]:
    """The command of the guide to operations."""
    settings = {
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
    }
    command = [str(Path(sys.executable).parent / "spark-submit"), "--master", master]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    return [*command, "--driver-memory", "512m", f"jobs/{job}.py", "--root", root.uri, *options]


def environment(java_home: str) -> dict[str, str]:
    """Of whoever submits."""
    kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "SPARK_HOME"}}
    return kept | {
        "JAVA_HOME": java_home,
        "PYSPARK_PYTHON": sys.executable,
        "LAKEQUEUE_ORDER__DRIVER_BATCH_BYTES": "0",
        "LAKEQUEUE_ORDER__MAX_BATCH_BYTES": str(BATCH_BYTES),
    }


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
    env = environment(java_home)
    once = ("--zookeeper", zookeeper.hosts, "--work-dir", str(tmp_path / "work"), "--available-now")
    with StandaloneCluster(tmp_path, java_home, patched) as cluster:
        command = submission(cluster.url, "driver", root, *once)
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

        facts_are_folded_alone(root, cluster.url, env, once)
        tables_are_kept(root, cluster.url, env, tmp_path)


def run(command: list[str], env: dict[str, str]) -> str:
    """To its end, which is a good one; its last line."""
    done = subprocess.run(
        command, cwd=PROJECT, env=env, capture_output=True, text=True, check=False, timeout=JOB_S
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
    return done.stdout.splitlines()[-1]


def facts_are_folded_alone(
    root: QueueRoot, master: str, env: dict[str, str], once: tuple[str, ...]
) -> None:
    """By the offsets job without the order job."""
    before, _ = read_group_offsets(root)
    _facts(root, "e")
    run(submission(master, "offsets", root, *once), env)
    after, _ = read_group_offsets(root)
    new = {key: state.committed_offset for key, state in after.items() if key not in before}
    highest = {0: 30, 1: 28, 2: 29}
    assert new == {
        Key("group-e", TopicId("t"), Partition(n)): Offset(7 * at) for n, at in highest.items()
    }
    assert {key: after[key] for key in before} == before


def tables_are_kept(root: QueueRoot, master: str, env: dict[str, str], folder: Path) -> None:
    """Compaction, vacuum and retention; what they may not change reads as before."""
    chart = folder / "later.json"
    chart.write_text(json.dumps({"clock_s": {"": LATER_S}}))
    env = env | environ("sickness", **{SICK_FILE: str(chart)})
    rows, waste = log_rows(root), unnamed(root)
    files = load_snapshot(root.store, LOG.name).files
    assert len(files) > 1
    for path in waste:
        # For longer than the grace: nobody is about to commit it.
        os.utime(Path(root.uri) / LOG.name / path, (0, 0))
    done = run(submission(master, "compaction", root, "--grace-hours", "1", "--json"), env)
    report = json.loads(done)
    assert report["vacuum"]["log"]["files_deleted"] == len(waste), report
    assert not waste & unnamed(root)
    assert len(load_snapshot(root.store, LOG.name).files) == 1, "small files of one topic"
    assert log_rows(root) == rows
    run(submission(master, "retention", root), env)
    assert log_rows(root) == rows, "nothing of it has expired"
