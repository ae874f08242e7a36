"""`make bench-sqs`: SQS calls of the gateway, ElasticMQ and moto's server, one after the other.

    python -m bench.sqs [--seconds 6] [--json bench/sqs.json] [--docs docs/sqs.md] [--only NAME]

Each server gets the same load, from a process of its own (`bench.sqs.load`): raw HTTP with bodies
that were made before. The gateway stands before a whole queue with all its processes, as
`lakequeue up` starts it. A loop of fixed work is timed before each server, as absolute figures say
nothing on a machine that has something else to do. With `--docs` the table goes into that page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil

from bench import machine
from bench.sqs import load, peers
from bench.sqs.table import into, render
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore

HERE = Path(__file__).parents[2]
OURS = "lakequeue"
_DURABLE = "on disk, synced, before the answer"
_LONGEST_S = 240.0


def main() -> None:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(prog="make bench-sqs", description=__doc__)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--docs", type=Path)
    parser.add_argument("--only", default="", help="servers whose name has this in it")
    args = parser.parse_args()
    servers: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        if args.only.lower() in OURS:
            servers.append(_ours(Path(folder), args.seconds))
        servers += [
            _peer(peer, Path(folder), args.seconds)
            for peer in peers.peers(Path(folder))
            if args.only.lower() in peer.name.lower()
        ]
    found = {"machine": machine.describe(), "seconds": args.seconds, "servers": servers}
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=2) + "\n")
    table = render(found)
    if args.docs is not None:
        args.docs.write_text(into(args.docs.read_text(), table))
    print(table)


def _ours(folder: Path, seconds: float) -> dict[str, Any]:
    root = QueueRoot.open(str(folder / "queue"))
    topics = TopicStore(root)
    # As many queues as are listed. Clients would need minutes to make them.
    for number in range(load.QUEUES):
        topics.create(f"listed-{number:04}", partitions=1)
    calm = machine.calibrated()
    options = ClusterOptions(root=root.uri, sqs=("127.0.0.1", 0))
    with Cluster(options) as cluster:
        cluster.wait_ready()
        url = cluster.layout.beside_url(cluster.layout.sqs)
        assert url is not None
        pids = {child.name: child.pid for child in cluster.children}
        time.sleep(5.0)  # the driver's first batches
        figures = _measured(url, seconds, pids)
    return {"name": OURS, "durability": _DURABLE, "calibration": calm, **figures}


def _peer(peer: peers.Peer, folder: Path, seconds: float) -> dict[str, Any]:
    calm = machine.calibrated()
    with peers.running(peer, folder / "peer.log") as pid:
        figures = _measured(peer.url, seconds, {"server": pid})
    return {"name": peer.name, "durability": peer.durability, "calibration": calm, **figures}


def _measured(url: str, seconds: float, pids: Mapping[str, int]) -> dict[str, Any]:
    """The figures of the load, and how many cores each process took in each part."""
    command = [sys.executable, "-m", "bench.sqs.load", url, str(seconds)]
    spent, cpu = _watching(pids), {}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=HERE
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        for line in process.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            part = line.split(" ", 1)[0]
            cpu[part] = spent()
        said = process.stdout.read()
        if process.wait(_LONGEST_S):
            raise RuntimeError("the load has failed; see above")
    figures: dict[str, Any] = json.loads(said)
    return {"figures": figures, "cores": {part: cpu[part] for part in figures}}


def _watching(pids: Mapping[str, int]) -> Callable[[], dict[str, float]]:
    """Call it: the cores that each tree of processes took since the last call."""

    def seconds(pid: int) -> float:
        parent = psutil.Process(pid)
        tree = [parent, *parent.children(recursive=True)]
        return float(sum(sum(one.cpu_times()[:2]) for one in tree))

    at = time.monotonic()
    before = {name: seconds(pid) for name, pid in pids.items()}

    def spent() -> dict[str, float]:
        nonlocal at, before
        now, took = {name: seconds(pid) for name, pid in pids.items()}, time.monotonic() - at
        # A child that has ended takes its time with it.
        found = {name: round(max(0.0, now[name] - before[name]) / took, 2) for name in pids}
        at, before = time.monotonic(), now
        return found

    return spent


if __name__ == "__main__":
    os.environ.pop("AWS_ENDPOINT_URL", None)
    main()
