"""Erases records: their values go, a tombstone stays at each offset. For `lakequeue erase`.

Copies go first, the records in `log` last, in one commit: killed anywhere, the same call finds what
is left by the records that are still there. What is erased:

| where | what happens |
|---|---|
| `log`, and dead letters in it | files are rewritten: key and value null, a header says so |
| `rejects`: duplicates of them | the same |
| files that could not be read | told, since nobody can look into them; erased if one says so |
| inbox shards | the file they came in is dropped and deleted: its rows are ordered |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.maintenance.unreadable_files import Unreadable, passed_unreadable, unreadable_in
from lakequeue.clock import Micros, hour_of
from lakequeue.errors import CommitConflict, CorruptTable
from lakequeue.records import Format, ShardName, Stamp
from lakequeue.steps import Step, reach
from lakequeue.wire import ERASED_HEADER, DeadLetterHeader
from queue_tables.delta.actions import Add
from queue_tables.delta.columns import HEADERS
from queue_tables.delta.maintenance import ERASED_INFO, rewrite_files
from queue_tables.delta.table import TableLog
from queue_tables.files.deletion_vectors import deleted_rows, left_of
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.files.stats import FileStats
from queue_tables.log.marks import LogMarks
from queue_tables.log.writer import write_log_file
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import WATERMARKS
from queue_tables.schema.odd_bytes import Headers, headers_of, text_of, texts_of
from queue_tables.schema.schemas import LOG, REJECTS
from queue_tables.schema.topic_rules import Topic
from queue_tables.shards.shards import shard_path
from queue_tables.topics import TopicStore
from queue_tables.upkeep.clean_up import delete_removed, left_behind

Match = Callable[[pa.Table], pa.Table]
"""Rows with the columns of `log` (and `at`) -> those that are to be erased, in their order."""
Place = tuple[str, int]
"""(shard, stamp): the group commit that a row came in."""
_ATTEMPTS = 5


@dataclass(slots=True)
class _Found:
    """What is to be erased."""

    log: dict[str, list[int]] = field(default_factory=dict)
    """File → rows in it."""
    rejects: dict[str, list[int]] = field(default_factory=dict)
    places: set[Place] = field(default_factory=set)
    offsets: set[tuple[int, int]] = field(default_factory=set)
    """(partition, offset) of the records themselves."""
    ids: set[bytes] = field(default_factory=set)
    """Message ids of these."""
    dead_letters: int = 0

    def count(self) -> dict[str, int]:
        return {
            "records": len(self.offsets),
            "dead_letters": self.dead_letters,
            "rejects": sum(map(len, self.rejects.values())),
        }


def erase(
    root: QueueRoot,
    name: str,
    match: Match,
    now: Micros,
    *,
    dry_run: bool,
    delete_now: bool = False,
    delete_unreadable: bool = False,
) -> dict[str, Any]:
    """Erase what `match` takes of topic `name`, as far as it is ordered; the report.

    `delete_now`: files that hold them and have left their table, now or by an earlier rewriting,
    are deleted at once, not after the grace of vacuum. `unreadable` in the report: files that were
    put aside as their bytes, and may hold such records; `delete_unreadable`: they go as well, with
    whatever else is in them. Raises `UnknownTopic`, and `CommitConflict`
    if other maintenance was faster again and again.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return _erase(root, name, match, now, dry_run, delete_now, delete_unreadable)
        except (CommitConflict, FileNotFoundError):
            if attempt == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def _erase(
    root: QueueRoot,
    name: str,
    match: Match,
    now: Micros,
    dry_run: bool,
    delete_now: bool,
    delete_unreadable: bool,
) -> dict[str, Any]:
    topics = TopicStore(root)
    topic = topics.get(name)
    letters = next((t for t in topics.list() if t.topic == topic.dead_letters), None)
    log, rejects = (TableLog(root.store, table.name).open() for table in (LOG, REJECTS))
    found = _find(log, rejects, topic, letters, match)
    report: dict[str, Any] = {"topic": name, "topic_id": topic.topic_id} | found.count()
    report["offsets"] = _by_partition(found.offsets)
    unread = unreadable_in(rejects)
    report["unreadable"] = unread.said
    reach(Step.ERASE_PLANNED)
    if dry_run:
        return report
    if delete_unreadable:
        report |= {"unreadable": [], "unreadable_deleted": unread.said}
        for path, numbers in unread.rows.items():
            found.rejects[path] = sorted({*found.rejects.get(path, ()), *numbers})
    else:
        unread = Unreadable()
    report["inbox_files_deleted"] = _erase_inbox(root, found.places, unread.places)
    for shard in root.shards("inbox"):
        # What a run of retention left behind when it was killed may hold copies as well.
        delete_removed(root, shard_path("inbox", shard))
    reach(Step.ERASE_INBOX_DONE)
    _rewrite(rejects, found.rejects, now, _write_rejects)
    reach(Step.ERASE_REJECTS_COMMITTED)
    _rewrite(log, found.log, now, _write_log)
    reach(Step.ERASE_LOG_COMMITTED)
    # The proof: everything is read once more, and what is no part of the tables any more.
    left = _find(log, rejects, topic, letters, match).count()
    behind = {table.name: left_behind(root, table.name) for table in (LOG, REJECTS)}
    outside = {name: [*files.removed, *files.unnamed] for name, files in behind.items()}
    still = _find(log, rejects, topic, letters, match, outside, found)
    in_rejects = {*still.rejects}
    if delete_unreadable:
        in_rejects |= unreadable_in(rejects, outside[REJECTS.name]).rows.keys()
    old: list[str] = []
    for name, paths in ((LOG.name, {*still.log}), (REJECTS.name, in_rejects)):
        for path in sorted(paths):
            # What no commit names may be another process's, which is about to give it up.
            if delete_now and path in behind[name].removed:
                root.store.delete(f"{name}/{path}")
            else:
                old.append(f"{name}/{path}")
    return report | {"left": left, "old_files": [path for path in old if root.store.exists(path)]}


# -- finding --------------------------------------------------------------------------------------


def _find(
    log: TableLog,
    rejects: TableLog,
    topic: Topic,
    letters: Topic | None,
    match: Match,
    outside: Mapping[str, Iterable[str]] | None = None,
    known: _Found | None = None,
) -> _Found:
    """What is to be erased in the tables; or of what is `known` to be in files `outside` of them.

    A file of a table that is gone raises `FileNotFoundError`, one outside is gone.
    """
    found = _Found() if known is None else _Found(offsets=set(known.offsets), ids=set(known.ids))
    in_log: Mapping[str, Add | None] = log.files
    in_rejects: Iterable[str] = rejects.files
    if outside is not None:
        in_log, in_rejects = dict.fromkeys(outside[LOG.name]), outside[REJECTS.name]
    mine = [path for path, add in in_log.items() if _may_hold(add, topic)]
    for path, rows in _each(log, mine, outside is not None):
        hits = _hits(rows, topic, match)
        if hits.num_rows:
            _note(found, found.log, path, hits)
            pairs = zip(hits["partition"].to_pylist(), hits["offset"].to_pylist(), strict=True)
            found.offsets |= set(pairs)
            found.ids |= set(hits["message_id"].cast(pa.binary()).to_pylist()) - {None}
    if letters is not None:
        theirs = [path for path, add in in_log.items() if _may_hold(add, letters)]
        for path, rows in _each(log, theirs, outside is not None):
            hits = _letters(rows, topic, letters, found.offsets, match)
            if hits.num_rows:
                found.dead_letters += hits.num_rows
                _note(found, found.log, path, hits)
    for path, rows in _each(rejects, in_rejects, outside is not None):
        original = rows.append_column("offset", rows["original_offset"])
        ids = pa.array(sorted(found.ids), pa.binary())
        same = pc.is_in(rows["message_id"].cast(pa.binary()), ids)
        hits = pa.concat_tables([_hits(original, topic, match), _of(original.filter(same), topic)])
        if hits.num_rows:
            _note(found, found.rejects, path, hits)
    return found


def _each(
    table: TableLog, paths: Iterable[str], may_be_gone: bool
) -> Iterator[tuple[str, pa.Table]]:
    """Files with the number of each row, `at`. One that may be gone may be half written as well."""
    for path in paths:
        try:
            rows = read_data_file(table.store, table.path, path)
        except (FileNotFoundError, CorruptTable):
            if may_be_gone:
                continue
            raise
        yield path, rows.append_column("at", pa.array(range(rows.num_rows), pa.int64()))


def _of(rows: pa.Table, topic: Topic) -> pa.Table:
    """Those of the topic that are not erased yet."""
    rows = rows.filter(pc.equal(rows["topic_id"], topic.topic_id))
    return rows.filter(
        pa.array([not _is_erased(h) for h in headers_of(rows["headers"])], pa.bool_())
    )


def _is_erased(headers: Headers) -> bool:
    return any(name == ERASED_HEADER for name, _ in headers)


def _hits(rows: pa.Table, topic: Topic, match: Match) -> pa.Table:
    return match(_of(rows, topic))


def _letters(
    rows: pa.Table, topic: Topic, letters: Topic, offsets: set[tuple[int, int]], match: Match
) -> pa.Table:
    """Dead letters of erased records, and those whose record is gone and would be erased."""
    rows = _of(rows, letters)
    wanted: list[int] = []
    ids = texts_of(rows["message_id"])
    for at, headers in enumerate(headers_of(rows["headers"])):
        said = {name: text_of(value or b"") for name, value in headers}
        where = [said.get(n, "") for n in (DeadLetterHeader.PARTITION, DeadLetterHeader.OFFSET)]
        if said.get(DeadLetterHeader.TOPIC) != topic.topic or not all(map(str.isdecimal, where)):
            continue
        partition, offset = map(int, where)
        died_here = _incarnation(ids[at]) in {None, topic.topic_id}
        if (died_here and (partition, offset) in offsets) or match(
            _as_it_was(rows.slice(at, 1), topic, partition, offset)
        ).num_rows:
            wanted.append(at)
    return rows.take(pa.array(wanted, pa.int64()))


def _incarnation(letter_id: str | None) -> str | None:
    """The topic id in the message id of a dead letter (`dead_letter_id`); a redrive has others."""
    kind, *names = (letter_id or "").split(":")
    return names[1] if kind == "dead" and len(names) > 3 else None


def _as_it_was(letter: pa.Table, topic: Topic, partition: int, offset: int) -> pa.Table:
    """A dead letter under the place that the record had."""
    said = {"topic": topic.topic, "partition": partition, "offset": offset}
    for name, value in said.items():
        at = letter.schema.get_field_index(name)
        letter = letter.set_column(at, name, pa.array([value], letter.schema.field(name).type))
    return letter


def _note(found: _Found, files: dict[str, list[int]], path: str, hits: pa.Table) -> None:
    files[path] = sorted({*files.get(path, ()), *hits["at"].to_pylist()})
    shards = (shard or "" for shard in texts_of(hits["shard"]))
    found.places |= set(zip(shards, hits["stamp"].to_pylist(), strict=True))


def _may_hold(add: Add | None, topic: Topic) -> bool:
    stats = FileStats(None if add is None else add.stats)
    lowest, highest = stats.bounds("topic_id", str, "", topic.topic_id)
    return lowest <= topic.topic_id <= highest


def _by_partition(offsets: Iterable[tuple[int, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for partition, offset in sorted(offsets):
        found[str(partition)].append(offset)
    return dict(found)


# -- erasing --------------------------------------------------------------------------------------

Write = Callable[[TableLog, pa.Table, str], Add]


def _rewrite(table: TableLog, files: Mapping[str, list[int]], now: Micros, write: Write) -> None:
    """New files for old in one commit, with tombstones."""
    if not files:
        return
    gone = [path for path in files if path not in table.files]
    if gone:
        raise CommitConflict(f"{gone[0]} has left {table.path}", stored="no", commits=())
    removes = [table.files[path] for path in files]
    adds: list[Add] = []
    try:
        for old in removes:
            rows = read_data_file(table.store, table.path, old.path)
            rows = _with_tombstones(rows, files[old.path], now)
            if old.deletion_vector is not None:
                # The values of such rows still were in the file; now they are in none.
                rows = left_of(rows, deleted_rows(table.store, table.path, old.deletion_vector))
            adds.append(write(table, rows, old.partition_values["hour"] or ""))
        reach(Step.ERASE_DATA_WRITTEN)
        rewrite_files(table, removes, adds, {ERASED_INFO: True}, data_change=True)
    except CommitConflict:
        for add in adds:
            table.store.delete(f"{table.path}/{add.path}")
        raise


def _with_tombstones(rows: pa.Table, numbers: list[int], now: Micros) -> pa.Table:
    erased = pc.is_in(pa.array(range(rows.num_rows), pa.int64()), pa.array(numbers, pa.int64()))
    at = datetime.fromtimestamp(now / 1_000_000, UTC).isoformat(timespec="seconds").encode()
    instead: dict[str, pa.Scalar] = {
        "key": pa.scalar(None, pa.binary()),
        "value": pa.scalar(None, pa.binary()),
        "key_format": pa.scalar(int(Format.BYTES), pa.int32()),
        "value_format": pa.scalar(int(Format.BYTES), pa.int32()),
    }
    for name, value in instead.items():
        column = pc.if_else(erased, value, rows[name])
        rows = rows.set_column(rows.schema.get_field_index(name), name, column)
    # Those of the other rows are not looked into: they may hold what is no text.
    tombstone = pa.array([[{"key": ERASED_HEADER, "value": at}]], HEADERS)
    both = pa.concat_arrays([rows["headers"].cast(HEADERS).combine_chunks(), tombstone])
    here = np.where(erased.to_numpy(zero_copy_only=False), rows.num_rows, np.arange(rows.num_rows))
    where = rows.schema.get_field_index("headers")
    return rows.set_column(where, "headers", both.take(pa.array(here)))


def _write_log(table: TableLog, rows: pa.Table, hour: str) -> Add:
    return write_log_file(table.store, rows, hour)


def _write_rejects(table: TableLog, rows: pa.Table, hour: str) -> Add:
    return write_data_file(table.store, table.path, rows, {"hour": hour}, REJECTS)


def _erase_inbox(root: QueueRoot, places: set[Place], unread: set[Place]) -> int:
    """Drop and delete the inbox files in which erased rows came, and the `unread`; how many."""
    done = WATERMARKS.read(LogMarks(root).read())
    stamps: dict[str, set[int]] = defaultdict(set)
    for shard, stamp in places:
        stamps[shard].add(stamp)
    deleted = 0
    bad = {shard: {s for name, s in unread if name == shard} for shard, _ in unread}
    for shard in sorted(set(root.shards("inbox")) & (stamps.keys() | bad.keys())):
        path = shard_path("inbox", shard)
        table = TableLog(root.store, path).open()
        passed = done.get(ShardName(shard), Stamp(0))
        hours = {hour_of(stamp) for stamp in stamps[shard]}
        drop = [
            add
            for add in table.files.values()
            if add.partition_values["hour"] in hours and _is_of(table, add, stamps[shard], passed)
        ]
        if shard in bad:
            drop += passed_unreadable(table, bad[shard], passed)
        if drop:
            rewrite_files(table, drop, (), {ERASED_INFO: True}, data_change=True)
        for add in drop:
            root.store.delete(f"{path}/{add.path}")
        deleted += len(drop)
    return deleted


def _is_of(table: TableLog, add: Add, stamps: set[int], done: Stamp) -> bool:
    """Whether an erased row is in the file, and all of it is ordered."""
    try:
        rows = read_data_file(table.store, table.path, add.path, ["stamp"])
    except CorruptTable:
        return False  # nobody can say what is in it
    held: set[int] = set(rows["stamp"].to_pylist())
    return not held.isdisjoint(stamps) and max(held) <= done
