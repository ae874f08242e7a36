"""Rates and lag per hour: `python -m jobs.metrics`, or `spark-submit jobs/metrics.py`.

An hour is measured once, when it is over. The hour and the `txn` `metrics` that says so are one
commit, which lands behind the newest one or not at all: so a run that is killed, started again or
started twice adds no second row.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobs.maintenance.shard_rules import is_hour
from queue_tables.files.stats import FileStats
from queue_tables.schema.marks import METRICS_TXN

if __package__ in {None, ""}:  # run as a file by spark-submit: find the packages beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from jobs.command_line.maintenance import Report, main_of, parser_of
from jobs.measuring.history import save_group_snapshot
from jobs.measuring.metrics_reading import (
    MEASURED,
    hour_number,
    measure_bytes,
    read_ends,
    read_moves,
)
from jobs.measuring.metrics_rules import (
    FACTS_KEPT_US,
    HOUR_US,
    NO_MOVES,
    Position,
    RequestedRanges,
    consumed_between,
    due_hours,
    ends_by,
    position_at,
)
from lakequeue.clock import Micros, hour_of
from lakequeue.errors import InvalidRequest
from lakequeue.records import Partition, TopicId
from lakequeue.steps import Step, reach
from queue_tables.delta.actions import Txn
from queue_tables.delta.maintenance import append_once
from queue_tables.delta.table import TableLog, create_table
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.groups.facts import GroupState
from queue_tables.groups.offset_ranges import Ranges, ranges_of
from queue_tables.groups.state import read_group_state
from queue_tables.log.index import PartitionKey
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import METRICS
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore

Row = dict[str, Any]
_Of = tuple[str, int, str | None]
"""(topic_id, partition, group or None): what a row is about."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run once; an `Exit` code."""
    return main_of(options(), measure, argv)


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = parser_of(
        "jobs.metrics",
        "Write what each partition and group did, hour by hour, into the table `metrics`: records "
        "and bytes in and out, lag. Hours that are over, each once. And, once an hour, where "
        "groups are, into `group_history`: what `fork --as-of` goes back to. Run it every hour.",
    )
    parser.add_argument(
        "--most-hours", type=int, default=168, help="hours measured in one run at most (168)"
    )
    return parser


def measure(root: QueueRoot, args: argparse.Namespace, now: Micros) -> Report:
    """One run: every hour that is due, the oldest first."""
    if args.most_hours < 1:
        raise InvalidRequest(f"{args.most_hours} hours are none", hint="--most-hours 1 or more")
    if not args.dry_run:
        create_table(root.store, METRICS.name, METRICS, dict(METRICS.properties))
    table = TableLog(root.store, METRICS.name)
    try:
        table.open()
        done = table.txns.get(METRICS_TXN)
    except FileNotFoundError:
        done = None  # a dry run on a root that an older release made
    reader = LogReader(root, MEASURED)
    hours = (a.partition_values["hour"] or "" for a in reader.files())
    first = min((hour_number(hour) for hour in hours if is_hour(hour)), default=None)
    due = due_hours(done, first, now, args.most_hours)
    written: list[str] = []
    rows = 0
    if due:
        measuring = _Measuring(root, reader, due, now)
        before = {} if done is None else _read_hour(table, done)
        for number in due:
            made = measuring.hour(number, before)
            if not args.dry_run and not _commit(table, number, made):
                break  # another run goes on from here
            written.append(hour_of(number * HOUR_US))
            rows += len(made)
            before = {_of(row): row for row in made}
    kept = save_group_snapshot(root, now, dry_run=args.dry_run)
    return {"hours": written, "rows": rows, "groups_kept_as_of": kept}


def _of(row: Row) -> _Of:
    return row["topic_id"], row["partition"], row["group"]


def _read_hour(table: TableLog, number: int) -> dict[_Of, Row]:
    """The rows of an hour."""
    hour = hour_of(number * HOUR_US)
    found: dict[_Of, Row] = {}
    for add in table.files.values():
        first, last = FileStats(add.stats).bounds("hour", str, hour, hour)
        if first <= hour <= last:
            rows = read_data_file(table.store, table.path, add.path).to_pylist()
            found |= {_of(row): row for row in rows if row["hour"] == hour}
    return found


def _commit(table: TableLog, number: int, rows: list[Row]) -> bool:
    """Put an hour into the table; False if it is there. The table has seen the hour before."""
    add = write_data_file(
        table.store, METRICS.name, pa.Table.from_pylist(rows, METRICS.arrow), {}, METRICS
    )
    reach(Step.METRICS_DATA_WRITTEN)
    info = {"hour": number, "rows": len(rows)}
    done = append_once(table, add, Txn(METRICS_TXN, number), info)
    if done:
        reach(Step.METRICS_COMMITTED)
    return done


class _Measuring:
    """Everything as of now, from which hours are told."""

    def __init__(self, root: QueueRoot, reader: LogReader, due: range, now: Micros) -> None:
        self._reader = reader
        self._now = now
        self._floor = now - FACTS_KEPT_US
        # In this order, see `position_at`.
        self._states: dict[tuple[TopicId, Partition], list[GroupState]] = defaultdict(list)
        for state in read_group_state(root).states.values():
            if not state.deleted:
                self._states[state.topic_id, state.partition].append(state)
        self._moves = read_moves(root, min(due[0] * HOUR_US, self._floor))
        self._ends = read_ends(reader, due[0])
        self._topics = {t.topic_id: t for t in TopicStore(root).list()}

    def hour(self, number: int, before: Mapping[_Of, Row]) -> list[Row]:
        """The rows of an hour, of the topics that exist; `before` are those of the hour before."""
        rows: list[Row] = []
        for topic in self._topics.values():
            for partition in range(topic.partitions):
                rows += self._partition(topic, Partition(partition), number, before)
        return rows

    def _partition(
        self, topic: Topic, partition: Partition, number: int, before: Mapping[_Of, Row]
    ) -> list[Row]:
        known = before.get((topic.topic_id, partition, None))
        if known is None:
            start = int(self._reader.first_offset(topic.topic_id, partition))
        else:
            start = known["end_offset"]
        parts = self._ends.get(PartitionKey(topic.topic_id, partition), ())
        end = max(start, ends_by(parts, number, start))
        shared = {
            "hour": hour_of(number * HOUR_US),
            "topic": topic.topic,
            "topic_id": topic.topic_id,
            "partition": int(partition),
            "end_offset": end,
            "measured_at": self._now,
        }
        rows: list[Row] = [shared | {"group": None, "records_in": end - start}]
        ranges: dict[str | None, Ranges] = {None: ranges_of([(start, end)])}
        for state in self._states[topic.topic_id, partition]:
            row, which = self._group(state, number, end, before)
            rows += [] if row is None else [shared | row]
            if which is not None:
                ranges[state.group] = which
        wanted = RequestedRanges(ranges)
        measure_bytes(self._reader, topic.topic_id, partition, wanted)
        for row in rows:
            name = row["group"]
            row["bytes_in" if name is None else "bytes_out"] = (
                wanted.bytes.get(name, 0) if name in ranges else None
            )
        return [dict.fromkeys(METRICS.arrow.names) | row for row in rows]

    def _group(
        self, state: GroupState, number: int, end: int, before: Mapping[_Of, Row]
    ) -> tuple[Row | None, Ranges | None]:
        """The columns of a group, and the offsets it has done with, as far as they are known."""
        known = before.get((state.topic_id, state.partition, state.group))
        previous = None if known is None else Position(known["generation"], known["consumed"])
        moves = self._moves.get(state.key, NO_MOVES)
        until = (number + 1) * HOUR_US
        first = self._reader.first_offset(state.topic_id, state.partition)
        position = position_at(state, moves, until - 1, self._floor, previous, first)
        if position is None:
            return None, None
        hour = (number * HOUR_US - 1, until - 1)
        count, which = consumed_between(state, moves, previous, position, hour)
        return {
            "group": state.group,
            "mode": state.mode,
            "generation": position.generation,
            "consumed": position.consumed,
            "records_out": count,
            "lag": max(0, end - position.consumed),
        }, which


if __name__ == "__main__":
    sys.exit(main())
