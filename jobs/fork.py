"""Makes a queue of its own out of another: `python -m jobs.fork`, or `spark-submit jobs/fork.py`.

For staging, back-fill, or to go on from an earlier instant: topics, records and positions of
groups as they are, or as they were a little while ago (`--as-of`). It is a mirror that is promoted
at once, with the mirror's steps and guarantees (docs/protocols/mirror.md). The source is only read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

if __package__ in {None, ""}:  # run as a file by spark-submit: find the packages beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from jobs.maintenance import Report, parser_of, run_job
from jobs.mirror_work import Cut, Mirror, promote, take_cut
from lakequeue.arguments import WrongUsage, micros_of
from lakequeue.clock import Micros
from lakequeue.errors import InvalidRequest
from lakequeue.settings import Settings
from queue_tables.facts import States
from queue_tables.group_state import OFFSETS_TXN, read_group_offsets
from queue_tables.history import erased_after, table_at
from queue_tables.marks import offset_mark
from queue_tables.root import QueueRoot
from queue_tables.schemas import GROUP_OFFSETS, LOG, TOPICS
from queue_tables.table import TableLog

SKEW_MS = 5_000
"""What the clocks of two services may differ by; one that is further off is not ready."""
_STEP_BYTES = 1 << 30


def main(argv: Sequence[str] | None = None) -> int:
    """Run once; an `Exit` code."""
    return run_job(options(), fork, argv)


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = parser_of(
        "jobs.fork",
        "Copy a queue (--root) to another root (--to), where it is a queue of its own: topics, "
        "records, positions of groups. The source goes on, and knows nothing of it.",
    )
    parser.add_argument("--to", required=True, help="root URI or directory of the new queue")
    parser.add_argument(
        "--as-of",
        help="as the queue was at this time (RFC 3339, or milliseconds since 1970), within about "
        "the last hour; by default as it is",
    )
    return parser


def fork(settings: Settings, args: argparse.Namespace, now: Micros) -> Report:
    """One run. Killed anywhere, the next one with the same options goes on."""
    source = QueueRoot.existing(settings.root, replica_too=True)
    take = take_cut
    if args.as_of is not None:
        at = micros_of(args.as_of)
        if at > now:
            raise WrongUsage(f"--as-of {args.as_of} is to come", hint="give an earlier time")
        take = partial(cut_at, at=at)
    if args.dry_run:
        cut = take(source)
        return {
            "version": int(cut.log.version),
            "files_copied": len(cut.log.files) + len(cut.topics.files),
            "bytes_copied": sum(file.size for file in cut.log.files.values()),
        }
    if args.as_of is not None:
        take(source)  # what is refused is refused before anything is made
    copy = QueueRoot.replica(args.to, source)
    report = asdict(Mirror(source, copy, _STEP_BYTES, take).run())
    promote(copy, source.queue_id)
    return {"queue_id": copy.queue_id} | report


def cut_at(source: QueueRoot, at: Micros, skew_ms: int = SKEW_MS) -> Cut:
    """The source as it was at a time, as its tables were then.

    Positions are those of `skew_ms` before it, so that they are not ahead of the records even if
    the clocks of who ordered and who folded differ by that: what was acknowledged in between comes
    again. Raises `InvalidRequest` if the tables do not reach back so far, or if records have been
    erased since: they must not come back.
    """
    at_ms = at // 1_000
    log = table_at(source.store, LOG.name, at_ms)
    if (erased := erased_after(source.store, LOG.name, log.version)) is not None:
        raise InvalidRequest(
            f"records were erased after that time (version {erased} of log), and would come back",
            hint="fork the queue as it was after the erasure, or as it is",
        )
    topics = table_at(source.store, TOPICS.name, at_ms)
    offsets = table_at(source.store, GROUP_OFFSETS.name, at_ms - skew_ms, keep_files=False)
    states, _ = read_group_offsets(source, offsets.version)
    _check_not_ahead(states, log)
    return Cut(states, offsets.txns.get(OFFSETS_TXN, 0), log, topics)


def _check_not_ahead(states: States, log: TableLog) -> None:
    for key, state in states.items():
        end = log.txns.get(offset_mark(key.topic_id, key.partition), 0)
        if (state.committed_offset or 0) > end:
            raise InvalidRequest(
                f"group {key.group} is at {state.committed_offset} of a partition that ends at "
                f"{end}: the clocks of the services differ by more than {SKEW_MS / 1_000:g} s",
                hint="give another time, or fork the queue as it is",
            )


if __name__ == "__main__":
    sys.exit(main())
