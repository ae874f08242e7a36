"""One queue with records, groups and dead letters, and a console as a process: no Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from coordination.embedded import EmbeddedZooKeeper
from coordination.zookeeper.notifications import Notifier
from coordination.zookeeper.session import Session
from lakequeue import Admin, Consumer, Producer
from tests.support.data.log_builder import LogBuilder, fresh_root
from tests.support.forking.forked import Forked
from tests.support.services.consumer_node import NodeProcess, Queue
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import ordering
from tests.support.services.zookeeper import FAST, wait_for

HERE = Path(__file__).parents[3]


class ConsoleProcess:
    """`python -m console` on a free port."""

    def __init__(self, root: str, ingest: str, consumer: str, *options: str, **env: str) -> None:
        kept = {name: v for name, v in os.environ.items() if not name.startswith("LAKEQUEUE_")}
        self.process = Forked(
            [
                *(sys.executable, "-m", "console", "--root", root, "--port", "0"),
                *("--ingest-url", ingest, "--consumer-url", consumer),
                *("--die-with-parent", str(os.getpid()), *options),
            ],
            cwd=HERE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=kept | env,
        )
        assert self.process.stdout is not None
        event = json.loads(self.process.stdout.readline() or "{}")
        if event.get("event") != "ready":
            raise RuntimeError(f"the console did not start: {event}")
        self.url = str(event["url"])

    def stop(self) -> None:
        """SIGTERM, and wait."""
        self.process.terminate()
        self.process.wait(30)
        if self.process.stdout is not None:
            self.process.stdout.close()


@dataclass
class Running:
    """What a test may use; it leaves what others look at as it was."""

    queue: Queue
    ingest: IngestService
    node: NodeProcess
    console: ConsoleProcess

    @property
    def ingest_url(self) -> str:
        """Where to send."""
        return str(self.ingest.ready["url"])

    def admin(self) -> Admin:
        """The SDK's own client."""
        return Admin(self.ingest_url, self.node.url)


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    """Topics `orders` (with all kinds of records) and `orders.dlq` (with dead letters)."""
    with ExitStack() as stack:
        zookeeper = EmbeddedZooKeeper(folder / "zookeeper")
        zookeeper.start()
        stack.callback(zookeeper.stop)
        root = fresh_root(str(folder))
        session = Session(zookeeper.hosts, root.queue_id, "console-tests", FAST)
        session.start()
        stack.callback(session.stop)
        notifier = Notifier(session, "log").start()
        stack.callback(notifier.close)
        queue = Queue(root, zookeeper, session, LogBuilder(root, notifier))
        ingest = stack.enter_context(IngestService(Path(root.uri), "--zookeeper", zookeeper.hosts))
        stack.enter_context(ordering(root, notifier=notifier))
        node = NodeProcess(queue, "consumer-1", LAKEQUEUE_CONSUMER__WEBHOOK_ALLOW_PRIVATE="true")
        stack.callback(node.terminate)
        fill(str(ingest.ready["url"]), node.url)
        console = ConsoleProcess(root.uri, str(ingest.ready["url"]), node.url)
        stack.callback(console.stop)
        yield Running(queue, ingest, node, console)


def fill(ingest: str, consumer: str) -> None:
    """Records of every kind; two groups; dead letters of two reasons."""
    with Admin(ingest, consumer) as admin:
        admin.create_topic("orders", partitions=2)
        admin.create_topic("payments", partitions=1, max_attempts=1)
        admin.create_topic("payments.dlq", partitions=1)
    with Producer(ingest, acks="ordered") as producer:
        for number in range(20):
            value = {"order": number, "card": {"number": f"4111-{number}"}, "city": "Łódź"}
            headers = [("trace", b"not-for-all"), ("raw", b"\x00\xff"), ("none", None)]
            producer.send("orders", value, key=f"key-{number % 5}", partition=0, headers=headers)
        producer.send("orders", "<script>alert(1)</script> [/x] \x1b[31m", key="evil", partition=1)
        producer.send("orders", b"\x00\x01\xfe\xff" * 8, key=b"\xff\x00", partition=1)
        producer.send("orders", None, key="gone", partition=1)
        for number in range(6):
            producer.send("payments", {"payment": number}, key=f"p{number}")
    with Consumer("orders", group="billing", urls=consumer) as consumer_of:
        for message in consumer_of.poll(10, max_records=5):
            message.ack()
    die("payments", "shop", ingest, consumer, 4)


def die(topic: str, group: str, ingest: str, consumer: str, count: int) -> None:
    """Give records back, and stay until they are dead letters: only a partition with a member has
    a node that sends them on."""
    with Consumer(topic, group=group, mode="queue", urls=consumer, from_="earliest") as worker:
        seen = 0
        while seen < count:
            for message in worker.poll(10, max_records=count - seen):
                message.nack()
                seen += 1
        with Admin(ingest, consumer) as admin:
            wait_for(partial(_are_dead, admin, topic, count), "they are dead", every_s=0.3)


def _are_dead(admin: Admin, topic: str, count: int) -> bool:
    return sum(line.count for line in admin.dead_letters(f"{topic}.dlq")) >= count
