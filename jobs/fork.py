"""Makes a queue of its own out of another: `python -m jobs.fork`, or `spark-submit jobs/fork.py`.

For staging, back-fill, or to go on from an earlier instant: topics, records and positions of
groups as they are, or as they were (`--as-of`). It is a mirror that is promoted at once, with the
mirror's steps and guarantees (docs/protocols/mirror.md). Keys and rights are those of now, so a
key that was revoked since does not come back. Webhooks are left out: both queues would post. The
source is only read.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import orjson

if __package__ in {None, ""}:  # run as a file by spark-submit: find the packages beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from jobs.command_line.maintenance import Report, parser_of, run_job
from jobs.copies.kept_words import QUIET, copy_entries, copy_settings
from jobs.copies.mirror_copy import Mirror, SourceSnapshot, promote, take_source_snapshot
from jobs.copies.source_snapshots import SKEW_MS, source_snapshot_at, source_snapshot_with
from jobs.measuring.history import said
from lakequeue.arguments import micros_of
from lakequeue.clock import Micros
from lakequeue.errors import InvalidRequest, ReplicaPromoted, WrongUsage
from lakequeue.settings import Settings
from queue_tables.delta.store import open_store
from queue_tables.groups.history import read_group_snapshot
from queue_tables.replica import ReplicaTable
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG

_NOW = "now"
_STEP_BYTES = 1 << 30
_BEGUN_PATH = "_lakequeue/fork.json"
_BY = "job fork"


def main(argv: Sequence[str] | None = None) -> int:
    """Run once; an `Exit` code."""
    return run_job(options(), fork, argv)


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = parser_of(
        "jobs.fork",
        "Copy a queue (--root) to another root (--to), where it is a queue of its own: topics, "
        "records, positions of groups, keys and rights. The source goes on, and knows nothing "
        "of it.",
    )
    parser.add_argument("--to", required=True, help="root URI or directory of the new queue")
    parser.add_argument(
        "--as-of",
        default=_NOW,
        metavar="TIME",
        help="as the queue was at this time (RFC 3339, or milliseconds since 1970); by default "
        "`now`, as it is. Any time in the last hour or so, or an instant at which it was put down "
        "where groups were, once an hour: the report and the error name it",
    )
    parser.add_argument(
        "--older-groups",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="with --as-of: any time. Records as of then; groups, where nothing newer is kept, as "
        "of the last instant before it that is: what they did in between comes again",
    )
    return parser


def fork(settings: Settings, args: argparse.Namespace, now: Micros) -> Report:
    """One run. Killed anywhere, the next one with the same options goes on."""
    source = QueueRoot.existing(settings.root, replica_too=True)
    # What is refused is refused before anything is made, and in a dry run too.
    open_store(args.to)
    at: Micros | None = None
    if args.as_of != _NOW:
        at = Micros(micros_of(args.as_of))
        if at > now:
            raise WrongUsage(f"--as-of {args.as_of} is to come", hint="give an earlier time")
    snapshot, instants = source_snapshot_of(source, at, older_groups=args.older_groups)
    if args.dry_run:
        return {
            "version": int(snapshot.log.version),
            "files_copied": len(snapshot.log.files) + len(snapshot.topics.files),
            "bytes_copied": sum(file.size for file in snapshot.log.files.values()),
        } | instants
    copy = QueueRoot.replica(args.to, source)
    _begin(copy, source, at)
    taken = [snapshot]

    def take(_: QueueRoot) -> SourceSnapshot:
        """The one that was taken; after a conflict another."""
        nonlocal instants
        if not taken:
            again, instants = source_snapshot_of(source, at, older_groups=args.older_groups)
            return again
        return taken.pop()

    mirror = Mirror(source, copy, _STEP_BYTES, take)
    # A run that died in its promotion had copied everything, and shut all mirrors out.
    with contextlib.suppress(ReplicaPromoted):
        mirror.run()
    report = asdict(mirror.report)
    # Before it is promoted: where the source is locked, the copy is never a queue that is open.
    report["entries"] = copy_entries(source, copy, _BY)
    report["settings"] = copy_settings(source, copy, _BY, QUIET)
    promote(copy, source.queue_id)
    return {"queue_id": copy.queue_id} | report | instants


def source_snapshot_of(
    source: QueueRoot, at: Micros | None, *, older_groups: bool, skew_ms: int = SKEW_MS
) -> tuple[SourceSnapshot, Report]:
    """What to copy, and which instants it is of: of the records, and of the groups.

    Exactly the time asked for where the versions of the tables reach, or where groups are kept as
    of it. Else `older_groups` has to say that theirs may be an earlier one. Raises
    `InvalidRequest` if there is nothing of then.
    """
    if at is None:
        return take_source_snapshot(source), {}
    if source.replica_of is not None and older_groups:
        # Versions of a backup are its runs: by what it keeps of groups, records are as of the time.
        kept = read_group_snapshot(source, at)
        if kept is not None:
            return source_snapshot_with(source, kept, at), _instants(at, kept.as_of)
    try:
        snapshot = source_snapshot_at(source, at, skew_ms)
    except InvalidRequest as beyond:
        group_snapshot = read_group_snapshot(source, at)
        if group_snapshot is None:
            raise
        if group_snapshot.as_of != at and not older_groups:
            raise InvalidRequest(
                f"{beyond.detail}; where groups were is kept as of {said(group_snapshot.as_of)}",
                hint=f"--as-of {said(group_snapshot.as_of)} for the queue as it was then, or "
                "--older-groups for the records as of your time, with groups as of then",
            ) from beyond
        return source_snapshot_with(source, group_snapshot, at), _instants(at, group_snapshot.as_of)
    return snapshot, _instants(at, Micros(at - skew_ms * 1_000))


def _instants(records: Micros, groups: Micros) -> Report:
    return {"records_as_of": said(records), "groups_as_of": said(groups)}


def _begin(copy: QueueRoot, source: QueueRoot, at: Micros | None) -> None:
    """Put down what the copy is of. Raises `InvalidRequest` if it was begun as another one.

    Positions only rise: a copy that was begun as of a later time cannot become an earlier one.
    """
    wanted = {"as_of": None if at is None else said(at)}
    if copy.store.exists(_BEGUN_PATH):
        there = orjson.loads(copy.store.get(_BEGUN_PATH))
    else:
        there = wanted
        if at is not None and ReplicaTable(copy, LOG.name, source.queue_id).aim >= 0:
            there = {"as_of": None}  # a mirror
    if there != wanted:
        raise InvalidRequest(
            f"{copy.uri} was begun as a copy as of {there['as_of'] or _NOW}",
            hint="give the same time again to go on, or another root",
        )
    with contextlib.suppress(FileExistsError):
        copy.store.put_new(_BEGUN_PATH, orjson.dumps(wanted))


if __name__ == "__main__":
    sys.exit(main())
