"""One of the demo's consumers: records every departure it gets, then acknowledges it."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from examples.flights.departures import GROUP, TOPIC
from examples.flights.recording import Recording
from lakequeue import Consumer

ACK_EVERY = 500


def main() -> None:
    """Consume until SIGTERM, then leave the group."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--session-timeout-ms", type=int, default=6_000)
    args = parser.parse_args()

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    recording = Recording(args.folder / f"consumer-{args.name}.jsonl")
    seen = 0
    with Consumer(
        TOPIC, group=GROUP, urls=args.url, session_timeout_ms=args.session_timeout_ms
    ) as consumer:
        while not stop.is_set():
            batch = consumer.poll(timeout_s=0.5, max_records=ACK_EVERY)
            # First recorded, then acknowledged: a kill in between shows as a redelivery, never as
            # a loss.
            rows = []
            for message in batch:
                rows.append(
                    {
                        "seen": seen,
                        "partition": message.partition,
                        "offset": message.offset,
                        "epoch": message.epoch,
                        "n": message.json()["n"],
                    }
                )
                seen += 1
            recording.write(rows)
            for message in batch:
                message.ack()


if __name__ == "__main__":
    main()
