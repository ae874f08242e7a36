"""The console on a queue with many topics and groups: its first screen, and what live costs.

python -m bench.http.console [--topics 500] [--groups 200] [--seconds 60]

Wall time is that of a quiet machine only; so CPU time and the machine's load stand beside it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from functools import partial

import httpx2
import psutil
import pyarrow as pa

from bench import machine
from lakequeue.clock import wall_micros
from lakequeue.records import Epoch, Offset, Partition
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from queue_tables.delta.actions import Txn
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import write_data_file
from queue_tables.groups.facts import Fact, Kind, fold
from queue_tables.groups.state import GroupOffsetsWriter
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import TOPICS_TXN
from queue_tables.schema.schemas import TOPICS
from queue_tables.schema.topic_rules import checked_config

LOOKS = 5


def main(topics: int, groups: int, seconds: float) -> dict[str, float]:
    """Seconds of first screens, and shares of a core while one page is open."""
    with tempfile.TemporaryDirectory() as place:
        fill(QueueRoot.open(f"{place}/queue"), topics, groups)
        options = ClusterOptions(root=f"{place}/queue", drivers=0, console=("127.0.0.1", 0))
        with Cluster(options) as cluster:
            cluster.wait_ready()
            return {"topics": topics, "groups": groups, **measured(cluster, seconds)}


def fill(root: QueueRoot, topics: int, groups: int) -> None:
    """So many topics in one commit, so many groups in another: one by one they take long."""
    rows = [
        checked_config(name, {"partitions": 1})
        | {"topic": name, "topic_id": uuid.uuid4().hex, "version": 0, "deleted": False}
        | {"closed_until": None, "changed_at": wall_micros()}
        for name in (f"topic-{number:03}" for number in range(topics))
    ]
    table = pa.Table.from_pylist(rows, schema=TOPICS.arrow)
    add = write_data_file(root.store, TOPICS.name, table, {}, TOPICS)
    TableLog(root.store, TOPICS.name).open().commit([add, Txn(TOPICS_TXN, 1)], {})
    facts = [
        Fact(
            Kind.COMMITTED, f"group-{number:03}", row["topic"], row["topic_id"], Partition(0), 0,
            Epoch(1), Offset(0), at=wall_micros(),
        )
        for number, row in zip(range(groups), itertools.cycle(rows), strict=False)
    ]  # fmt: skip
    writer = GroupOffsetsWriter(root)
    states, folded = writer.begin(Epoch(1))
    writer.commit(fold(states, facts), folded)


def measured(cluster: Cluster, seconds: float) -> dict[str, float]:
    """`cold` is a console that has seen nothing yet."""
    cold = first_screens_of_new_consoles(cluster)
    url = str(cluster.console_url)
    own = cluster.child("console").pid
    with httpx2.Client(base_url=url, timeout=30) as http:
        warm = [looked(own, lambda: http.get("/").raise_for_status()) for _ in range(LOOKS)]
        idle = shares(cluster, seconds, lambda: None)
        live = shares(cluster, seconds, lambda: http.get("/live/overview", headers={"X-Live": "-"}))
    return {
        "load": round(os.getloadavg()[0], 1),
        **{
            f"first_screen_{name}_{what}_s": round(statistics.median(times), 3)
            for name, each in (("cold", cold), ("warm", warm))
            for what, times in zip(("wall", "cpu"), zip(*each, strict=True), strict=True)
        },
        **{f"idle_{name}_core": round(share, 4) for name, share in idle.items()},
        **{f"live_{name}_core": round(share, 4) for name, share in live.items()},
    }


def looked(pid: int, look: Callable[[], object]) -> tuple[float, float]:
    """(wall, CPU of the console) in seconds of one look."""
    began, before = time.perf_counter(), used(pid)
    look()
    return time.perf_counter() - began, used(pid) - before


def first_screens_of_new_consoles(cluster: Cluster) -> list[tuple[float, float]]:
    """A process each, and its first page."""
    took = []
    for _ in range(LOOKS):
        command = [
            *(sys.executable, "-m", "console", "--root", cluster.root, "--port", "0"),
            *("--ingest-url", cluster.ingest_urls[0], "--consumer-url", cluster.consumer_urls[0]),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            ask = partial(httpx2.get, url, timeout=30)
            took.append(looked(process.pid, ask))
            process.terminate()
    return took


def shares(cluster: Cluster, seconds: float, look: Callable[[], object]) -> dict[str, float]:
    """The share of a core that each process takes, with a look every five seconds."""
    pids = {name: cluster.child(name).pid for name in ("console", "ingest-1", "consumer-1")}
    before = {name: used(pid) for name, pid in pids.items()}
    pause, until = threading.Event(), time.monotonic() + seconds
    while time.monotonic() < until:
        look()
        pause.wait(5.0)
    return {name: (used(pid) - before[name]) / seconds for name, pid in pids.items()}


def used(pid: int) -> float:
    """CPU seconds of a process and of its children: a service has a worker."""
    one = psutil.Process(pid)
    return sum(sum(each.cpu_times()[:2]) for each in (one, *one.children(recursive=True)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.http.console", description=__doc__)
    parser.add_argument("--topics", type=int, default=500)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    args = parser.parse_args()
    machine.announce()
    print(json.dumps(main(args.topics, args.groups, args.seconds), indent=2))
