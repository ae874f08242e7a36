"""A queue as it was: from the versions of its tables, or from what is kept of its groups.

| how long ago | records | groups |
|---|---|---|
| within about an hour: versions reach | as of the time | as of five seconds before it |
| longer | as of the time, by `ordered_at` | as of an instant in `group_history`, at or before it |
"""

from __future__ import annotations

import functools
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from jobs.copies.mirror_copy import Piece, SourceSnapshot, opened
from lakequeue.clock import Micros
from lakequeue.errors import InvalidRequest
from lakequeue.records import Offset, TopicId, Version
from lakequeue.wire import parse_place, to_micros
from queue_tables.delta.actions import Add
from queue_tables.delta.history import erased_after, table_at
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file
from queue_tables.groups.facts import GroupState, States
from queue_tables.groups.history import GroupSnapshot
from queue_tables.groups.state import read_group_offsets
from queue_tables.log.index import PartitionKey
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import (
    OFFSETS_TXN,
    WATERMARKS,
    is_next_offset,
    is_of_a_group,
    next_offsets_in,
    offset_mark,
)
from queue_tables.schema.schemas import GROUP_OFFSETS, LOG, TOPICS

_OF_TOPICS = ("topic_id", "version", "changed_at")
SKEW_MS = 5_000
"""What the clocks of two services may differ by; one that is further off is not ready."""
Parts = Mapping[PartitionKey, tuple[Offset, Offset]]
"""Lowest and highest offset of each partition in a file."""
Ends = Mapping[PartitionKey, int]
"""Next offset of each partition that has records within the snapshot."""


def source_snapshot_at(source: QueueRoot, at: Micros, skew_ms: int = SKEW_MS) -> SourceSnapshot:
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
    try:
        states, _ = read_group_offsets(source, offsets.version)
    except FileNotFoundError as gone:
        raise InvalidRequest(
            f"version {offsets.version} of group_offsets is there, its rows are not any more",
            hint="give a later time",
        ) from gone
    check_not_ahead(states, log, _names(topics))
    return SourceSnapshot(states, offsets.txns.get(OFFSETS_TXN, 0), log, topics)


def source_snapshot_with(source: QueueRoot, moment: GroupSnapshot, at: Micros) -> SourceSnapshot:
    """The source as it was at a time, with its groups as of a moment at or before it.

    Files are those of now: what was erased since is a tombstone, what has expired is gone. Of who
    produced, the marks are those of now as well: a number that was given is not given again.
    """
    log, topics = (opened(source, declared) for declared in (LOG, TOPICS))
    offsets = TableLog(source.store, GROUP_OFFSETS.name, keep_files=False).open()
    reader = LogReader(source, ("offset",))
    ends: dict[PartitionKey, int] = {}
    for where, end in next_offsets_in(log.txns).items():
        topic_id, partition = where.topic_id, where.partition
        end_then = moment.marks.get(offset_mark(topic_id, partition), 0)
        if at > moment.as_of:
            later = reader.offset_at_time(topic_id, partition, at + 1, "ordered_at")
            end_then = min(int(end), max(end_then, int(later)))
        if end_then:
            ends[PartitionKey(topic_id, partition)] = end_then
    files, pieces = _files_below(reader, log, ends)
    marks = {n: v for n, v in log.txns.items() if not _is_of_then(n)}
    marks |= {n: v for n, v in moment.marks.items() if is_of_a_group(n)}
    marks |= {offset_mark(key.topic_id, key.partition): end for key, end in ends.items()}
    topic_files, topic_pieces = _topics_until(topics, ends, at)
    return SourceSnapshot(
        moment.states,
        offsets.txns.get(OFFSETS_TXN, 0),
        TableAsOf(log.version, marks, files),
        TableAsOf(topics.version, topics.txns, topic_files),
        pieces | topic_pieces,
    )


def _is_of_then(mark: str) -> bool:
    """Whether what it stands at now is of no use in a queue as it was."""
    return is_of_a_group(mark) or WATERMARKS.has(mark) or is_next_offset(mark)


@dataclass(frozen=True, slots=True)
class TableAsOf:
    """A table as it would have been."""

    version: Version
    txns: Mapping[str, int]
    files: Mapping[str, Add]


def _files_below(
    reader: LogReader, log: TableLog, ends: Ends
) -> tuple[dict[str, Add], dict[str, Piece]]:
    files: dict[str, Add] = {}
    pieces: dict[str, Piece] = {}
    for path, add in log.files.items():
        parts = reader.parts(path)
        within = parts_below(parts, ends)
        if within == parts:
            files[path] = add
        elif within:
            name = piece_path(path, within)
            files[name] = replace(add, path=name)
            pieces[f"{LOG.name}/{name}"] = Piece(path, partial(_rows_of, within), within)
    return files, pieces


def parts_below(parts: Parts, ends: Ends) -> Parts:
    """What of the parts of a file is below the ends. Pure."""
    return {
        key: (first, min(last, Offset(ends.get(key, 0) - 1)))
        for key, (first, last) in parts.items()
        if first < ends.get(key, 0)
    }


def piece_path(path: str, of: object) -> str:
    """A path of its own for some rows of a file: others of that file have another. Pure."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}cut{zlib.crc32(repr(of).encode()):08x}-{name}"


def _rows_of(parts: Parts, rows: pa.Table) -> pa.Table:
    chosen = [
        pc.and_(
            pc.and_(
                pc.equal(rows["topic_id"], key.topic_id), pc.equal(rows["partition"], key.partition)
            ),
            pc.less_equal(rows["offset"], int(last)),
        )
        for key, (_, last) in parts.items()
    ]
    return rows.filter(functools.reduce(pc.or_, chosen))


def _topics_until(
    topics: TableLog, ends: Ends, at: Micros
) -> tuple[dict[str, Add], dict[str, Piece]]:
    """The versions of topics that were there; of one that has records in the snapshot, the
    first.
    """
    said = {
        path: [
            (row["topic_id"], row["version"], to_micros(row["changed_at"]))
            for row in read_data_file(topics.store, TOPICS.name, path, _OF_TOPICS).to_pylist()
        ]
        for path in topics.files
    }
    first: dict[str, int] = {}
    for topic_id, version, _ in (row for rows in said.values() for row in rows):
        first[topic_id] = min(version, first.get(topic_id, version))
    # By the clock of a node that is behind, a topic may have been made after its records.
    must = {(key.topic_id, first[key.topic_id]) for key in ends if key.topic_id in first}
    files: dict[str, Add] = {}
    pieces: dict[str, Piece] = {}
    for path, rows in said.items():
        known = [n for n, (*row, when) in enumerate(rows) if when <= at or tuple(row) in must]
        add = topics.files[path]
        if len(known) == len(rows):
            files[path] = add
        elif known:
            name = piece_path(path, known)
            files[name] = replace(add, path=name)
            pieces[f"{TOPICS.name}/{name}"] = Piece(path, partial(_rows_at, known))
    return files, pieces


def _rows_at(numbers: list[int], rows: pa.Table) -> pa.Table:
    return rows.take(pa.array(numbers, pa.int64()))


def _names(topics: TableLog) -> dict[TopicId, str]:
    """Every topic there ever was, by id."""
    read = partial(read_data_file, topics.store, TOPICS.name, columns=("topic_id", "topic"))
    rows = (row for path in topics.files for row in read(path).to_pylist())
    return {TopicId(row["topic_id"]): row["topic"] for row in rows}


def check_not_ahead(states: States, log: TableLog, names: Mapping[TopicId, str]) -> None:
    """Raise `InvalidRequest` if there is anything that the records of the snapshot do not have."""
    if unknown := next((k for k in next_offsets_in(log.txns) if k.topic_id not in names), None):
        raise _clocks(f"topic {unknown.topic_id} has records and is not there yet")
    named = Counter(names.values())
    ids = {name: topic_id for topic_id, name in names.items() if named[name] == 1}
    for state in states.values():
        end = log.txns.get(offset_mark(state.topic_id, state.partition), 0)
        if (reach := reach_of(state)) > end:
            raise _clocks(f"group {state.group} is at {reach} of a partition that ends at {end}")
        for (topic, partition), offset in newest_dead_letters(state).items():
            # Of a name that several topics have had, nobody knows which one it was.
            if topic in ids and offset >= log.txns.get(offset_mark(ids[topic], partition), 0):
                raise _clocks(
                    f"a dead letter of group {state.group} stands at {topic}/{partition}@{offset}, "
                    "which is not there yet"
                )


def reach_of(state: GroupState) -> int:
    """One past the highest offset of which the group knows anything: it is settled, open or in
    flight, or below its position. Pure.
    """
    seen = state.records.seen
    return max(state.committed_offset or 0, int(seen[-1, 1]) if len(seen) else 0)


def newest_dead_letters(state: GroupState) -> dict[tuple[str, int], int]:
    """The highest offset of its dead letters in each partition of a dead-letter topic. Pure."""
    newest: dict[tuple[str, int], int] = {}
    for place in filter(None, state.records.ends.dead["dead_letter"].tolist()):
        topic, partition, offset = parse_place(place)
        newest[topic, partition] = max(offset, newest.get((topic, partition), 0))
    return newest


def _clocks(what: str) -> InvalidRequest:
    return InvalidRequest(
        f"{what}: the clocks of the services differ by more than {SKEW_MS / 1_000:g} s",
        hint="give another time, or fork the queue as it is",
    )
