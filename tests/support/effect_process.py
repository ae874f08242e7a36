"""Exactly-once effects as users write them: numbers of `in` into a Delta table.

    python -m tests.support.effect_process --consumer URL --table DIR [--crash-at STEP] [--merge]

Prints `round N` for each round that is written; runs until it is killed.
"""

from __future__ import annotations

import argparse
import sys

import pyarrow as pa

from lakequeue import Consumer
from lakequeue.steps import arm


def main() -> int:
    """Never returns by itself."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--consumer", required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--crash-at")
    parser.add_argument("--merge", action="store_true")
    args = parser.parse_args()
    arm(args.crash_at)
    rounds = 0
    with Consumer("in", "report", urls=args.consumer, session_timeout_ms=2_000) as consumer:
        while True:
            with consumer.transaction(args.table, max_records=7) as tx:
                rows = pa.table({"n": pa.array([m.value for m in tx.messages], pa.int64())})
                if tx.messages and args.merge:
                    tx.table.merge(
                        rows,
                        "t.n = s.n AND false",
                        source_alias="s",
                        target_alias="t",
                        commit_properties=tx.commit_properties,
                    ).when_not_matched_insert_all().execute()
                elif tx.messages:
                    tx.append(rows)
            if tx.counted:
                rounds += 1
                sys.stdout.write(f"round {rounds}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
