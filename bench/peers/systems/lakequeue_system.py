"""lakequeue, as `lakequeue up` starts it."""

from __future__ import annotations

import sys
import threading
import time
from importlib import metadata
from pathlib import Path
from typing import ClassVar

from bench.peers.clients.load import PARTITIONS
from bench.peers.processes import Failed
from bench.peers.systems.system import DRAINS, Speaks, System
from lakequeue.client.admin import Admin
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions


class Lakequeue(System):
    """One ingest node, one consumer-service node, one driver, ZooKeeper."""

    name: ClassVar = "lakequeue"
    title: ClassVar = "lakequeue"
    promise: ClassVar = "data file and commit are fsynced"
    settings: ClassVar = (
        "defaults of `lakequeue up` and of the SDK; a topic of 8 partitions, a stream group with "
        "one consumer, which acks each record (draining: each poll as one); workers by plain HTTP, "
        "whose polls bring the acks of the ten before"
    )
    has_spark: ClassVar = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._cluster = Cluster(ClusterOptions(root=str(folder / "queue")))

    def start(self) -> None:
        """Start the cluster and make both topics."""
        self._cluster.start()
        self._cluster.wait_ready()
        with Admin(self._cluster.ingest_urls, self._cluster.consumer_urls) as admin:
            for topic in ("bench", "work", *DRAINS):
                admin.create_topic(topic, partitions=PARTITIONS)

    def stop(self) -> None:
        """Drain and end."""
        self._cluster.stop()

    def pids(self) -> list[int]:
        """Of all children."""
        return [child.pid for child in self._cluster.children]

    def _speaks(self, topic: str) -> Speaks:
        at = {
            "topic": topic,
            "ingest": self._cluster.ingest_urls[0],
            "consumer": self._cluster.consumer_urls[0],
        }
        return Speaks("lakequeue", at, Path(sys.executable))

    def sender(self, topic: str = "bench") -> Speaks:
        """A producer."""
        return self._speaks(topic)

    def receivers(self) -> dict[str, Speaks]:
        """A consumer; and a reader of the table `log`."""
        table = {"table": str(self.folder / "queue/log")}
        return {
            "consumer": self._speaks("bench"),
            "sql": Speaks("commits", table, Path(sys.executable)),
        }

    def drainer(self, topic: str) -> Speaks | None:
        """Another consumer."""
        return self._speaks(topic)

    def stands(self, topic: str, count: int, within_s: float) -> None:
        """The order job has numbered them."""
        until, pause = time.monotonic() + within_s, threading.Event()
        with Admin(self._cluster.ingest_urls, self._cluster.consumer_urls) as admin:
            while (found := self._ends(admin, topic)) < count:
                if time.monotonic() > until:
                    raise Failed(f"{found} of {count} records of {topic} are ordered")
                pause.wait(0.1)

    @staticmethod
    def _ends(admin: Admin, topic: str) -> int:
        pages = [admin.browse(topic, partition, max_records=1) for partition in range(PARTITIONS)]
        return sum(page.end_offset for page in pages)

    def worker(self, topic: str) -> Speaks | None:
        """A member of a queue group."""
        return self._speaks(topic)

    @classmethod
    def version(cls) -> str:
        """Of the package."""
        return metadata.version("lakequeue")
