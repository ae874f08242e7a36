"""Writes to a table as another engine, again and again: `… --root DIR --table NAME --call NAME`.

Each time it takes the guard off first, which the queue's next commit puts back. Prints how often it
got through when it is told to end (its input is closed).
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading

from deltalake.exceptions import DeltaError

from queue_tables.root import QueueRoot
from tests.support.faults.foreign import CALLS, unguarded


def _write_until(ended: threading.Event, root: QueueRoot, table: str, call: str) -> int:
    landed = 0
    while not ended.is_set():
        # The queue may be faster: with its own commit, or with the guard.
        with contextlib.suppress(FileExistsError, DeltaError):
            CALLS[call](unguarded(root, table))
            landed += 1
        ended.wait(0.1)
    return landed


def _wait_for_the_end(ended: threading.Event) -> None:
    sys.stdin.read()
    ended.set()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("root", "table", "call"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    ended = threading.Event()
    threading.Thread(target=_wait_for_the_end, args=(ended,), daemon=True).start()
    print(_write_until(ended, QueueRoot.open(args.root), args.table, args.call))
