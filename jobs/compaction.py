"""Keeps the tables quick: `python -m jobs.compaction`, or `spark-submit jobs/compaction.py`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

if __package__ in {None, ""}:  # run as a file by spark-submit: find the packages beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from jobs.command_line.maintenance import Report, main_of, parser_of, run_parts
from jobs.maintenance.log_compaction import Bounds, compact_log
from jobs.maintenance.orphans import vacuum_inbox
from jobs.maintenance.small_files import compact_audit, compact_metrics, compact_rejects
from jobs.maintenance.table_upkeep import upkeep_tables
from lakequeue.clock import Micros
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import AUDIT, GROUP_HISTORY, LOG, METRICS, REJECTS
from queue_tables.upkeep.clean_up import GRACE_HOURS, MOST_GRACE_HOURS, Cleaned, vacuum_table

_DEFAULT = Bounds()


def main(argv: Sequence[str] | None = None) -> int:
    """Run once; an `Exit` code."""
    return main_of(options(), compact, argv)


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = parser_of(
        "jobs.compaction",
        "Merge the small files of closed hours of `log` and `rejects` and of closed days of "
        "`metrics` and `audit`, delete files that no version needs any more, checkpoint tables and "
        "delete the commits behind checkpoints.",
    )
    parser.add_argument(
        "--target-mb",
        type=_within(1, 1_024),
        default=_DEFAULT.target_bytes >> 20,
        help="size of merged files, MiB (%(default)s)",
    )
    parser.add_argument(
        "--most-mb",
        type=_within(1, 1 << 20),
        default=_DEFAULT.run_bytes >> 20,
        help="limit of what one run reads, MiB (%(default)s); the next run continues",
    )
    parser.add_argument(
        "--grace-hours",
        type=_within(1, MOST_GRACE_HOURS),
        default=GRACE_HOURS,
        help="how long removed files stay for readers of earlier versions (%(default)s)",
    )
    return parser


def compact(root: QueueRoot, args: argparse.Namespace, now: Micros) -> Report:
    """One run. The parts do not depend on each other; killed anywhere, the next run goes on."""
    dry_run: bool = args.dry_run
    target = args.target_mb << 20
    bounds = Bounds(
        target,
        max(_DEFAULT.step_bytes, target),
        args.most_mb << 20,
        max(_DEFAULT.held_bytes, 4 * target),
    )

    def vacuum() -> Report:
        report: Report = {}
        tables = [LOG.name, REJECTS.name, METRICS.name, GROUP_HISTORY.name]
        if root.is_table(AUDIT.name):
            tables.append(AUDIT.name)
        for name in tables:
            report[name] = said(vacuum_table(root, name, args.grace_hours, dry_run=dry_run))
        return report | {"inbox": said(vacuum_inbox(root, now, dry_run=dry_run))}

    def said(done: Cleaned) -> Report:
        return {"files_deleted": done.files, "bytes_deleted": done.bytes}

    return run_parts(
        {
            "log": lambda: compact_log(root, now, bounds, dry_run=dry_run).document(),
            "rejects": lambda: compact_rejects(root, now, bounds, dry_run=dry_run).document(),
            "metrics": lambda: compact_metrics(root, now, bounds, dry_run=dry_run).document(),
            "audit": lambda: compact_audit(root, now, bounds, dry_run=dry_run).document(),
            "vacuum": vacuum,
            "commits": lambda: upkeep_tables(root, now, dry_run=dry_run),
        }
    )


def _within(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{low} to {high}")
        return value

    return read


if __name__ == "__main__":
    sys.exit(main())
