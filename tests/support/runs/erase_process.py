"""`lakequeue erase` as a function, and as a process to be killed.

python -m tests.support.runs.erase_process --root DIR --topic T --where TEXT [--crash-at
erase.planned]
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from jobs.erase import erase
from lakequeue.clock import wall_micros
from lakequeue.steps import arm
from queue_rules.predicates.evaluation import matching
from queue_rules.predicates.parsing import parse
from queue_tables.root import QueueRoot


def run_erase(
    root: QueueRoot, topic: str, where: str, *, dry_run: bool = False, delete_now: bool = False
) -> dict[str, Any]:
    """One run in this process."""
    condition = parse(where)
    return erase(
        root,
        topic,
        lambda rows: matching(condition, rows),
        wall_micros(),
        dry_run=dry_run,
        delete_now=delete_now,
    )


def main() -> int:
    """Run once, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("root", "topic", "where"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--crash-at")
    args = parser.parse_args()
    arm(args.crash_at)
    report = run_erase(QueueRoot.existing(args.root), args.topic, args.where, delete_now=True)
    sys.stdout.write(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
