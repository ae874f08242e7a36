"""Real consumer-service nodes as processes, and members that talk to them over HTTP.

Fixtures: `queue` (a root, its log builder with a notification, at the run's ZooKeeper), `node` (a
process on it), both for the whole run; `own_queue` (a queue of the test's own), `lone_queue` (one
with a ZooKeeper of its own, to be killed), `start_node` (a factory of processes).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import pytest

from coordination.embedded import EmbeddedZooKeeper
from coordination.zookeeper.notifications import Notifier
from coordination.zookeeper.session import Session
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from tests.support.data.log_builder import LogBuilder, fresh_root
from tests.support.faults.stopped import stop
from tests.support.forking.forked import Forked
from tests.support.services.order_thread import folding
from tests.support.services.zookeeper import FAST, wait_for

HERE = Path(__file__).parents[3]
SESSION_TIMEOUT_S = FAST.session_timeout_s
Records = list[dict[str, Any]]


@dataclass
class Queue:
    """A root, whoever orders into its log, and the ensemble."""

    root: QueueRoot
    zookeeper: EmbeddedZooKeeper
    session: Session
    log: LogBuilder


class NodeProcess:
    """`python -m consumer_service` on a free port."""

    def __init__(
        self,
        queue: Queue,
        name: str,
        crash_at: str | None = None,
        port: int = 0,
        **settings: str,
    ) -> None:
        folder = Path(queue.root.uri)
        self.name = name
        self.trace = folder.with_name(f"{folder.name}-{name}.log")
        with self.trace.open("a") as trace:
            self.process = Forked(
                [
                    *(sys.executable, "-m", "consumer_service", "--root", queue.root.uri),
                    *("--zookeeper", queue.zookeeper.hosts, "--port", str(port), "--node", name),
                    *("--log-level", "debug", "--die-with-parent"),
                    *(("--crash-at", crash_at) if crash_at else ()),
                ],
                cwd=HERE,
                stdout=subprocess.PIPE,
                stderr=trace,
                text=True,
                env=os.environ
                | {
                    "LAKEQUEUE_COORDINATION__SESSION_TIMEOUT_S": str(SESSION_TIMEOUT_S),
                    "LAKEQUEUE_COORDINATION__LEASE_MARGIN_S": str(FAST.lease_margin_s),
                    "LAKEQUEUE_CONSUMER__THREADS": "32",
                }
                | settings,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        event = json.loads(line or "{}")
        if event.get("event") != "ready":
            self.end()
            said = self.trace.read_text()[-3_000:]
            raise RuntimeError(f"{name} did not start: {event}; {self.trace} ends with\n{said}")
        self.url = str(event["url"])
        self.shard = str(event["shard"])
        self.worker = int(event["pid"])

    def freeze(self) -> None:
        """SIGSTOP the worker, which stands still then."""
        stop(self.worker)

    def thaw(self) -> None:
        """SIGCONT the worker."""
        os.kill(self.worker, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL all of it."""
        for pid in (self.worker, self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.end()

    def terminate(self) -> None:
        """SIGTERM, and wait for the drain."""
        self.process.terminate()
        self.end()

    def end(self, timeout_s: float = 30.0) -> int:
        """Wait for the end of the process; its exit code."""
        code = self.process.wait(timeout_s)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


@dataclass
class HttpMember:
    """A member of a group, by raw HTTP: what the wire says is what the test sees."""

    url: str
    topic: Topic
    group: str = ""
    """By default named after the topic."""
    options: dict[str, Any] = field(default_factory=dict)
    client: httpx2.Client = field(init=False)
    member_id: str = ""

    def __post_init__(self) -> None:
        self.client = httpx2.Client(base_url=self.url, timeout=60)
        self.group = self.group or group_of(self.topic)

    def __enter__(self) -> Self:
        self.join()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()

    @property
    def path(self) -> str:
        """The path of the member's calls."""
        return f"/v1/groups/{self.group}/members/{self.member_id}"

    def join(self) -> dict[str, Any]:
        """Join; the answer."""
        answer = self.client.post(
            f"/v1/groups/{self.group}/members",
            # Long by default: a slow machine must not expire a member that a test means to live.
            json={"topics": [self.topic.topic], "session_timeout_ms": 120_000, **self.options},
        )
        assert answer.status_code == 201, answer.text
        body: dict[str, Any] = answer.json()
        self.member_id = body["member_id"]
        return body

    def get(
        self, max_records: int = 500, wait_ms: int = 2_000, after: int | None = None
    ) -> httpx2.Response:
        """One poll."""
        params = {"max": max_records, "wait_ms": wait_ms}
        if after is not None:
            params["after"] = after
        return self.client.get(f"{self.path}/records", params=params)

    def poll(self, max_records: int = 500, wait_ms: int = 2_000) -> Records:
        """The records of one poll."""
        answer = self.get(max_records, wait_ms)
        assert answer.status_code == 200, answer.text
        records: Records = answer.json()["records"]
        return records

    def poll_until(self, count: int, max_records: int = 500) -> Records:
        """Poll until `count` records have come."""
        found: Records = []

        def more() -> bool:
            found.extend(self.poll(max_records, 500))
            return len(found) >= count

        wait_for(more, f"{count} records")
        return found

    def post(self, **body: Any) -> httpx2.Response:
        """Send an ack request as it is."""
        return self.client.post(f"{self.path}/acks", json=body)

    def ack(self, records: Records, **options: Any) -> httpx2.Response:
        """Ack these records."""
        return self.post(acks=[r["receipt"] for r in records], **options)

    def owned(self) -> list[int]:
        """Partitions that are delivered to this member now."""
        answer = self.client.post(f"{self.path}/heartbeat")
        assert answer.status_code == 200, answer.text
        return [a["partition"] for a in answer.json()["assignment"] if a["epoch"] is not None]

    def wait_owned(self, *counts: int) -> list[int]:
        """Wait until it owns one of these numbers of partitions."""
        owned: list[int] = []

        def owns() -> bool:
            owned[:] = self.owned()
            return len(owned) in counts

        wait_for(owns, f"owns {counts}")
        return owned

    def leave(self) -> None:
        """Leave the group."""
        assert self.client.delete(self.path).status_code == 204


def group_of(topic: Topic) -> str:
    """The group that members of a test join by default."""
    return f"of-{topic.topic}"


def describe(url: str, group: str) -> dict[int, dict[str, Any]]:
    """The rows of a group's description, by partition."""
    answer = httpx2.get(f"{url}/v1/groups/{group}", timeout=30)
    assert answer.status_code == 200, answer.text
    return {row["partition"]: row for row in answer.json()["partitions"]}


def offsets(records: Records) -> list[int]:
    """Their offsets, as they came."""
    return [record["offset"] for record in records]


def open_queue(folder: Path, server: EmbeddedZooKeeper) -> Iterator[Queue]:
    """A queue in a folder of its own, for as long as the iterator lives."""
    root = fresh_root(str(folder))
    session = Session(server.hosts, root.queue_id, "order", FAST)
    session.start()
    notifier = Notifier(session, "log").start()
    yield Queue(root, server, session, LogBuilder(root, notifier))
    notifier.close()
    session.stop()


@pytest.fixture(scope="session")
def queue(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[Queue]:
    """A queue for the whole run: each test has topics and groups of its own."""
    for opened in open_queue(tmp_path_factory.mktemp("queue"), zookeeper):
        with folding(opened.root):
            yield opened


@pytest.fixture(scope="session")
def node(queue: Queue) -> Iterator[NodeProcess]:
    """A node of `queue` for the whole run: do not stop it, start one for that."""
    shared = NodeProcess(queue, "shared")
    yield shared
    shared.kill()


@pytest.fixture
def own_queue(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[Queue]:
    """A queue of this test's own, at the run's ZooKeeper: queues do not meet there."""
    yield from open_queue(tmp_path, zookeeper)


@pytest.fixture
def lone_queue(tmp_path: Path, own_zookeeper: EmbeddedZooKeeper) -> Iterator[Queue]:
    """A queue at a ZooKeeper of this test's own, which it may kill."""
    yield from open_queue(tmp_path, own_zookeeper)


@pytest.fixture
def start_node() -> Iterator[Callable[..., NodeProcess]]:
    """`start_node(queue, "a", crash_at=…)` → a node that is ready; killed at the end."""
    running: list[NodeProcess] = []

    def start(
        queue: Queue,
        name: str = "a",
        crash_at: str | None = None,
        port: int = 0,
        **settings: str,
    ) -> NodeProcess:
        node = NodeProcess(queue, name, crash_at, port, **settings)
        running.append(node)
        return node

    yield start
    for node in running:
        node.kill()
