"""`lakequeue upgrade --apply` as a process to be killed.

python -m tests.support.upgrading.upgrade_process --root DIR [--crash-at upgrade.raised]
"""

from __future__ import annotations

import argparse
import sys

from lakequeue.steps import arm
from queue_tables.root import QueueRoot
from queue_tables.upkeep.upgrade import upgrade


def main() -> int:
    """Run once, and print what was done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--crash-at")
    args = parser.parse_args()
    arm(args.crash_at)
    upgrade(QueueRoot.existing(args.root), lambda change: sys.stdout.write(f"{change.what}\n"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
