"""Apache Kafka: to a Kafka consumer, and by Spark Structured Streaming into a Delta table."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

from bench.peers.clients.load import PARTITIONS
from bench.peers.processes import Server
from bench.peers.systems.system import Speaks, System
from lakequeue.errors import MissingDependency
from tests.support.spark.kafka import Broker, jars, kafka_broker
from tools.debian import NotAvailable

_JAVA = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
"""As Kafka's own start script has them."""


class Kafka(System):
    """One node that is broker and controller."""

    name: ClassVar = "kafka"
    title: ClassVar = "Apache Kafka → Kafka consumer"
    promise: ClassVar = "in the page cache of one broker; fsync is left to the operating system"
    settings: ClassVar = (
        "KRaft, one node, defaults, `group.initial.rebalance.delay.ms=0`; heap and "
        "collector of Kafka's start script; `acks=all`, idempotent, `linger.ms=1`; a topic of 8 "
        "partitions; one consumer, commits every second (draining: "
        "`queued.min.messages=1000000`, `fetch.queue.backoff.ms=10`); confluent-kafka"
    )
    topic_settings: ClassVar[dict[str, str]] = {}

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._running = ExitStack()
        self._broker = Broker("", 0)

    def start(self) -> None:
        """Format the storage and start the broker."""
        try:
            broker = kafka_broker(self.folder, PARTITIONS, _JAVA)
            self._broker = self._running.enter_context(broker)
        except MissingDependency as problem:
            raise NotAvailable(str(problem)) from problem

    def stop(self) -> None:
        """End the broker."""
        self._running.close()

    def pids(self) -> list[int]:
        """The broker's."""
        return [self._broker.pid]

    def _speaks(self, topic: str) -> Speaks:
        at = {
            "topic": topic,
            "servers": self._broker.address,
            "partitions": PARTITIONS,
            "settings": self.topic_settings,
        }
        return Speaks("kafka", at)

    def sender(self, topic: str = "bench") -> Speaks:
        """A producer."""
        return self._speaks(topic)

    def receivers(self) -> dict[str, Speaks]:
        """A consumer."""
        return {"consumer": self._speaks("bench")}

    def drainer(self, topic: str) -> Speaks | None:
        """Another consumer."""
        return self._speaks(topic)

    @classmethod
    def version(cls) -> str:
        """Of the broker's jar."""
        return next(jar.version for jar in jars("broker") if jar.name == "kafka_2.13")


class KafkaFsync(Kafka):
    """The same, and each append is flushed."""

    name: ClassVar = "kafka-fsync"
    title: ClassVar = "Apache Kafka with `flush.messages=1`"
    promise: ClassVar = "fsynced by the one broker before the answer"
    settings: ClassVar = "as of Kafka alone, and the topic has `flush.messages=1`"
    topic_settings: ClassVar = {"flush.messages": "1"}

    def drainer(self, topic: str) -> Speaks | None:
        """Reading is as without flushes."""
        return None


class KafkaToDelta(Kafka):
    """The same broker, and a Spark job that appends to a Delta table."""

    name: ClassVar = "kafka-delta"
    title: ClassVar = "Apache Kafka → Spark Structured Streaming → Delta"
    promise: ClassVar = "in the page cache of one broker; Spark fsyncs neither files nor commits"
    settings: ClassVar = (
        "broker and producer as of Kafka alone; Spark 4.2 and Delta 4.4, `local[2]`, trigger 0 s; "
        "`fetch.max.wait.ms=10`; one shuffle partition, one file a batch, one partition of Delta's "
        "snapshot, statistics of one column, a checkpoint each 200 commits; adaptive execution, "
        "batches without data and checksums of checkpoints off; a local file system without forks; "
        "2 GiB of heap, serial collector, quick compiler alone"
    )
    has_spark: ClassVar = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._job: Server | None = None

    def start(self) -> None:
        """Start the broker, then the job."""
        super().start()
        command = [sys.executable, "-m", "bench.peers.systems.kafka_to_delta"]
        command += ["--servers", self._broker.address, "--folder", str(self.folder)]
        self._job = Server(command, self.folder / "job.log")
        self._running.callback(self._job.stop)
        self._job.wait_for(self._job.says("streaming"), 120)

    def pids(self) -> list[int]:
        """Of both."""
        return super().pids() + ([self._job.process.pid] if self._job is not None else [])

    def receivers(self) -> dict[str, Speaks]:
        """A reader of the table."""
        table = {"table": str(self.folder / "table")}
        return {"sql": Speaks("commits", table, Path(sys.executable))}

    def drainer(self, topic: str) -> Speaks | None:
        """Who reads the table is no consumer."""
        return None
