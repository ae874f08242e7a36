"""One run of the compaction job, at a time of the caller's choosing, as a process to be killed.

python -m tests.support.compaction_process --root DIR --now MICROS [--crash-at compaction.planned]
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from jobs.compaction import compact
from lakequeue.steps import arm
from queue_tables.root import QueueRoot


def run_compaction(
    root: QueueRoot,
    now: int,
    *,
    dry_run: bool = False,
    target_mb: int = 64,
    most_mb: int = 1_024,
    grace_hours: int = 6,
) -> dict[str, Any]:
    """One run in this process."""
    args = argparse.Namespace(
        dry_run=dry_run, target_mb=target_mb, most_mb=most_mb, grace_hours=grace_hours
    )
    return compact(root, args, now)


def main() -> int:
    """Run once, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--now", type=int, required=True)
    parser.add_argument("--grace-hours", type=int, default=6)
    parser.add_argument("--crash-at")
    args = parser.parse_args()
    arm(args.crash_at)
    root = QueueRoot.existing(args.root)
    sys.stdout.write(json.dumps(run_compaction(root, args.now, grace_hours=args.grace_hours)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
