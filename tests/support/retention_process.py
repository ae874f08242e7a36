"""One run of the retention job, at a time of the caller's choosing, as a process to be killed.

python -m tests.support.retention_process --root DIR --now MICROS [--crash-at retention.planned]
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from jobs.retention import retain
from lakequeue.steps import arm
from queue_tables.root import QueueRoot


def run_retention(
    root: QueueRoot,
    now: int,
    *,
    dry_run: bool = False,
    rejects_days: float = 7.0,
    forget_groups_days: float | None = None,
) -> dict[str, Any]:
    """One run in this process."""
    args = argparse.Namespace(
        dry_run=dry_run, rejects_days=rejects_days, forget_groups_days=forget_groups_days
    )
    return retain(root, args, now)


def main() -> int:
    """Run once, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--now", type=int, required=True)
    parser.add_argument("--crash-at")
    args = parser.parse_args()
    arm(args.crash_at)
    sys.stdout.write(json.dumps(run_retention(QueueRoot.existing(args.root), args.now)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
