"""Copies a queue to another root: `python -m jobs.mirror`, or `spark-submit jobs/mirror.py`.

Each run copies what has come since the last one; the replica can be read all the time. `--promote`
makes it a queue of its own, for when the source is lost or moves: with the keys and rights of the
source, so that it is no more open than that. It takes no lease: each commit to the replica lands
behind what the run has judged, or not at all (docs/protocols/mirror.md).
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

if __package__ in {None, ""}:  # run as a file by spark-submit: find the packages beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from jobs.command_line.maintenance import Report, parser_of, run_job
from jobs.copies.kept_words import copy_entries, copy_settings, end_copying
from jobs.copies.mirror_copy import Mirror, keep_up, plan_of, promote, take_source_snapshot
from lakequeue.clock import Micros
from lakequeue.errors import RootUnusable, WrongUsage
from lakequeue.settings import Settings
from queue_tables.log.reader import LogReader
from queue_tables.replica import ReplicaTable, must_be_whole
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG
from queue_tables.upkeep.clean_up import GRACE_HOURS, MOST_GRACE_HOURS

_BY = "job mirror"


def main(argv: Sequence[str] | None = None) -> int:
    """Run once; an `Exit` code."""
    return run_job(options(), mirror, argv)


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = parser_of(
        "jobs.mirror",
        "Copy what is new in a queue (--root) to its replica at another root (--to): topics, "
        "records, positions of groups, keys and rights. Or make the replica a queue of its own "
        "(--promote).",
    )
    parser.add_argument("--to", required=True, help="root URI or directory of the replica")
    parser.add_argument(
        "--promote",
        action="store_true",
        help="make the replica a queue; the source is not needed",
    )
    parser.add_argument(
        "--incomplete",
        action="store_true",
        help="promote even if the last run died in the middle of a large copy",
    )
    parser.add_argument(
        "--step-mb", type=int, default=1_024, help="file size of one commit at most, about (1024)"
    )
    parser.add_argument(
        "--grace-hours",
        type=int,
        default=GRACE_HOURS,
        help=f"replaced files stay this long for readers of earlier versions ({GRACE_HOURS})",
    )
    return parser


def mirror(settings: Settings, args: argparse.Namespace, _now: Micros) -> Report:
    """One run, or the promotion."""
    if args.step_mb < 1 or not 0 <= args.grace_hours <= MOST_GRACE_HOURS:
        raise WrongUsage(
            f"--step-mb {args.step_mb} --grace-hours {args.grace_hours} is not possible",
            hint=f"at least 1 MB; 0 to {MOST_GRACE_HOURS} hours",
        )
    if args.promote:
        return _promote(args)
    source = QueueRoot.existing(settings.root, replica_too=True)
    if args.dry_run:
        return _would(source, args)
    replica = QueueRoot.replica(args.to, source)
    # First: where the source is locked, there is never a record without the locks.
    entries = copy_entries(source, replica, _BY)
    report = asdict(Mirror(source, replica, args.step_mb << 20).run())
    report |= {"entries": entries, "settings": copy_settings(source, replica, _BY)}
    return report | {"files_deleted": keep_up(replica, args.grace_hours)}


def _would(source: QueueRoot, args: argparse.Namespace) -> Report:
    """What a run would copy and take away."""
    table = None
    # Without a replica, or with half of one, all of it is new.
    with contextlib.suppress(FileNotFoundError):
        if (there := _existing(args.to)) is not None:
            there.must_replicate(source)
            table = ReplicaTable(there, LOG.name, source.queue_id)
    snapshot = take_source_snapshot(source)
    plan = plan_of(snapshot, LogReader(source, ("offset",)), table, args.step_mb << 20)
    files = [*plan.put, *(file for step in plan.appends for file in step)]
    return {
        "version": int(snapshot.log.version),
        "records": sum(
            last - first + 1
            for step in plan.appends
            for file in step
            for first, last in file.parts.values()
        ),
        "files_copied": len(files),
        "bytes_copied": sum(file.size for file in files),
        "files_removed": len(plan.take),
    }


def _existing(uri: str) -> QueueRoot | None:
    try:
        return QueueRoot.existing(uri, replica_too=True)
    except RootUnusable:
        return None


def _promote(args: argparse.Namespace) -> Report:
    replica = QueueRoot.existing(args.to, replica_too=True)
    if replica.replica_of is None:
        if not replica.was_promoted:
            raise RootUnusable(f"{replica.uri} is not a replica", hint="it is a queue as it is")
        if not args.dry_run:
            end_copying(replica)
        return {"queue_id": replica.queue_id, "promoted": True}
    try:
        if not args.dry_run:
            promote(replica, replica.replica_of, incomplete=args.incomplete)
            end_copying(replica)
        elif not args.incomplete:
            log = ReplicaTable(replica, LOG.name, replica.replica_of).log
            must_be_whole(replica, log, replica.replica_of)
    except FileNotFoundError as missing:
        raise RootUnusable(
            f"{replica.uri} is a replica without tables: its first run has died at once",
            hint="run the mirror again, or begin with an empty root",
        ) from missing
    return {"queue_id": replica.queue_id, "promoted": not args.dry_run}


if __name__ == "__main__":
    sys.exit(main())
