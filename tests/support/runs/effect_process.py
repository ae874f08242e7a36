"""Exactly-once effects as users write them: numbers of `in` into a Delta table.

    python -m tests.support.runs.effect_process --consumer URL --table DIR [--group NAME]
        [--crash-at STEP] [--merge | --asyncio]

Prints `round N` for each round that is written; runs until it is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

import pyarrow as pa

from lakequeue import AsyncConsumer, Consumer, Message
from lakequeue.steps import arm


def main() -> int:
    """Never returns by itself."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--consumer", required=True)
    parser.add_argument("--group", default="report")
    parser.add_argument("--table", required=True)
    parser.add_argument("--crash-at")
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("--asyncio", action="store_true")
    args = parser.parse_args()
    arm(args.crash_at)
    if args.asyncio:
        asyncio.run(_asyncio(args.consumer, args.group, args.table))
    rounds = 0
    with Consumer("in", args.group, urls=args.consumer, session_timeout_ms=2_000) as consumer:
        while True:
            with consumer.transaction(args.table, max_records=7) as tx:
                rows = _rows(tx.messages)
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
                _say(rounds)


async def _asyncio(url: str, group: str, table: str) -> None:
    rounds = 0
    async with AsyncConsumer("in", group, urls=url, session_timeout_ms=2_000) as consumer:
        while True:
            async with consumer.transaction(table, max_records=7) as tx:
                if tx.messages:
                    tx.append(_rows(tx.messages))
            if tx.counted:
                rounds += 1
                _say(rounds)


def _rows(messages: list[Message]) -> pa.Table:
    return pa.table({"n": pa.array([m.value for m in messages], pa.int64())})


def _say(rounds: int) -> None:
    sys.stdout.write(f"round {rounds}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
