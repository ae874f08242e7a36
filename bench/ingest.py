"""The ingest node alone: what one process acknowledges, how fast, and what it costs.

Two runs against `python -m ingest` on a fresh root: *steady*, an open loop at a fixed rate (a slow
node does not slow the sender, so waiting is not hidden), and *burst*, several producers in a
closed loop with 500 records a request. Producers are processes of their own; CPU is the node's.

    python -m bench.ingest --json bench/ingest.json
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import orjson
import psutil

from bench import machine

TOPIC = "bench"


def percentile(sorted_ms: list[float], share: float) -> float:
    """The value below which `share` of the sorted measurements lie."""
    return round(sorted_ms[min(len(sorted_ms) - 1, int(share * len(sorted_ms)))], 2)


def body_of(records: int, record_bytes: int, salt: int) -> bytes:
    """A JSON request; the values are hex noise, so that compression does not flatter."""
    return orjson.dumps(
        {
            "records": [
                {"key": f"k{salt}-{i % 97}", "value": os.urandom(record_bytes // 2).hex()}
                for i in range(records)
            ]
        }
    )


def steady(url: str, rate: int, batch: int, seconds: float, out: Any) -> None:
    """`rate` records/s in requests of `batch`, each sent on time, whatever became of the last."""
    bodies = [body_of(batch, 1000, i) for i in range(32)]
    latencies: list[float] = []
    errors = [0]
    lock = threading.Lock()
    limits = httpx2.Limits(max_connections=64, max_keepalive_connections=64)
    with httpx2.Client(base_url=url, timeout=30, limits=limits) as http:
        pool = ThreadPoolExecutor(48)

        def send(due: float, body: bytes) -> None:
            answer = http.post(
                f"/v1/topics/{TOPIC}/records",
                content=body,
                headers={"Content-Type": "application/json"},
            )
            with lock:
                if answer.status_code == 200:
                    latencies.append((time.monotonic() - due) * 1000)
                else:
                    errors[0] += 1

        start = time.monotonic()
        for n in range(int(rate / batch * seconds)):
            due = start + n * batch / rate
            if (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            pool.submit(send, due, bodies[n % len(bodies)])
        pool.shutdown(wait=True)
    out.put((sorted(latencies), errors[0], time.monotonic() - start))


def burst(url: str, batch: int, seconds: float, salt: int, out: Any) -> None:
    """One producer in a closed loop."""
    bodies = [body_of(batch, 1000, salt * 100 + i) for i in range(8)]
    latencies: list[float] = []
    errors = 0
    start = time.monotonic()
    with httpx2.Client(base_url=url, timeout=30) as http:
        end = start + seconds
        while (started := time.monotonic()) < end:
            answer = http.post(
                f"/v1/topics/{TOPIC}/records",
                content=bodies[len(latencies) % len(bodies)],
                headers={"Content-Type": "application/json"},
            )
            if answer.status_code == 200:
                latencies.append((time.monotonic() - started) * 1000)
            else:
                errors += 1
    out.put((sorted(latencies), errors, time.monotonic() - start))


def run(
    name: str, node: psutil.Process, records: int, seconds: float, jobs: list[tuple[Any, Any]]
) -> dict[str, Any]:
    """Run producers to their end; figures of the whole."""
    spawn = multiprocessing.get_context("spawn")
    out = spawn.Queue()
    workers = [spawn.Process(target=f, args=(*args, out)) for f, args in jobs]
    before, started = sum(node.cpu_times()[:2]), time.monotonic()
    for worker in workers:
        worker.start()
    found = [out.get(timeout=seconds + 120) for _ in workers]
    for worker in workers:
        worker.join()
    elapsed = time.monotonic() - started
    cpu = sum(node.cpu_times()[:2]) - before
    latencies = sorted(ms for some, _, _ in found for ms in some)
    acknowledged = len(latencies) * records
    result = {
        "run": name,
        "records_per_request": records,
        "acknowledged": acknowledged,
        "errors": sum(e for _, e, _ in found),
        "records_per_s": round(acknowledged / max(t for _, _, t in found)),
        "p50_ms": percentile(latencies, 0.5),
        "p99_ms": percentile(latencies, 0.99),
        "max_ms": round(latencies[-1], 2),
        "node_cpu_cores": round(cpu / elapsed, 3),
        "node_cpu_us_per_record": round(cpu / acknowledged * 1e6, 1),
        "node_rss_mib": round(node.memory_info().rss / 2**20),
        "load_average": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(result))
    return result


def main() -> None:
    """Start a node, run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--producers", type=int, default=4)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    machine.announce()
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "ingest", "--root", f"{directory}/root", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--node", "bench", "--die-with-parent"], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        url, node = ready["url"], psutil.Process(ready["pid"])
        httpx2.put(f"{url}/v1/topics/{TOPIC}", json={"partitions": 8}).raise_for_status()
        s = args.seconds
        results = [
            run("warm-up", node, 100, 3, [(steady, (url, 1000, 100, 3.0))]),
            run("steady, 1 record a request", node, 1, s, [(steady, (url, 200, 1, s))]),
            run("steady, 1,000 records/s", node, 10, s, [(steady, (url, 1000, 10, s))]),
            run("steady, 1,000 records/s", node, 100, s, [(steady, (url, 1000, 100, s))]),
            run(
                f"burst, {args.producers} producers",
                node,
                500,
                s,
                [(burst, (url, 500, s, i)) for i in range(args.producers)],
            ),
        ]
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    if args.json:
        args.json.write_text(json.dumps(results[1:], indent=2) + "\n")


if __name__ == "__main__":
    main()
