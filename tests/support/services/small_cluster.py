"""An ingest node, a consumer-service node, and the order job in a thread of the test: no Spark.

Fixtures: `cluster` (topics of the test's own, at nodes that the whole run shares: do not stop
them), `own_cluster` (a queue and nodes of the test's own).
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pytest

from coordination.embedded import EmbeddedZooKeeper
from coordination.zookeeper.notifications import Notifier
from lakequeue import Admin, Producer
from queue_tables.log.marks import LogMarks
from queue_tables.schema.marks import consumed_mark
from tests.support.data.order_truth import log_rows
from tests.support.forking.forked import Forked
from tests.support.services.consumer_node import NodeProcess, Queue, open_queue
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import ordering

HERE = Path(__file__).parents[3]
COUNT = 60
_NUMBERS = itertools.count()


@dataclass
class Cluster:
    """Topics `in` (0 … COUNT - 1, dealt out over two partitions) and `out`."""

    queue: Queue
    ingest: IngestService
    start_node: Callable[[], NodeProcess]
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    group: str = field(default_factory=lambda: f"group-{next(_NUMBERS)}")
    """For a group that no other test has: its members may be killed."""

    @cached_property
    def node(self) -> NodeProcess:
        """The consumer-service node, started when a test first asks for it."""
        return self.start_node()

    @property
    def ingest_url(self) -> str:
        """Where to produce."""
        return str(self.ingest.ready["url"])

    def produce(self, start: int, end: int) -> None:
        """Send numbers to `in`, and wait until they are ordered."""
        with Producer(self.ingest_url, acks="ordered") as producer:
            for n in range(start, end):
                producer.send("in", n, partition=n % 2)

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """What the log holds of a topic, and not of one of that name that is gone."""
        with Admin(self.ingest_url) as admin:
            topic_id = admin.topic(topic).topic_id
        return [row for row in log_rows(self.queue.root) if row["topic_id"] == topic_id]

    def values(self, topic: str) -> list[int]:
        """The values of its rows."""
        return [int(row["value"]) for row in self.rows(topic)]

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
        process = Forked(
            [sys.executable, "-m", whole, *args],
            cwd=HERE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process

    def delete_topics(self) -> None:
        """All there are: the next test that shares the nodes has topics of its own."""
        with Admin(self.ingest_url) as admin:
            for topic in admin.topics():
                admin.delete_topic(topic.topic)

    def end_processes(self) -> None:
        """Kill what was started."""
        for process in self.processes:
            process.kill()
            process.wait(30)
            if process.stdout is not None:
                process.stdout.close()
        self.processes.clear()


@pytest.fixture(scope="session")
def shared_cluster(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[Cluster]:
    """Nodes for the whole run, with no topic yet."""
    for queue in open_queue(tmp_path_factory.mktemp("cluster"), zookeeper):
        with ExitStack() as stack:
            running = _start(queue, partial(NodeProcess, queue, "shared"), stack)
            stack.callback(running.node.kill)
            yield running


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """A cluster with COUNT records in `in`; its topics are deleted at the end."""
    shared = shared_cluster
    running = _filled(Cluster(shared.queue, shared.ingest, lambda: shared.node))
    yield running
    running.end_processes()
    running.delete_topics()


@pytest.fixture
def own_cluster(own_queue: Queue, start_node: Callable[..., NodeProcess]) -> Iterator[Cluster]:
    """The same in a queue of this test's own."""
    with ExitStack() as stack:
        running = _filled(_start(own_queue, partial(start_node, own_queue), stack))
        stack.callback(running.end_processes)
        yield running


def _start(queue: Queue, start_node: Callable[[], NodeProcess], stack: ExitStack) -> Cluster:
    ingest = stack.enter_context(
        IngestService(Path(queue.root.uri), "--zookeeper", queue.zookeeper.hosts)
    )
    notifier = Notifier(queue.session, "log").start()
    stack.callback(notifier.close)
    stack.enter_context(ordering(queue.root, notifier=notifier))
    return Cluster(queue, ingest, start_node)


def _filled(cluster: Cluster) -> Cluster:
    for topic in ("in", "out"):
        cluster.ingest.create(topic, partitions=2)
    cluster.produce(0, COUNT)
    return cluster
