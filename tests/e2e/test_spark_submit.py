"""Both jobs as `spark-submit` starts them, beside services that are single processes."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from coordination.embedded import EmbeddedZooKeeper
from history_checker.load import wait_until
from history_checker.truth import final_read
from lakequeue import Consumer, Producer
from lakequeue.client.admin import Admin
from queue_tables.groups.state import read_group_offsets
from queue_tables.root import QueueRoot

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.timeout(400),
]
PROJECT = Path(__file__).parents[2]


def environ(folder: Path) -> dict[str, str]:
    """As in a shell: nothing that would help to find the project's packages."""
    kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "SPARK_HOME"}}
    return kept | {"PYSPARK_PYTHON": sys.executable, "LAKEQUEUE_WORK_DIR": str(folder / "work")}


@contextmanager
def process(folder: Path, name: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run it with its output in `folder`; it is ended by SIGTERM."""
    with (folder / f"{name}.out").open("wb") as out, (folder / f"{name}.err").open("wb") as err:
        child = subprocess.Popen(command, cwd=PROJECT, env=environ(folder), stdout=out, stderr=err)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
        try:
            child.wait(60)
        finally:
            child.kill()


def submit(job: str, *args: str) -> tuple[str, ...]:
    program = Path(sys.executable).parent / "spark-submit"
    return (str(program), "--master", "local[1]", f"jobs/{job}.py", *args)


def url_of(folder: Path, name: str) -> str:
    """Where a service says it is, once it is ready."""

    def ready() -> bool:
        return b'"ready"' in (folder / f"{name}.out").read_bytes()

    wait_until(f"{name} is ready", ready, 90)
    events = map(json.loads, (folder / f"{name}.out").read_text().splitlines())
    return str(next(event["url"] for event in events if event["event"] == "ready"))


def ended(pid: int) -> bool:
    """Whether the process is gone within 30 s."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 30)[0])
    finally:
        os.close(descriptor)


def test_a_queue_of_single_processes(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path / "root"), create=True)
    server = EmbeddedZooKeeper(tmp_path / "zookeeper")
    at = ("--root", root.uri, "--zookeeper", server.hosts)
    with ExitStack() as stack:
        stack.callback(server.stop)
        server.start()
        for name in ("ingest", "consumer_service"):
            command = (sys.executable, "-m", name, *at, "--port", "0")
            stack.enter_context(process(tmp_path, name, *command))
        ingest, consumers = url_of(tmp_path, "ingest"), url_of(tmp_path, "consumer_service")
        with Admin(ingest, consumers, timeout_s=30) as admin:
            admin.create_topic("t", partitions=1)
        with Producer(ingest) as producer:
            producer.send("t", "before")
        once = subprocess.run(
            [
                sys.executable,
                "-m",
                "jobs.order",
                *at,
                "--node",
                "once",
                "--available-now",
                "--json",
            ],
            cwd=PROJECT,
            env=environ(tmp_path),
            capture_output=True,
            timeout=200,
            check=False,
        )
        assert once.returncode == 0, once.stderr.decode()
        report = json.loads(once.stdout)
        counted = {"batches": 1, "records": 1, "duplicates": 0, "refused": 0}
        assert report == {"job": "jobs.order", "dry_run": False, "order": counted}
        assert [event.offset for event in final_read(root.uri, "t")] == [0]

        order = stack.enter_context(process(tmp_path, "order", *submit("order", *at)))
        folds = stack.enter_context(process(tmp_path, "offsets", *submit("offsets", *at)))
        with Producer(ingest, acks="ordered", delivery_timeout_s=200) as producer:
            assert producer.send("t", "after").result().offset == 1
        with Consumer("t", group="g", urls=consumers) as consumer:
            values: list[object] = []
            while len(values) < 2:
                for message in consumer.poll(10):
                    values.append(message.value)
                    message.ack()
            consumer.commit(30)
        assert values == ["before", "after"]

        def folded() -> list[int | None]:
            states, _ = read_group_offsets(root)
            return [state.committed_offset for key, state in states.items() if key.group == "g"]

        wait_until("the position is folded", lambda: folded() == [2], 200)
        # The signal goes to Spark's launcher, which ends at once: nothing may stay behind it.
        work = tmp_path / "work"
        pids = [json.loads(file.read_bytes())["pid"] for file in work.glob("driver-*.json")]
        assert len(pids) == 3
        for job in (order, folds):
            job.send_signal(signal.SIGTERM)
            job.wait(60)
        assert all(map(ended, pids))
