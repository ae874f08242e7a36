"""A whole queue on a disk that becomes full and empty again: `… full_disk FOLDER`.

For a process in a mount namespace of its own (`unshare --mount`), as it mounts a small file system
there. Prints one JSON object: what was answered, reported and found.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx2

from lakequeue import Producer
from lakequeue.client.admin import Admin
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import log_rows
from tests.support.faults.faulty_cluster import LightLayout
from tests.support.services.consumer_node import HttpMember, Records
from tests.support.services.zookeeper import wait_for

SIZE = "160m"
WAIT_S = 120.0
TAKEN = 20
QUEUE = {"mode": "queue", "from": "earliest", "visibility_timeout_ms": 60_000}
"""Long enough for an ack, short enough to wait for what was not acked to come again."""


class Disk:
    """The small file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "lakequeue-test", str(folder)]
        subprocess.run(command, check=True)

    def fill(self) -> None:
        """To the last byte."""
        with self._filler.open("ab", buffering=0) as out, suppress(OSError):
            while True:
                out.write(b"x" * 65_536)

    def empty(self) -> None:
        """As it was."""
        self._filler.unlink()


def main(folder: Path) -> dict[str, Any]:
    """Run it."""
    disk = Disk(folder)
    reports: list[tuple[str, str]] = []
    cluster = Cluster(
        ClusterOptions(root=str(folder / "root")), lambda name, what: reports.append((name, what))
    )
    real = cluster.layout
    cluster.layout = LightLayout(**{f.name: getattr(real, f.name) for f in fields(real)})
    sent: list[int] = []
    answers: list[tuple[int, Any]] = []
    with cluster:
        cluster.wait_ready(WAIT_S)
        url = cluster.ingest_urls[0]
        with Admin(cluster.ingest_urls) as admin:
            admin.create_topic("orders", partitions=2)
        sent += _ordered(cluster, range(TAKEN))
        topic = TopicStore(QueueRoot.open(str(folder / "root"))).get("orders")
        member = HttpMember(cluster.url("consumer-1"), topic, "acking", dict(QUEUE))
        member.join()
        taken = member.poll_until(TAKEN)
        acks: list[tuple[int, Any]] = []
        acked: set[int] = set()
        with httpx2.Client(base_url=url, timeout=30) as http:

            def send(number: int) -> int:
                body = {"records": [{"value": number, "message_id": f"m{number}"}]}
                answer = http.post("/v1/topics/orders/records", json=body)
                if answer.status_code == 200:
                    sent.append(number)
                answers.append((answer.status_code, answer.json().get("retryable")))
                return int(answer.status_code)

            numbers = iter(range(1_000, 100_000))

            def refused() -> bool:
                disk.fill()
                return send(next(numbers)) != 200

            wait_for(refused, "a send is refused")
            for record in taken[: TAKEN // 2]:
                disk.fill()
                answer = member.ack([record])
                acks.append((answer.status_code, answer.json().get("retryable")))
                if answer.status_code == 200:
                    acked.add(record["value"])
            for name in ("zookeeper", "driver-1"):
                cluster.kill(name, hold=False) if _alive(cluster, name) else None
            wait_for(
                lambda: (
                    {n for n, w in reports if "waiting for room" in w} >= {"zookeeper", "driver-1"}
                ),
                "both wait",
                timeout_s=WAIT_S,
            )
            for _ in range(20):
                disk.fill()
                send(next(numbers))
            health = http.get("/healthz").status_code
            starts = {name: cluster.child(name).starts for name in ("zookeeper", "driver-1")}
            disk.empty()
            cluster.wait_ready(WAIT_S)
            wait_for(lambda: send(next(numbers)) == 200, "sends are taken again", timeout_s=WAIT_S)
        sent += _ordered(cluster, range(100, 110))
        member.client.close()
        again = _delivered(cluster, member, set(sent) - acked)
        stored = {int(r["value"]) for r in log_rows(QueueRoot.open(str(folder / "root")))}
        logs = {p.name: p.stat().st_size for p in cluster.log_dir.iterdir()}
    return {
        "answers": answers,
        "reports": reports,
        "lost": sorted(set(sent) - stored),
        "acks": acks,
        "acked_came_again": sorted(acked & again),
        "health": health,
        "starts": starts,
        "logs": logs,
    }


def _alive(cluster: Cluster, name: str) -> bool:
    return cluster.child(name).alive


def _delivered(cluster: Cluster, member: HttpMember, expected: set[int]) -> set[int]:
    """Values that the group gets from now on, until all these have come; fails if they do not."""
    found: set[int] = set()
    with HttpMember(cluster.url("consumer-1"), member.topic, member.group, dict(QUEUE)) as heir:

        def all_came() -> bool:
            records: Records = heir.poll(wait_ms=1_000)
            found.update(int(record["value"]) for record in records)
            return found >= expected

        wait_for(all_came, "what was not acked comes again", timeout_s=WAIT_S)
    return found


def _ordered(cluster: Cluster, numbers: range) -> list[int]:
    with Producer(cluster.ingest_urls, acks="ordered") as producer:
        for number in numbers:
            producer.send("orders", number)
    return list(numbers)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]))) + "\n")
