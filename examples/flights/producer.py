"""One of the demo's producers: sends its share of the departures, records what was acknowledged."""

from __future__ import annotations

import argparse
from concurrent.futures import Future
from pathlib import Path

from examples.flights.departures import TOPIC, departures, producer_of
from examples.flights.recording import Recording
from lakequeue import Producer
from lakequeue.client.producing.outgoing import RecordMetadata

BATCH = 500


def main() -> None:
    """Send, wait for every acknowledgement, end with 0; anything else is a failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--index", type=int, required=True)
    parser.add_argument("--of", type=int, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    args = parser.parse_args()

    recording = Recording(args.folder / f"producer-{args.index}.jsonl")
    with Producer(args.url, producer_id=f"departures-{args.index}", batch_size=BATCH) as producer:
        waiting: list[tuple[int, Future[RecordMetadata]]] = []

        def record_acknowledged() -> None:
            acked = [(n, handle.result(timeout=120)) for n, handle in waiting]
            recording.write({"n": n, "partition": ack.partition} for n, ack in acked)
            waiting.clear()

        for departure in departures(args.records):
            if producer_of(departure, args.of) == args.index:
                handle = producer.send(TOPIC, departure.value, key=departure.key)
                waiting.append((departure.n, handle))
                if len(waiting) == 4 * BATCH:
                    record_acknowledged()
        producer.flush()
        record_acknowledged()


if __name__ == "__main__":
    main()
