"""The offsets job alone: `python -m jobs.offsets`, or `spark-submit jobs/offsets.py`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

if __package__ in {None, ""}:  # run as a file by spark-submit: find the packages beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from jobs.driver import leave, offsets_job, run


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM, or with `--available-now` until all is done; an `Exit` code."""
    return run(argv, "jobs.offsets", "The offsets job of a queue.", "offsets", (offsets_job,))


if __name__ == "__main__":
    leave(main())
