"""Consume, transform, produce as users write it: `in` to `out`, the squares of even numbers.

    python -m tests.support.runs.transform_process --ingest URL --consumer URL [--group NAME]
        [--crash-at STEP]

Prints `round N` for each round that counts; runs until it is killed.
"""

from __future__ import annotations

import argparse
import sys

from lakequeue import Consumer, Producer
from lakequeue.steps import arm


def main() -> int:
    """Never returns by itself."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ingest", required=True)
    parser.add_argument("--consumer", required=True)
    parser.add_argument("--group", default="squares")
    parser.add_argument("--crash-at")
    args = parser.parse_args()
    arm(args.crash_at)
    rounds = 0
    with (
        Consumer("in", args.group, urls=args.consumer, session_timeout_ms=2_000) as consumer,
        Producer(args.ingest) as producer,
    ):
        while True:
            with consumer.transform(producer, "out", max_records=7) as tx:
                for message in tx.messages:
                    if message.value % 2 == 0:
                        tx.send(message.value**2, key=str(message.value))
            if tx.counted:
                rounds += 1
                sys.stdout.write(f"round {rounds}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
