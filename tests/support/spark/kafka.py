"""A real Kafka broker and Spark's Kafka source; kafka_jars.txt names each jar with its hash."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from lakequeue.processes import parent
from lakequeue.processes.jars import Jar, jar_paths
from lakequeue.processes.java import java_command

_START_S = 120.0


class Broker(NamedTuple):
    """One that runs."""

    address: str
    pid: int


def jars(use: Literal["broker", "source"]) -> tuple[Jar, ...]:
    """What the broker consists of, or what `format("kafka")` needs beside Spark."""
    lines = Path(__file__).with_name("kafka_jars.txt").read_text().splitlines()
    named = [line.split() for line in lines if not line.startswith("#")]
    return tuple(Jar(*words[1:]) for words in named if words[0] == use)


def source_jars() -> list[Path]:
    """What `format("kafka")` needs on Spark's class path; fetched once, beside the Delta jars."""
    return jar_paths(jars=jars("source"))


@contextmanager
def kafka_broker(
    folder: Path, partitions: int, heap: Sequence[str] = ("-Xmx512m",)
) -> Iterator[Broker]:
    """A broker that creates topics of so many partitions when they are used."""
    paths = jar_paths(jars=jars("broker"))
    java = [java_command(), *heap, "-cp", ":".join(map(str, paths))]
    address, controller = f"127.0.0.1:{_free_port()}", f"127.0.0.1:{_free_port()}"
    config = folder / "server.properties"
    config.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.voters=1@{controller}\n"
        f"listeners=PLAINTEXT://{address},CONTROLLER://{controller}\n"
        f"advertised.listeners=PLAINTEXT://{address}\n"
        "controller.listener.names=CONTROLLER\n"
        f"log.dirs={folder / 'data'}\nnum.partitions={partitions}\n"
        "offsets.topic.replication.factor=1\ngroup.initial.rebalance.delay.ms=0\n"
    )
    format_it = [*java, "kafka.tools.StorageTool", "format", "-t", "lakequeue-test-clusteQ"]
    subprocess.run([*format_it, "-c", str(config)], check=True, capture_output=True, timeout=60)
    bound = [sys.executable, "-I", parent.__file__, str(os.getpid())]
    with (folder / "broker.log").open("w") as out:
        broker = subprocess.Popen(
            [*bound, *java, "kafka.Kafka", str(config)], stdout=out, stderr=subprocess.STDOUT
        )
    try:
        _wait_for(address, broker, folder / "broker.log")
        yield Broker(address, broker.pid)
    finally:
        broker.terminate()
        try:
            broker.wait(30)
        except subprocess.TimeoutExpired:
            broker.kill()
        shutil.rmtree(folder / "data", ignore_errors=True)


def _wait_for(address: str, broker: subprocess.Popen[bytes], log: Path) -> None:
    host, port = address.split(":")
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((host, int(port)), 1):
            return
        # A port gives no signal when it opens; the broker's end does.
        with suppress(subprocess.TimeoutExpired):
            broker.wait(0.1)
            raise RuntimeError(f"the broker ended: {log.read_text()[-2000:]}")
    raise RuntimeError(f"the broker does not listen on {address}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
