"""The front under clients that hold it up, and its speed beside the server before it.

    python -m bench.http.front [--before DIR] [--json FILE] [--only KIND] [--share 1.0]

Each node is measured alone, then with so many clients of one kind, then ten seconds after they
have gone: `/healthz`, sends (ingest) or poll and ack (consumer service), at a steady pace; the CPU
that node and clients took; and whether anything that was acknowledged is lost or there twice. Then
single-record sends from 64 connections. `--before`: a checkout of the release before the front,
measured in the same run (its server has to be installed here). `--share`: fewer clients. `--only`:
parts whose name has this in it, such as `ingest/slow` or `speed`; with `--json` the others stay as
they are in that file. It ends with 1 if a bound of `bench.http.bounds` is broken.
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
from types import TracebackType
from typing import Any, Self

import psutil

from bench.http.bounds import broken, broken_speeds
from bench.http.kept import Ledger
from bench.http.load import Speed, load
from bench.http.probes import Client, Seen, acks, health, sends, watch
from bench.machine import describe
from coordination.embedded import EmbeddedZooKeeper
from queue_tables.root import QueueRoot
from queue_tables.topics import TopicStore
from tests.support.data.log_builder import LogBuilder

HERE = Path(__file__).parents[2]
WATCH_S, WITH_S = 5.0, 12.0
"""With the clients it is longer than any deadline: all of them are let go once meanwhile."""
SETTLE_S = 3.0
AFTER_S = 10.0
RECORDS, PARTITIONS = 20_000, 8
INGEST = {
    "slow_heads": 2_000,
    "slow_bodies": 2_000,
    "silent": 5_000,
    "document_readers": 1_000,
    "waits": 200,
}
CONSUMER = {
    "slow_heads": 2_000,
    "slow_joins": 2_000,
    "silent": 5_000,
    "polls": 10_000,
    "readers": 1_000,
}


@contextmanager
def started(
    module: str, root: str, zookeeper: str, place: Path = HERE, number: int = 0
) -> Iterator[tuple[str, int]]:
    """URL and process id of a node, the one of this number."""
    command = [sys.executable, "-m", module, "--root", root, "--zookeeper", zookeeper]
    command += ["--port", "0", "--node", f"bench-{module}-{number}", "--log-level", "warning"]
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


class Crowd:
    """So many clients of a kind, in a process of their own."""

    def __init__(self, kind: str, url: str, count: int) -> None:
        command = [sys.executable, "-m", "bench.http.clients", kind, url, str(count)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=HERE
        )
        self.pid = self._process.pid
        self.came_again = 0

    def _line(self) -> dict[str, int]:
        assert self._process.stdout is not None
        found: dict[str, int] = json.loads(self._process.stdout.readline() or "{}")
        return found

    def __enter__(self) -> Self:
        if not self._line():
            raise RuntimeError("the clients did not get there")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.came_again = self._line().get("came_again", 0)
        self._process.wait(60)


def cpu(process: psutil.Process, seconds: float) -> Callable[[], float]:
    """Call it at the end of `seconds`: the share of one core that was used since now."""
    before = process.cpu_times()

    def used() -> float:
        now = process.cpu_times()
        spent = now.user + now.system - before.user - before.system
        return max(0.0, round(float(spent) / seconds, 3))

    return used


def measured(
    kind: str, count: int, url: str, pid: int, calls: dict[str, Callable[[], None]]
) -> dict[str, Any]:
    """Before, with and after the clients."""
    node = psutil.Process(pid)
    rows: dict[str, dict[str, Any]] = {}

    def window(name: str, seconds: float) -> None:
        used = cpu(node, seconds)
        rows[name] = told(watch(calls, seconds)) | {"node_cpu": used()}

    watch(calls, 4.0)  # until the members have their partitions
    window("without", WATCH_S)
    rss = node.memory_info().rss
    with Crowd(kind, url, count) as crowd:
        watch(calls, SETTLE_S)
        used = cpu(psutil.Process(crowd.pid), WITH_S)
        window("with", WITH_S)
        rows["with"]["clients_cpu"] = used()
        more = node.memory_info().rss - rss
    watch(calls, AFTER_S)
    window("after", WATCH_S)
    return {
        "kind": kind,
        "clients": count,
        "came_again": crowd.came_again,
        "more_mib": round(more / 2**20, 1),
        "kib_each": round(more / 1024 / count, 1),
    } | rows


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


def held_up(folder: Path, zookeeper: str, only: str, share: float) -> Iterator[dict[str, Any]]:
    """A row for each kind of clients."""
    root = QueueRoot.open(str(folder / "queue"))
    log = LogBuilder(root)
    topic = log.topic("bench", PARTITIONS)
    for partition in range(PARTITIONS):
        log.append(topic, [b"x" * 1_000] * (RECORDS // PARTITIONS), partition)
    TopicStore(root).create("empty", partitions=4)
    ledger = Ledger(root)
    for module, kinds in (("ingest", INGEST), ("consumer_service", CONSUMER)):
        for kind, count in kinds.items():
            if only not in f"{module}/{kind}":
                continue
            with started(module, root.uri, zookeeper) as (url, pid):
                calls = {"health": health(url)}
                if module == "ingest":
                    calls["sends"] = sends(url, ledger)
                else:
                    calls["acks"] = acks(url, f"probe-{kind}", ledger)
                some = max(1, int(count * share))
                row = {"node": module} | measured(kind, some, url, pid, calls)
            yield row | {"kept": ledger.judged(), "measured_at": describe()["measured_at"]}


def written(file: Path, found: dict[str, Any]) -> None:
    """Write it down; rows of that file that were not measured now stay."""
    old = json.loads(file.read_text()) if file.exists() else {}
    rows = {(row["node"], row["kind"]): row for row in [*old.get("held_up", ()), *found["held_up"]]}
    found = found | {"held_up": list(rows.values())}
    if "sends_64_connections" in old:
        found.setdefault("sends_64_connections", old["sends_64_connections"])
    file.write_text(json.dumps(found, indent=2) + "\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--share", type=float, default=1.0)
    args = parser.parse_args()
    found: dict[str, Any] = {"machine": describe(), "held_up": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server = EmbeddedZooKeeper(folder / "zookeeper")
        server.start(60)
        try:
            for row in held_up(folder, server.hosts, args.only, args.share):
                found["held_up"].append(row)
                print(json.dumps(row), flush=True)
            if args.only in "speed":
                found["sends_64_connections"] = speeds(folder, server.hosts, args.before)
                print(json.dumps(found["sends_64_connections"]), flush=True)
        finally:
            server.stop()
    if args.json is not None:
        written(args.json, found)
    faults = [fault for row in found["held_up"] for fault in broken(row)]
    faults += broken_speeds(found.get("sends_64_connections", {}))
    if faults:
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main()
