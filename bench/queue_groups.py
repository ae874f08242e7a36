"""Queue groups: deliveries and acks a second of one node, and how late a nacked record comes.

    python -m bench.queue_groups [--records 60000] [--workers 48] [--delayed 1000000] [--json FILE]

The log is filled by the functions of the order job; then ZooKeeper and one consumer-service node
are started on it, without Spark. Workers are processes with threads that poll batches of 10 and
ack them, by plain HTTP. Lateness: a worker alone, nacks with a delay, and waits. Memory: what the
node takes more once all of `--delayed` records, which are due tomorrow, are parked in it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import urlsplit

import httpx2
import orjson

from bench import machine
from bench.machine import usage
from bench.ordering import fill, order_all
from bench.peers.usage import cpu_s
from coordination.embedded import EmbeddedZooKeeper
from lakequeue.clock import HybridClock, wall_micros
from queue_tables.root import QueueRoot

BATCH = 10
PROCESSES = 2
DELAY_MS = 200
NACKS = 200
VALUE_BYTES = 1_000
JSON = {"content-type": "application/json"}


class QueueFigures(TypedDict):
    """The figures of one run."""

    records: int
    workers: int
    records_per_s: int
    node_us: float
    """CPU of the node for each record that is delivered and acked."""
    load_us: float
    """CPU of the workers."""
    late_p50_ms: float
    late_p99_ms: float
    delayed: int
    delayed_mib: int


def _join(http: httpx2.Client, group: str, **options: Any) -> str:
    body = {"topics": ["bench"], "mode": "queue", **options}
    answer = http.post(f"/v1/groups/{group}/members", json=body)
    answer.raise_for_status()
    return f"/v1/groups/{group}/members/{answer.json()['member_id']}"


def _work(url: str, threads: int, done: Any) -> None:
    """One process of workers, until nothing comes any more; adds what it has acked.

    Over plain connections: the load shares the machine with what is measured.
    """
    host = urlsplit(url).netloc

    def run() -> None:
        with httpx2.Client(base_url=url, timeout=60) as http:
            path = _join(http, "drain")
        connection = HTTPConnection(host, timeout=60)
        receipts: list[str] = []
        while True:
            asked = {"acks": receipts, "max": BATCH, "wait_ms": 2_000}
            connection.request("POST", f"{path}/records", orjson.dumps(asked), JSON)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != HTTPStatus.OK:
                raise RuntimeError(text.decode())
            with done.get_lock():
                done.value += len(receipts)
            had, body = bool(receipts), orjson.loads(text)
            receipts = [record["receipt"] for record in body["records"]]
            if had and not receipts:
                break
        connection.close()

    workers = [threading.Thread(target=run) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _drain(url: str, pid: int, records: int, workers: int) -> tuple[int, float, float]:
    """Records a second, from one tenth acked to nine; µs of the node and the workers.

    The last acks come with polls that wait, for nothing is there.
    """
    context = multiprocessing.get_context("spawn")
    done = context.Value("l", 0)
    share = max(1, workers // PROCESSES)
    processes = [context.Process(target=_work, args=(url, share, done)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    while done.value < records // 10:
        time.sleep(0.02)
    load = [process.pid or 0 for process in processes]
    first, began, before = done.value, time.monotonic(), (cpu_s([pid]), cpu_s(load))
    while done.value < records * 9 // 10:
        time.sleep(0.02)
    seconds, acked = time.monotonic() - began, done.value - first
    node_us, load_us = (
        round((now - then) * 1e6 / acked, 1)
        for now, then in zip((cpu_s([pid]), cpu_s(load)), before, strict=True)
    )
    for process in processes:
        process.join()
    return int(acked / seconds), node_us, load_us


def _lateness(url: str) -> list[float]:
    """Milliseconds that nacked records come after they are due, sorted.

    One worker that is kept busy with new records, of which it nacks every tenth.
    """
    late: list[float] = []
    due: dict[tuple[int, int], int] = {}
    with httpx2.Client(base_url=url, timeout=60) as http:
        path = _join(http, "late", max_attempts=1_000)
        while len(late) < NACKS:
            answer = http.get(f"{path}/records", params={"max": BATCH, "wait_ms": 5_000})
            arrived = wall_micros()
            acks, nacks = [], []
            for record in answer.json()["records"]:
                place = (record["partition"], record["offset"])
                if record["attempt"] > 1:
                    late.append((arrived - due[place]) / 1_000)
                if record["attempt"] > 1 or record["offset"] % 10:
                    acks.append(record["receipt"])
                else:
                    nacks.append((place, record["receipt"]))
            body = {
                "acks": acks,
                "nacks": [{"receipt": receipt, "delay_ms": DELAY_MS} for _, receipt in nacks],
            }
            said = http.post(f"{path}/acks", json=body).json()["settled"]
            dues = {one["receipt"]: one["due"] for one in said}
            due |= {place: dues[receipt] for place, receipt in nacks}
    return sorted(late)


@contextmanager
def _node(folder: Path, records: int, deliver_at: int | None = None) -> Iterator[tuple[str, int]]:
    """URL and process id of a node on a queue with so many ordered records."""
    root = QueueRoot.open(str(folder / "queue"))
    fill(root, HybridClock(), records, VALUE_BYTES, "queue", deliver_at)
    order_all(root)
    server = EmbeddedZooKeeper(folder / "zookeeper")
    server.start(60)
    command = [sys.executable, "-m", "consumer_service", "--root", root.uri]
    command += ["--zookeeper", server.hosts, "--port", "0", "--node", "bench", "--die-with-parent"]
    node = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        yield json.loads(node.stdout.readline())["url"] if node.stdout is not None else "", node.pid
    finally:
        node.terminate()
        node.wait(60)
        server.stop()


def _parked_mib(url: str, pid: int, records: int) -> int:
    """MiB that the node takes more once all records are parked."""
    before = usage(pid, 1.0)["pss_mib"]
    parked = 0
    with httpx2.Client(base_url=url, timeout=60) as http:
        path = _join(http, "delayed")
        while parked < records:
            http.get(f"{path}/records", params={"max": BATCH, "wait_ms": 100}).raise_for_status()
            rows = http.get("/v1/groups/delayed").raise_for_status().json()["partitions"]
            parked = sum(row.get("parked") or 0 for row in rows)
    return round(usage(pid, 5.0)["pss_mib"] - before)


def measure(records: int = 60_000, workers: int = 48, delayed: int = 1_000_000) -> QueueFigures:
    """Fill, start, measure."""
    with tempfile.TemporaryDirectory() as folder, _node(Path(folder), records) as (url, pid):
        rate, node_us, load_us = _drain(url, pid, records, workers)
        late = _lateness(url)
    tomorrow = wall_micros() + 86_400_000_000
    with (
        tempfile.TemporaryDirectory() as folder,
        _node(Path(folder), delayed, tomorrow) as (url, pid),
    ):
        parked_mib = _parked_mib(url, pid, delayed)
    return {
        "records": records,
        "workers": workers,
        "records_per_s": rate,
        "node_us": node_us,
        "load_us": load_us,
        "late_p50_ms": round(late[len(late) // 2], 1),
        "late_p99_ms": round(late[int(len(late) * 0.99)], 1),
        "delayed": delayed,
        "delayed_mib": parked_mib,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--workers", type=int, default=48)
    parser.add_argument("--delayed", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    machine.announce()
    found = measure(args.records, args.workers, args.delayed)
    text = json.dumps(found, indent=2)
    if args.json is not None:
        args.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
