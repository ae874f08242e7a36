"""A fenceable producer as users write one: it sends 0, 1, 2, … and starts again where it stopped.

    python -m tests.support.runs.producer_process --url URL --producer-id ID --count N
        [--batch 5] [--topic orders]

Prints `began EPOCH FIRST`, then `acked N` for each record; exits with 10 when it is fenced.
"""

from __future__ import annotations

import argparse
import sys

from lakequeue import Producer
from lakequeue.errors import ProducerFenced


def main() -> int:
    """0: all are ordered; 10: a newer instance has begun."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--producer-id", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--batch", type=int, default=5)
    parser.add_argument("--topic", default="orders")
    args = parser.parse_args()

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    try:
        with Producer(
            args.url, producer_id=args.producer_id, fence=True, batch_size=args.batch
        ) as producer:
            epoch = producer.init()
            first = producer.next_sequence(args.topic)
            say(f"began {epoch} {first}")
            for start in range(first, args.count, args.batch):
                values = range(start, min(start + args.batch, args.count))
                for handle in [producer.send(args.topic, value) for value in values]:
                    handle.result(60)
                say(f"acked {values[-1]}")
    except ProducerFenced as fenced:
        sys.stderr.write(f"{fenced}\n")
        return 10
    return 0


if __name__ == "__main__":
    sys.exit(main())
