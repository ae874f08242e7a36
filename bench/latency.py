"""Latency of the whole path at a steady rate: send → acknowledged, and send → received.

One producer process sends 1 kB records at a fixed rate (an open loop: a slow queue does not slow
the sender, so waiting is not hidden); one consumer process notes when it gets each. Both read
CLOCK_MONOTONIC of the same machine; the send time travels in a header.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from lakequeue import Consumer, Producer

TOPIC = "latency"
GROUP = "latency"


def topic_names(topics: int) -> list[str]:
    """One is `TOPIC`; of more, each has its number."""
    return [TOPIC] if topics == 1 else [f"{TOPIC}-{number:04}" for number in range(topics)]


def produce(
    url: str, rate: int, seconds: float, warm_up_s: float, out: Path, topics: int = 1
) -> None:
    """Send `rate` records/s; write acknowledged latencies (ms) of those after the warm-up."""
    names = topic_names(topics)
    latencies: list[float] = []
    lock = threading.Lock()
    start = time.monotonic()
    with Producer(url) as producer:
        total = int(rate * (seconds + warm_up_s))
        for n in range(total):
            due = start + n / rate
            while (wait := due - time.monotonic()) > 0:
                time.sleep(wait)
            sent = time.monotonic_ns()

            def acked(_: object, sent: int = sent, measured: bool = n >= rate * warm_up_s) -> None:
                if measured:
                    with lock:
                        latencies.append((time.monotonic_ns() - sent) / 1e6)

            value = os.urandom(500).hex().encode()
            handle = producer.send(
                names[n % len(names)],
                value,
                key=f"key-{n % 1009}",
                headers={"sent": str(sent), "measured": str(int(n >= rate * warm_up_s))},
            )
            handle.add_done_callback(acked)
        producer.flush()
    out.write_text(json.dumps(latencies))


def consume(url: str, out: Path, topics: int = 1) -> None:
    """Note send → received (ms) of every measured record until SIGTERM."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    latencies: list[float] = []
    with Consumer(topic_names(topics), group=GROUP, urls=url) as consumer:
        while not stop.is_set():
            batch = consumer.poll(timeout_s=0.2, max_records=500)
            now = time.monotonic_ns()
            for message in batch:
                headers = dict(message.headers)
                if headers["measured"] == b"1":
                    latencies.append((now - int(headers["sent"] or b"0")) / 1e6)
                message.ack()
            out.write_text(str(len(latencies)))
    out.with_suffix(".json").write_text(json.dumps(latencies))


def percentiles(values: list[float]) -> dict[str, float]:
    """p50, p90, p99 and the maximum, in milliseconds."""
    p50, p90, p99, top = np.percentile(values, [50, 90, 99, 100])
    return {"p50_ms": p50, "p90_ms": p90, "p99_ms": p99, "max_ms": top, "records": len(values)}


def measure(
    ingest_url: str,
    consumer_url: str,
    folder: Path,
    rate: int,
    seconds: float,
    warm_up_s: float,
    topics: int = 1,
) -> dict[str, dict[str, float]]:
    """Run producer and consumer as processes; return the percentiles of both latencies."""
    received, acked = folder / "received", folder / "acked.json"
    command = [
        sys.executable,
        "-m",
        "bench.latency",
        *("--topics", str(topics)),
    ]  # a path would put bench/ first: it has `http`
    consumer = subprocess.Popen([*command, "consume", consumer_url, str(received)])
    try:
        subprocess.run(
            [
                *(*command, "produce", ingest_url, str(acked)),
                *("--rate", str(rate), "--seconds", str(seconds), "--warm-up", str(warm_up_s)),
            ],
            check=True,
        )
        want = int(rate * seconds)
        deadline = time.monotonic() + 60
        while int(received.read_text() or 0) < want and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        consumer.terminate()
        consumer.wait(timeout=30)
    return {
        "acknowledged": percentiles(json.loads(acked.read_text())),
        "end_to_end": percentiles(json.loads(received.with_suffix(".json").read_text())),
    }


def main() -> None:
    """Entry point of the two processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["produce", "consume"])
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm-up", type=float, default=20)
    parser.add_argument("--topics", type=int, default=1)
    args = parser.parse_args()
    if args.role == "produce":
        produce(args.url, args.rate, args.seconds, args.warm_up, args.out, args.topics)
    else:
        consume(args.url, args.out, args.topics)


if __name__ == "__main__":
    main()
