"""One run of the mirror job, or a promotion, as a process to be killed.

python -m tests.support.runs.mirror_process --root DIR --to DIR [--step-bytes 1] [--crash-at
mirror.cut]
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from jobs.copies.mirror_copy import Mirror, MirrorReport, keep_up
from jobs.mirror import mirror, options
from lakequeue.clock import wall_micros
from lakequeue.errors import ReplicaPromoted
from lakequeue.settings import Settings
from lakequeue.steps import arm
from queue_tables.root import QueueRoot

ALL = 1 << 40


def run_mirror(
    source: QueueRoot, to: str, *, step_bytes: int = ALL, grace_hours: int = 6
) -> MirrorReport:
    """One run in this process."""
    replica = QueueRoot.replica(to, source)
    report = Mirror(source, replica, step_bytes).run()
    keep_up(replica, grace_hours)
    return report


def run_job(root: str, *args: str) -> dict[str, Any]:
    """The report of the job with this command line, in this process."""
    return mirror(Settings(root=root), options().parse_args(args), wall_micros())


def main() -> int:
    """Run once; 3 if the replica was promoted meanwhile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--to", required=True)
    parser.add_argument("--step-bytes", type=int, default=ALL)
    parser.add_argument("--crash-at")
    args = parser.parse_args()
    arm(args.crash_at)
    try:
        run_mirror(QueueRoot.existing(args.root), args.to, step_bytes=args.step_bytes)
    except ReplicaPromoted as late:
        sys.stderr.write(f"{late}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
