"""Whether shape costs: more partitions, topics, groups or waiting polls at the same deliveries.

    python -m bench.http.shapes [--axis groups …] [--seconds 10] [--rounds 3] [--before DIR]
                                 [--deliveries N] [--json FILE] [--docs FOLDER]

A consumer-service node without the rest. The commits of `log` are made here, as the order job makes
them, ten a second; the members are one more process on the same cores. Each row says how late
records arrived, what the CPU of the busiest node was, and when all nodes were ready. `p50_ratio`
and the like are to the first row of its axis.
Along `groups` each row has as many deliveries a second: with more groups there are fewer records.
Along `records` the log is so long before the node starts. Along `nodes` there are so many of them
on this machine; members find them by the first one's URL, and spread. Along `refused` so many
members, of one each, have all their acks refused: what is outstanding should cost nothing.
A row is the median of its rounds. `--before`: an older checkout, measured in turn with this one.
`--deliveries`: so many a second in place of what the axis has. `--whole`: also end to end, by
`bench.http.whole_shapes`, as many rounds of 20 seconds.
"""

from __future__ import annotations

import argparse
import json
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import httpx2
import psutil

from bench.http import shapes_page, whole_shapes
from bench.http.front import HERE, Crowd, started
from bench.machine import describe
from coordination.embedded import EmbeddedZooKeeper
from coordination.zookeeper.notifications import Notifier
from coordination.zookeeper.session import Session
from lakequeue.settings import Settings
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder

COMMITS_PER_S = 10
BYTES = 1_000
OLD_BYTES, OLD_A_COMMIT = 100, 100_000
WARM_S, DRAIN_S = 4.0, 3.0
WHOLE_S = 20.0


@dataclass(frozen=True)
class Shape:
    """What is read by whom."""

    topics: int = 1
    partitions: int = 8
    groups: int = 1
    idle_polls: int = 0
    """Polls that find nothing, beside the others."""
    deliveries: int = 500
    """A second, of all groups together."""
    records: int = 0
    """In the log before the node starts."""
    nodes: int = 1
    refused: int = 0
    """Groups whose member is refused all its acks, with 409."""


PLAIN = Shape()
AXES: dict[str, Sequence[Shape]] = {
    "partitions": [replace(PLAIN, partitions=n) for n in (1, 8, 64, 256)],
    "topics": [replace(PLAIN, topics=n, partitions=1) for n in (1, 10, 100, 1_000)],
    "groups": [replace(PLAIN, groups=n, deliveries=10_000) for n in (1, 20, 100, 500)],
    "idle_polls": [replace(PLAIN, idle_polls=n) for n in (0, 500, 2_000)],
    "refused": [replace(PLAIN, partitions=64, refused=n) for n in (0, 1)],
    "records": [replace(PLAIN, records=n) for n in (0, 1_000_000, 10_000_000)],
    "nodes": [
        replace(PLAIN, nodes=n, groups=shapes_page.GROUPS_OF_NODES, deliveries=10_000)
        for n in (1, 2)
    ],
}


class Feeder:
    """Commits records at an even pace, each to the next partition of all."""

    def __init__(self, log: LogBuilder, topics: Sequence[Topic], partitions: int) -> None:
        self._log = log
        self._places = [(topic, number) for number in range(partitions) for topic in topics]
        self._at = 0

    def feed(self, per_s: float, seconds: float) -> int:
        """So many a second, for so long; how many."""
        began = time.monotonic()
        sent = commits = 0
        while (at := time.monotonic() - began) < seconds:
            due = int(at * per_s) - sent
            if due:
                self.commit(due)
                sent += due
            commits += 1
            time.sleep(max(0.0, began + commits / COMMITS_PER_S - time.monotonic()))
        return sent

    def commit(self, records: int) -> None:
        """One commit of so many."""
        rows: dict[Topic, dict[int, list[bytes | str]]] = {}
        for _ in range(records):
            topic, partition = self._places[self._at]
            self._at = (self._at + 1) % len(self._places)
            rows.setdefault(topic, {}).setdefault(partition, []).append(b"x" * BYTES)
        self._log.append_all(rows)

    def fill(self, records: int) -> None:
        """So many small records, over all partitions of the first topic, in large commits."""
        topic, partitions = self._places[0][0], 1 + max(number for _, number in self._places)
        value = b"x" * OLD_BYTES
        for _ in range(records // OLD_A_COMMIT):
            share = [value] * (OLD_A_COMMIT // partitions)
            self._log.append_many(topic, dict.fromkeys(range(partitions), share))

    def once_each(self) -> None:
        """One commit with a record for each partition."""
        self._at = 0
        self.commit(len(self._places))


@contextmanager
def feeding(folder: Path, zookeeper: str, shape: Shape) -> Iterator[tuple[QueueRoot, Feeder]]:
    """A queue of its own, and who commits to it."""
    root = QueueRoot.open(str(folder))
    session = Session(zookeeper, root.queue_id, "bench", Settings().coordination)
    session.start(30)
    notifier = Notifier(session, "log").start()
    try:
        log = LogBuilder(root, notifier)
        names = [f"bench-{number:04}" for number in range(shape.topics)]
        store = TopicStore(root)
        topics = [store.create(name, partitions=shape.partitions)[0] for name in names]
        store.create("empty", partitions=4)
        yield root, Feeder(log, topics, shape.partitions)
    finally:
        notifier.close()
        session.stop()


def measured(
    place: Path, folder: Path, zookeeper: str, shape: Shape, seconds: float
) -> dict[str, Any]:
    """One row."""
    if place != HERE:
        # It may know no newer format of a root than its own.
        make = "import sys; from queue_tables.root import QueueRoot; QueueRoot.open(sys.argv[1])"
        subprocess.run([sys.executable, "-c", make, str(folder)], cwd=place, check=True)
    with ExitStack() as stack:
        root, feeder = stack.enter_context(feeding(folder, zookeeper, shape))
        feeder.fill(shape.records)
        began = time.monotonic()
        nodes = [
            stack.enter_context(started("consumer_service", root.uri, zookeeper, place, number))
            for number in range(shape.nodes)
        ]
        for url, _ in nodes:
            _wait_ready(url)
        ready_s = time.monotonic() - began
        url = nodes[0][0]
        if shape.idle_polls:
            stack.enter_context(Crowd("polls", url, shape.idle_polls))
        command = [sys.executable, "-m", "bench.http.group_members", url]
        command += [str(shape.topics), str(shape.partitions), str(shape.groups), str(shape.refused)]
        members = stack.enter_context(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE
            )
        )
        assert members.stdout is not None
        assert members.stdin is not None
        while not select.select([members.stdout], [], [], 1.0)[0]:
            feeder.once_each()
        if not members.stdout.readline():
            raise RuntimeError("the members ended early")
        per_s = shape.deliveries / shape.groups
        feeder.feed(per_s, WARM_S)
        members.stdin.write("begin\n")
        members.stdin.flush()
        before = _cpu_s(nodes)
        sent = feeder.feed(per_s, seconds)
        used = [now - then for now, then in zip(_cpu_s(nodes), before, strict=True)]
        time.sleep(DRAIN_S)
        members.stdin.close()
        found: dict[str, Any] = json.loads(members.stdout.readline())
    return {
        "delivered_share": round(found["deliveries"] / (sent * shape.groups), 3),
        "ready_s": round(ready_s, 2),
        "node_cpu": round(max(used) / seconds, 3),
        "node_us_a_delivery": round(sum(used) / (sent * shape.groups) * 1e6, 1),
    } | found


def _wait_ready(url: str) -> None:
    with httpx2.Client(base_url=url) as http:
        while http.get("/readyz").status_code != HTTPStatus.OK:
            time.sleep(0.02)


def _cpu_s(nodes: Sequence[tuple[str, int]]) -> list[float]:
    return [sum(psutil.Process(pid).cpu_times()[:2]) for _, pid in nodes]


def _rows(found: Mapping[tuple[str, int, str], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Of each shape the medians of its rounds, as multiples of its axis's first row as well."""
    rows: list[dict[str, Any]] = []
    first: dict[tuple[str, str], dict[str, Any]] = {}
    for (axis, much, name), rounds in found.items():
        row = {key: median(one[key] for one in rounds) for key in rounds[0]}
        begun = first.setdefault((axis, name), row)
        ratios = {
            f"{short}_ratio": round(row[key] / begun[key], 2)
            for short, key in (
                ("ready", "ready_s"), ("p50", "p50_ms"), ("p99", "p99_ms"), ("cpu", "node_cpu"))
        }  # fmt: skip
        of_p50 = {"p50_ms_of_rounds": [one["p50_ms"] for one in rounds]}
        rows.append({"axis": axis, axis: much, "which": name} | row | ratios | of_p50)
    return rows


def main() -> None:
    """Measure each shape, this checkout and the one before in turn."""
    parser = argparse.ArgumentParser(prog="make bench-shapes", description=__doc__)
    parser.add_argument("--axis", choices=AXES, nargs="+", default=list(AXES))
    parser.add_argument("--most", type=int, default=10**9, help="leave larger shapes out")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--deliveries", type=int)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--before", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", type=Path, help="write shapes.md and its curves there")
    args = parser.parse_args()
    about_machine = describe()
    places = {"before": args.before, "now": HERE} if args.before else {"now": HERE}
    found: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        server = EmbeddedZooKeeper(Path(folder) / "zookeeper")
        server.start(60)
        stack.callback(server.stop)
        for number, axis in product(range(args.rounds), args.axis):
            for shape in AXES[axis]:
                much = getattr(shape, axis)
                if much > args.most:
                    continue
                asked = replace(shape, deliveries=args.deliveries or shape.deliveries)
                for name, place in places.items():
                    where = Path(folder) / f"{number}-{axis}-{much}-{name}"
                    row = measured(place, where, server.hosts, asked, args.seconds)
                    found.setdefault((axis, much, name), []).append(row)
                    print(json.dumps({"axis": axis, axis: much, "which": name} | row), flush=True)
    whole: list[list[dict[str, Any]]] = []
    for _ in range(args.rounds if args.whole else 0):
        whole.append([])
        for one in whole_shapes.measured(WHOLE_S):
            whole[-1].append(one)
            print(json.dumps(one), flush=True)
    results = {
        "machine": about_machine,
        "seconds": args.seconds,
        "rounds": args.rounds,
        "rows": _rows(found),
        "whole": [
            {key: median(one[key] for one in same) for key in same[0]}
            for same in zip(*whole, strict=True)
        ],
    }
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=1) + "\n")
    if args.docs is not None:
        shapes_page.write(results, args.docs)


if __name__ == "__main__":
    main()
