"""The servers beside: ElasticMQ, from Maven, and moto's.

What is not there and cannot be fetched is left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lakequeue.errors import LakequeueError
from lakequeue.processes.jars import ivy_jar
from lakequeue.processes.java import cache_dir, java_command
from lakequeue_cli.supervisor.preflight import free_port

ELASTICMQ = "1.7.1"
_FETCH_S = 300.0
_START_S = 60.0
_CONFIG = """
node-address {{ protocol = http, host = localhost, port = {port}, context-path = "" }}
rest-sqs {{
  enabled = true, bind-port = {port}, bind-hostname = "127.0.0.1", sqs-limits = strict
}}
rest-stats {{ enabled = false, bind-port = 0, bind-hostname = "127.0.0.1" }}
generate-node-address = false
messages-storage {{
  enabled = {durable}, driver-class = "org.h2.Driver", uri = "jdbc:h2:{folder}/messages"
}}
aws {{ region = us-east-1, accountId = 000000000000 }}
"""


@dataclass(frozen=True)
class Peer:
    """One server."""

    name: str
    durability: str
    """What it promises when it has answered a send."""
    command: list[str]
    url: str


def elasticmq(folder: Path, *, durable: bool) -> Peer:
    """Its own program, with limits as SQS has them. Raises `LakequeueError` if it is not there."""
    jars = _fetched()
    port = free_port()
    config = folder / "elasticmq.conf"
    config.write_text(_CONFIG.format(port=port, folder=folder, durable=str(durable).lower()))
    command = [java_command(), f"-Dconfig.file={config}", "-cp", f"{jars}/*"]
    storage, promise = (
        (", H2 file", "written to an H2 file, not synced; a power cut may lose it")
        if durable
        else ("", "none: in memory, gone when the process ends")
    )
    return Peer(
        f"ElasticMQ {ELASTICMQ}{storage}",
        promise,
        [*command, "org.elasticmq.server.Main"],
        f"http://127.0.0.1:{port}",
    )


def _fetched() -> Path:
    """The folder of its jars."""
    cache = cache_dir(os.environ)
    there = cache / f"elasticmq-{ELASTICMQ}"
    if there.is_dir():
        return there
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=cache) as scratch:
        found = Path(scratch) / "jars"
        what = ["org.elasticmq", "elasticmq-server_2.13", ELASTICMQ]
        command = [java_command(), "-jar", str(ivy_jar()), "-dependency", *what]
        command += ["-confs", "default", "-cache", f"{scratch}/cache", "-warn"]
        command += ["-retrieve", f"{found}/[artifact]-[revision].[ext]"]
        subprocess.run(command, check=True, timeout=_FETCH_S, capture_output=True)
        shutil.move(found, there)
    return there


def moto() -> Peer:
    """Its server, from the environment of the tests."""
    port = free_port()
    return Peer(
        "moto's server",
        "none: in memory, gone when the process ends",
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        f"http://127.0.0.1:{port}",
    )


def peers(folder: Path) -> Iterator[Peer]:
    """Those that there are."""
    for durable in (False, True):
        place = folder / f"elasticmq-{durable}"
        place.mkdir()
        try:
            yield elasticmq(place, durable=durable)
        except (LakequeueError, OSError, subprocess.SubprocessError) as error:
            print(f"no ElasticMQ: {error}", file=sys.stderr)
            break
    yield moto()


@contextmanager
def running(peer: Peer, log: Path) -> Iterator[int]:
    """Its process id, when it answers."""
    with log.open("wb") as out:
        process = subprocess.Popen(peer.command, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + _START_S
        while not _answers(peer.url):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{peer.name} did not start: {log.read_text()[-2_000:]}")
            time.sleep(0.1)
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/?Action=ListQueues", timeout=5).close()  # noqa: S310 - our own
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
