"""A real Kafka broker and Spark's Kafka source, fetched once by the Ivy that PySpark carries."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lakequeue.processes.java import cache_dir, find_java

KAFKA, SPARK = "4.0.0", "4.2.0"
_IVY = f"""<ivy-module version="2.0">
  <info organisation="lakequeue" module="kafka"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{KAFKA}" conf="default->default"/>
    <dependency org="org.apache.spark" name="spark-sql-kafka-0-10_2.13" rev="{SPARK}"
      conf="default->default"/>
    <exclude org="org.apache.hadoop"/>
    <exclude org="org.scala-lang" module="scala-library"/>
  </dependencies>
</ivy-module>
"""
_FETCH_S = 540.0
_START_S = 120.0
_SOURCE = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")


class CannotFetch(Exception):
    """No network reaches Maven Central, and the jars are not in the cache."""


def kafka_jars() -> list[Path]:
    """The jars of the broker and of Spark's source. Raises `CannotFetch`."""
    folder = cache_dir(os.environ) / f"kafka-{KAFKA}-{SPARK}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=folder.parent) as scratch:
            _fetch(Path(scratch))
            with suppress(OSError):  # another process was quicker
                (Path(scratch) / "jars").rename(folder)
    return sorted(folder.glob("*.jar"))


def source_jars() -> list[Path]:
    """What `format("kafka")` needs on Spark's class path."""
    return [jar for jar in kafka_jars() if jar.name.startswith(_SOURCE)]


def _fetch(scratch: Path) -> None:
    (scratch / "ivy.xml").write_text(_IVY)
    command = [
        *(_java(), "-jar", str(next(_pyspark_jars().glob("ivy-*.jar")))),
        *("-ivy", str(scratch / "ivy.xml"), "-cache", str(scratch / "cache")),
        *("-types", "jar", "bundle", "-warn"),
        *("-retrieve", f"{scratch}/jars/[artifact]-[revision].[ext]"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_S, check=False)
    if done.returncode or not list(scratch.glob("jars/kafka_2.13-*.jar")):
        raise CannotFetch((done.stdout + done.stderr)[-2000:])


def _java() -> str:
    return str(Path(find_java().home) / "bin" / "java")


def _pyspark_jars() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


@contextmanager
def kafka_broker(folder: Path, partitions: int) -> Iterator[str]:
    """A broker that creates topics of so many partitions when they are used; its address."""
    jars = [*map(str, kafka_jars()), str(next(_pyspark_jars().glob("scala-library-*.jar")))]
    java = [_java(), "-Xmx512m", "-cp", ":".join(jars)]
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
    with (folder / "broker.log").open("w") as out:
        broker = subprocess.Popen(
            [*java, "kafka.Kafka", str(config)], stdout=out, stderr=subprocess.STDOUT
        )
    try:
        _wait_for(address, broker, folder / "broker.log")
        yield address
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
