"""The front under clients that hold it up, and its speed beside the server before it.

    python -m bench.http.front [--before DIR] [--json FILE] [--only KIND] [--share 1.0]

Each node is measured alone, then with so many clients of one kind, then ten seconds after they
have gone: `/healthz`, sends (ingest) or poll and ack (consumer service), at a steady pace. Then
single-record sends from 64 connections. `--before`: a checkout of the release before the front,
measured in the same run (its server has to be installed here). `--share`: fewer clients.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from bench.http.load import Speed, load
from bench.http.probes import Client, Seen, acks, health, sends, watch
from bench.machine import describe
from coordination.embedded import EmbeddedZooKeeper
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder

HERE = Path(__file__).parents[2]
WATCH_S = 8.0
SETTLE_S = 10.0
"""They are all there by then, and have been looked at once."""
AFTER_S = 10.0
RECORDS, PARTITIONS = 20_000, 8
INGEST = {"slow_heads": 2_000, "slow_bodies": 2_000, "silent": 5_000, "waits": 200}
CONSUMER = {"slow_heads": 2_000, "silent": 5_000, "polls": 10_000, "readers": 1_000}


@contextmanager
def started(
    module: str, root: str, zookeeper: str, place: Path = HERE
) -> Iterator[tuple[str, int]]:
    """URL and process id of a node."""
    command = [sys.executable, "-m", module, "--root", root, "--zookeeper", zookeeper]
    command += ["--port", "0", "--node", f"bench-{module}", "--log-level", "warning"]
    node = subprocess.Popen(
        [*command, "--die-with-parent"],
        stdout=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
        cwd=place,
    )
    try:
        event = json.loads(node.stdout.readline() if node.stdout is not None else "{}")
        yield str(event["url"]), int(event["pid"])
    finally:
        node.terminate()
        node.wait(60)


@contextmanager
def clients(kind: str, url: str, count: int) -> Iterator[None]:
    """So many clients of a kind."""
    command = [sys.executable, "-m", "bench.http.clients", kind, url, str(count)]
    held = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE
    )
    try:
        assert held.stdout is not None
        if not held.stdout.readline():
            raise RuntimeError(f"{kind}: the clients did not get there")
        yield
    finally:
        if held.stdin is not None:
            held.stdin.close()
        held.wait(60)


def measured(
    kind: str, count: int, url: str, pid: int, calls: dict[str, Callable[[], None]]
) -> dict[str, Any]:
    """Before, with and after the clients."""
    process = psutil.Process(pid)
    watch(calls, 4.0)  # until the members have their partitions
    rows = {"without": watch(calls, WATCH_S)}
    rss = process.memory_info().rss
    with clients(kind, url, count):
        watch(calls, SETTLE_S)
        rows["with"] = watch(calls, WATCH_S)
        more = process.memory_info().rss - rss
    watch(calls, AFTER_S)
    rows["after"] = watch(calls, WATCH_S / 2)
    found = {
        "kind": kind,
        "clients": count,
        "more_mib": round(more / 2**20, 1),
        "kib_each": round(more / 1024 / count, 1),
    }
    return found | {when: told(seen) for when, seen in rows.items()}


def told(seen: dict[str, Seen]) -> dict[str, Any]:
    """Percentiles, and what failed."""
    return {
        name: {"p50_ms": one.p(0.5), "p99_ms": one.p(0.99), "calls": len(one.took)}
        | ({"failed": one.failed[:3], "failures": len(one.failed)} if one.failed else {})
        for name, one in seen.items()
    }


def speeds(folder: Path, zookeeper: str, before: Path | None) -> dict[str, list[Speed]]:
    """Single-record sends, this server and the one before in turn, each on a queue of its own."""
    found: dict[str, list[Speed]] = {}
    for turn in range(2):
        for name, place in (("before", before), ("now", HERE)):
            if place is not None:
                root = str(folder / f"{name}-{turn}")
                with started("ingest", root, zookeeper, place) as (url, pid):
                    Client(url).ask("PUT", "/v1/topics/bench", {"partitions": PARTITIONS})
                    found.setdefault(name, []).append(load(url, pid))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--share", type=float, default=1.0)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        root = QueueRoot.open(str(folder / "queue"))
        log = LogBuilder(root)
        topic = log.topic("bench", PARTITIONS)
        for partition in range(PARTITIONS):
            log.append(topic, [b"x" * 1_000] * (RECORDS // PARTITIONS), partition)
        TopicStore(root).create("empty", partitions=4)
        server = EmbeddedZooKeeper(folder / "zookeeper")
        server.start(60)
        try:
            for module, kinds in (("ingest", INGEST), ("consumer_service", CONSUMER)):
                for kind, count in kinds.items():
                    if args.only not in f"{module}/{kind}":
                        continue
                    with started(module, root.uri, server.hosts) as (url, pid):
                        calls = {"health": health(url)}
                        if module == "ingest":
                            calls["sends"] = sends(url)
                        else:
                            calls["acks"] = acks(url, f"probe-{kind}")
                        some = max(1, int(count * args.share))
                        rows.append({"node": module} | measured(kind, some, url, pid, calls))
                        print(json.dumps(rows[-1]), flush=True)
            found: dict[str, Any] = {"machine": describe(), "held_up": rows}
            if args.only in "speed":
                found["sends_64_connections"] = speeds(folder, server.hosts, args.before)
                print(json.dumps(found["sends_64_connections"]), flush=True)
        finally:
            server.stop()
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
