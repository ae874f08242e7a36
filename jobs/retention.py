"""Removes what has expired: `python -m jobs.retention`, or `spark-submit jobs/retention.py`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if __package__ in {None, ""}:  # run as a file by spark-submit: find the packages beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from jobs.command_line.maintenance import Report, main_of, parser_of, run_parts
from jobs.maintenance.log_retention import retain_log, retain_metrics, retain_rejects
from jobs.maintenance.shard_retention import retain_shards
from jobs.measuring.history import retain_history
from lakequeue.clock import Micros
from queue_tables.root import QueueRoot

_DAY_US = 86_400 * 1_000_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run once; an `Exit` code."""
    return main_of(options(), retain, argv)


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = parser_of(
        "jobs.retention",
        "Remove what has expired: records by each topic's retention_ms and retention_bytes, "
        "rejects and metrics by age, ordered and folded rows of shards, shards that are done with.",
    )
    parser.add_argument(
        "--rejects-days", type=_days, default=7.0, help="remove rejects older than this (7)"
    )
    parser.add_argument(
        "--metrics-days", type=_days, default=400.0, help="remove metrics older than this (400)"
    )
    parser.add_argument(
        "--history-mb",
        type=_megabytes,
        default=1_024,
        help="limit of saved group positions, MiB (1024); otherwise back to the oldest record",
    )
    parser.add_argument(
        "--forget-groups-days",
        type=_days,
        help="ignore groups that did nothing for this long (never)",
    )
    return parser


def retain(root: QueueRoot, args: argparse.Namespace, now: Micros) -> Report:
    """One run. The parts do not depend on each other; killed anywhere, the next run goes on."""
    dry_run: bool = args.dry_run
    days: float | None = args.forget_groups_days
    forgotten_before = None if days is None else now - int(days * _DAY_US)
    rejects_us, metrics_us = (
        int(days * _DAY_US) for days in (args.rejects_days, args.metrics_days)
    )
    return run_parts(
        {
            "log": lambda: retain_log(
                root, now, dry_run=dry_run, forgotten_before=forgotten_before
            ),
            "rejects": lambda: retain_rejects(root, now, rejects_us, dry_run=dry_run),
            "metrics": lambda: retain_metrics(root, now, metrics_us, dry_run=dry_run),
            "history": lambda: retain_history(root, now, args.history_mb << 20, dry_run=dry_run),
            "inbox": lambda: retain_shards(root, "inbox", now, dry_run=dry_run).document(),
            "journal": lambda: retain_shards(root, "journal", now, dry_run=dry_run).document(),
        }
    )


def _megabytes(text: str) -> int:
    size = int(text)
    if size < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return size


def _days(text: str) -> float:
    days = float(text)
    if days < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return days


if __name__ == "__main__":
    sys.exit(main())
