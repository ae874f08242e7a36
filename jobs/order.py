"""The order job alone: `python -m jobs.order`, or `spark-submit jobs/order.py`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

if __package__ in {None, ""}:  # run as a file by spark-submit: find the packages beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from jobs.driver import leave, order_job, run


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM, or with `--available-now` until all is done; an `Exit` code."""
    return run(argv, "jobs.order", "The order job of a queue.", "order", (order_job,))


if __name__ == "__main__":
    leave(main())
