"""Many groups that read the same records: what a delivery costs the node, and how late it is.

    python -m bench.fan_out [--groups 1 20 100] [--deliveries 10000] [--before DIR] [--json FILE]

A consumer-service node alone. The commits of `log` are made here, as the order job makes them, ten
a second; the members are one more process. Each row has as many deliveries a second: with more
groups there are fewer records. `--before`: an older checkout, measured in turn with this one.
"""

from __future__ import annotations

import argparse
import json
import select
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from bench.http.front import HERE, started
from bench.machine import describe
from coordination.embedded import EmbeddedZooKeeper
from coordination.zookeeper.notifications import Notifier
from coordination.zookeeper.session import Session
from lakequeue.settings import Settings
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from tests.support.data.log_builder import LogBuilder

PARTITIONS = 8
COMMITS_PER_S = 10
BYTES = 1_000
WARM_S, DRAIN_S = 4.0, 3.0


def feed(log: LogBuilder, topic: Topic, per_s: float, seconds: float) -> int:
    """Commit records at an even pace; how many."""
    began = time.monotonic()
    sent = commits = 0
    while (at := time.monotonic() - began) < seconds:
        due = int(at * per_s) - sent
        if due:
            values = [b"x" * BYTES] * due
            spread = {n: values[n::PARTITIONS] for n in range(PARTITIONS)}
            log.append_many(topic, {n: some for n, some in spread.items() if some})
            sent += due
        commits += 1
        time.sleep(max(0.0, began + commits / COMMITS_PER_S - time.monotonic()))
    return sent


def measured(
    place: Path, folder: Path, zookeeper: str, groups: int, deliveries: int, seconds: float
) -> dict[str, Any]:
    """One row: a queue of its own, a node, and so many groups."""
    root = QueueRoot.open(str(folder))
    session = Session(zookeeper, root.queue_id, "bench", Settings().coordination)
    session.start(30)
    notifier = Notifier(session, "log").start()
    try:
        log = LogBuilder(root, notifier)
        topic = log.topic("bench", PARTITIONS)
        with started("consumer_service", root.uri, zookeeper, place) as (url, pid):
            command = [sys.executable, "-m", "bench.http.group_members", url, "bench"]
            command += [str(PARTITIONS), str(groups)]
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE
            ) as members:
                assert members.stdout is not None
                assert members.stdin is not None
                while not select.select([members.stdout], [], [], 0)[0]:
                    feed(log, topic, COMMITS_PER_S * PARTITIONS, 1.0)
                members.stdout.readline()
                feed(log, topic, deliveries / groups, WARM_S)
                members.stdin.write("begin\n")
                members.stdin.flush()
                node = psutil.Process(pid)
                before = sum(node.cpu_times()[:2])
                sent = feed(log, topic, deliveries / groups, seconds)
                used = sum(node.cpu_times()[:2]) - before
                time.sleep(DRAIN_S)
                members.stdin.close()
                found: dict[str, Any] = json.loads(members.stdout.readline())
    finally:
        notifier.close()
        session.stop()
    return {
        "groups": groups,
        "delivered_share": round(found["deliveries"] / (sent * groups), 3),
        "node_cpu": round(used / seconds, 2),
        "node_us_a_delivery": round(used / (deliveries * seconds) * 1e6, 1),
    } | found


def main() -> None:
    """Measure each shape, this checkout and the one before in turn."""
    parser = argparse.ArgumentParser(prog="bench.fan_out", description=__doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[1, 20, 100])
    parser.add_argument("--deliveries", type=int, default=10_000, help="a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        server = EmbeddedZooKeeper(Path(folder) / "zk")
        server.start()
        stack.callback(server.stop)
        for groups in args.groups:
            for name, place in (("before", args.before), ("now", HERE)):
                if place is None:
                    continue
                where = Path(folder) / f"{name}-{groups}"
                row = measured(place, where, server.hosts, groups, args.deliveries, args.seconds)
                rows.append({"which": name} | row)
                print(json.dumps(rows[-1]), flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps({"machine": describe(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
