"""One run of the metrics job, at a time of the caller's choosing, as a process to be killed.

python -m tests.support.metrics_process --root DIR --now MICROS [--crash-at metrics.committed]
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from jobs.metrics import measure
from lakequeue.steps import arm
from queue_tables.root import QueueRoot


def run_metrics(
    root: QueueRoot, now: int, *, dry_run: bool = False, most_hours: int = 168
) -> dict[str, Any]:
    """One run in this process."""
    return measure(root, argparse.Namespace(dry_run=dry_run, most_hours=most_hours), now)


def main() -> int:
    """Run once, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--now", type=int, required=True)
    parser.add_argument("--crash-at")
    args = parser.parse_args()
    arm(args.crash_at)
    sys.stdout.write(json.dumps(run_metrics(QueueRoot.existing(args.root), args.now)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
