"""An ingest node, a consumer-service node, and the order job in a thread of the test: no Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from coordination.zookeeper.notifications import Notifier
from lakequeue import Admin, Producer
from queue_tables.log.marks import LogMarks
from queue_tables.schema.marks import consumed_mark
from tests.support.data.order_truth import log_rows
from tests.support.services.consumer_node import NodeProcess, Queue
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import ordering

HERE = Path(__file__).parents[3]
COUNT = 60


@dataclass
class Cluster:
    """Topics `in` (0 … COUNT - 1, dealt out over two partitions) and `out`."""

    queue: Queue
    ingest: IngestService
    node: NodeProcess
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def ingest_url(self) -> str:
        """Where to produce."""
        return str(self.ingest.ready["url"])

    def produce(self, start: int, end: int) -> None:
        """Send numbers to `in`, and wait until they are ordered."""
        with Producer(self.ingest_url, acks="ordered") as producer:
            for n in range(start, end):
                producer.send("in", n, partition=n % 2)

    def values(self, topic: str) -> list[int]:
        """What the log holds of a topic."""
        return [int(r["value"]) for r in log_rows(self.queue.root) if r["topic"] == topic]

    def consumed(self, group: str) -> int:
        """Records of `in` that transforms of a group have consumed, over both partitions."""
        marks = LogMarks(self.queue.root).read()
        with Admin(self.ingest_url) as admin:
            topic_id = admin.topic("in").topic_id
        return sum(marks.get(consumed_mark(group, topic_id, p, 0), 0) for p in range(2))

    def committed(self, group: str) -> int:
        """Records of `in` that a group has committed, over both partitions."""
        with Admin(self.ingest_url, self.node.url) as admin:
            return sum(p.committed_offset or 0 for p in admin.group(group).partitions)

    def start(self, module: str, *args: str) -> subprocess.Popen[str]:
        """Start a process of `tests.support.runs`, or of another package that is named whole."""
        whole = module if "." in module else f"tests.support.runs.{module}"
        process = subprocess.Popen(
            [sys.executable, "-m", whole, *args],
            cwd=HERE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def end_processes(self) -> None:
        """Kill what was started."""
        for process in self.processes:
            process.kill()
            process.wait(30)
            if process.stdout is not None:
                process.stdout.close()
        self.processes.clear()


@pytest.fixture
def cluster(own_queue: Queue, start_node: Callable[..., NodeProcess]) -> Iterator[Cluster]:
    """A cluster with COUNT records in `in`."""
    with ExitStack() as stack:
        ingest = stack.enter_context(
            IngestService(Path(own_queue.root.uri), "--zookeeper", own_queue.zookeeper.hosts)
        )
        ingest.create("in", partitions=2)
        ingest.create("out", partitions=2)
        notifier = Notifier(own_queue.session, "log").start()
        stack.callback(notifier.close)
        stack.enter_context(ordering(own_queue.root, notifier=notifier))
        running = Cluster(own_queue, ingest, start_node(own_queue))
        stack.callback(running.end_processes)
        running.produce(0, COUNT)
        yield running
