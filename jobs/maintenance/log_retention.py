"""Expired files leave `log`, and old hours `rejects`. The rules:
`jobs.maintenance.retention_rules`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from jobs.maintenance.damaged_files import DamagedFiles
from jobs.maintenance.retention_rules import Limits, LogFile, Plan, needs, plan_retention
from jobs.maintenance.shard_rules import CLOSED_AFTER_US, hour_end
from jobs.ordering.rejects import unfinished_in
from lakequeue.clock import Micros, hour_of
from lakequeue.errors import CommitConflict, CorruptTable, TailLost
from lakequeue.records import Offset, Partition, Stamp, TopicId
from lakequeue.steps import Step, reach
from queue_tables.delta.actions import Add
from queue_tables.delta.maintenance import rewrite_files
from queue_tables.delta.stamps import sound_stamp
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import Tail, find_version
from queue_tables.files.stats import FileStats, newest_micros
from queue_tables.groups.state import read_group_state
from queue_tables.log.index import PartitionKey
from queue_tables.log.marks import LogMarks
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import WATERMARKS
from queue_tables.schema.schemas import LOG, METRICS, REJECTS
from queue_tables.schema.topic_rules import Topic
from queue_tables.shards.shards import shard_path
from queue_tables.topics import TopicStore

LATE_US = 3_600 * 1_000_000
"""A node may be this slow between stamping a group and committing it."""
GONE_KEPT_US = 3_600 * 1_000_000
"""Records of a topic that was deleted go when they are this old."""
_ATTEMPTS = 5
_LAST_HOUR = "9999-12-31T22"
_LAST_ID = "~"
"""Above every topic id, which is hexadecimal."""
_SIGHT = 256


class _Box(NamedTuple):
    """What the statistics of a file say."""

    low: str
    """Lowest and highest topic id in it."""
    high: str
    ordered_at: Micros
    """Of its newest record, rounded up to milliseconds."""
    stamp: Stamp
    """The highest."""


def retain_log(
    root: QueueRoot, now: Micros, *, dry_run: bool, forgotten_before: Micros | None = None
) -> dict[str, Any]:
    """Remove the expired files of `log` in one commit; the report. Plans anew if it was stale.

    A file that cannot be read stays, and so do higher offsets of the partitions in it; the report
    names it.
    `forgotten_before`: groups that nothing was heard of since then hold nothing.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _retain_log(root, now, dry_run, forgotten_before)
        except (CommitConflict, FileNotFoundError):
            continue  # another run of maintenance was faster
    return _retain_log(root, now, dry_run, forgotten_before)


def _retain_log(
    root: QueueRoot, now: Micros, dry_run: bool, forgotten_before: Micros | None
) -> dict[str, Any]:
    table = TableLog(root.store, LOG.name).open()
    reader = LogReader(root, ("offset",))
    # Read after `log`: every topic that has records there is known, or is gone.
    topics = {topic.topic_id: topic for topic in TopicStore(root).list()}
    damaged = DamagedFiles(root.store, LOG.name)
    plan = _plan(root, reader, topics, now, forgotten_before, damaged)
    reach(Step.RETENTION_PLANNED)
    report = _report(plan, topics) | {"version": int(table.version)} | damaged.report()
    if plan.drop and not dry_run:
        table.refresh()
        drop = [table.files[file.path] for file in plan.drop if file.path in table.files]
        if len(drop) < len(plan.drop):
            raise CommitConflict("planned files have left the log", stored="no", commits=())
        report["version"] = int(
            rewrite_files(table, drop, (), {"retention": True}, data_change=True)
        )
        reach(Step.RETENTION_LOG_COMMITTED)
    return report


def _plan(
    root: QueueRoot,
    reader: LogReader,
    topics: Mapping[TopicId, Topic],
    now: Micros,
    forgotten_before: Micros | None,
    damaged: DamagedFiles,
) -> Plan:
    closed_before = hour_of(now - CLOSED_AFTER_US)
    limits = _limits(root, topics, now, forgotten_before) | {
        topic_id: Limits(before=now - GONE_KEPT_US)
        for topic_id in reader.topic_ids() - topics.keys()
    }
    files: list[LogFile] = []
    newer: Counter[TopicId] = Counter()
    boxes: dict[str, _Box] = {}
    for add in reader.files() if limits else ():
        box, closed = _box_of(add), (add.partition_values["hour"] or "") < closed_before
        boxes[add.path] = box
        if not _may_go(box, limits, closed=closed):
            continue
        parts = damaged.unless_damaged(add.path, partial(reader.parts, add.path))
        if parts is None:
            continue
        file = LogFile(add.path, add.size, box.ordered_at, box.stamp, parts)
        if closed:
            files.append(file)
        else:
            newer.update({t: file.bytes_of(t) for t in file.topic_ids})
    keys = {key for file in files for key in file.parts}
    return plan_retention(files, limits, _firsts(reader, keys, boxes, damaged), newer)


def _limits(
    root: QueueRoot,
    topics: Mapping[TopicId, Topic],
    now: Micros,
    forgotten_before: Micros | None,
) -> dict[TopicId, Limits]:
    """Of the topics that have any."""
    limited = [t for t in topics.values() if t.retention_ms or t.retention_bytes]
    if not limited:
        return {}
    oldest = min(oldest_unordered(root), now - LATE_US)
    needed = needs(
        read_group_state(root).states.values(),
        {t.topic_id: t.partitions for t in limited},
        forgotten_before,
    )
    return {
        t.topic_id: Limits(
            before=None if t.retention_ms is None else now - t.retention_ms * 1_000,
            most_bytes=t.retention_bytes,
            stamp_below=Stamp(oldest - t.dedup_window_ms * 1_000),
            needed={} if t.expire_unconsumed else needed.get(t.topic_id, {}),
        )
        for t in limited
    }


def oldest_unordered(root: QueueRoot) -> int:
    """The lowest stamp that waits to be ordered: ids are looked up from a window below it.

    Far in the future if nothing waits.
    """
    marks = WATERMARKS.read(LogMarks(root).read())
    oldest = 1 << 62
    for shard in root.shards("inbox"):
        path, mark = shard_path("inbox", shard), marks.get(shard, Stamp(0))
        try:
            start = find_version(root.store, path, mark)
            tail = Tail(root.store, path, start, pass_torn=True)
            while commits := tail.poll(_SIGHT):
                # Rows under an odd stamp wait as well, until it is put right; and what a torn
                # commit brings.
                waiting = [
                    max(sound_stamp(c) or 0, mark + 1)
                    for c in commits
                    if c.torn or "stamp" in c.info
                ]
                if waiting:
                    oldest = min(oldest, *waiting)
                    break
        except (FileNotFoundError, TailLost):
            if root.is_table(path):
                raise CommitConflict(f"{path} moved on", stored="no", commits=()) from None
    return oldest


def _may_go(box: _Box, limits: Mapping[TopicId, Limits], *, closed: bool) -> bool:
    """Whether a file has to be looked into, by its statistics alone. Pure."""
    mine = [limit for topic_id, limit in limits.items() if box.low <= topic_id <= box.high]
    if any(limit.most_bytes is not None for limit in mine):
        return True
    return closed and any(m.before is not None and box.ordered_at < m.before for m in mine)


def _box_of(add: Add) -> _Box:
    stats = FileStats(add.stats)
    newest = newest_micros(add.stats, "ordered_at")
    if newest is None:
        # A bound that cannot be said is left out: then the hour of the file is one.
        newest = hour_end(add.partition_values["hour"] or _LAST_HOUR)
    stamp = stats.high("stamp", int)
    return _Box(
        *stats.bounds("topic_id", str, "", _LAST_ID),
        newest,
        Stamp(newest if stamp is None else stamp),
    )


def _firsts(
    reader: LogReader,
    keys: Iterable[PartitionKey],
    boxes: Mapping[str, _Box],
    damaged: DamagedFiles,
) -> dict[PartitionKey, Offset]:
    """Where partitions begin; not those that may begin in a file that cannot be read."""
    firsts: dict[PartitionKey, Offset] = {}
    unknown: set[str] = set()
    for key in keys:
        try:
            firsts[key] = reader.first_offset(TopicId(key.topic_id), Partition(key.partition))
        except (CorruptTable, FileNotFoundError):
            unknown.add(key.topic_id)
    # The file may be one that is too young to go. Then nobody has looked into it yet.
    for path, box in sorted(boxes.items(), key=lambda one: one[0] not in damaged):
        mine = {topic_id for topic_id in unknown if box.low <= topic_id <= box.high}
        if mine and damaged.unless_damaged(path, partial(reader.parts, path)) is None:
            unknown -= mine
    return firsts


def _report(plan: Plan, topics: Mapping[TopicId, Topic]) -> dict[str, Any]:
    rows: Counter[TopicId] = Counter()
    firsts: dict[TopicId, dict[str, int]] = {}
    for file in plan.drop:
        for key, (first, last) in file.parts.items():
            topic_id = TopicId(key.topic_id)
            rows[topic_id] += last - first + 1
            ends = firsts.setdefault(topic_id, {})
            ends[str(key.partition)] = max(ends.get(str(key.partition), 0), last + 1)
    return {
        "files_removed": len(plan.drop),
        "bytes_removed": sum(file.size for file in plan.drop),
        "topics": {
            topics[t].topic if t in topics else f"deleted {t}": {
                "topic_id": t,
                "rows_removed": rows[t],
                "first_offsets": firsts.get(t, {}),
                "files_kept": dict(plan.kept.get(t, {})),
                "kept_for_groups": sorted(plan.held_by.get(t, ())),
            }
            for t in sorted(rows.keys() | plan.kept.keys())
        },
    }


def retain_rejects(root: QueueRoot, now: Micros, keep_us: int, *, dry_run: bool) -> dict[str, Any]:
    """Remove the hours of `rejects` that are older than `keep_us`; the report.

    None while a batch has its rejects here and is not in `log` yet: its leader reads them.
    """
    table = TableLog(root.store, REJECTS.name).open()
    waits = unfinished_in(table.txns, WATERMARKS.read(LogMarks(root).read()))
    old = [
        add
        for add in table.files.values()
        if not waits and hour_end(add.partition_values["hour"] or "") <= now - keep_us
    ]
    report = let_go(table, old, dry_run=dry_run)
    if old and not dry_run:
        reach(Step.RETENTION_REJECTS_COMMITTED)
    return report


def retain_metrics(root: QueueRoot, now: Micros, keep_us: int, *, dry_run: bool) -> dict[str, Any]:
    """Remove the files of `metrics` of which every hour ended `keep_us` ago or more; the report."""
    table = TableLog(root.store, METRICS.name).open()
    old = [
        add
        for add in table.files.values()
        if hour_end(FileStats(add.stats).high("hour", str) or "") <= now - keep_us
    ]
    return let_go(table, old, dry_run=dry_run)


def let_go(table: TableLog, old: Sequence[Add], *, dry_run: bool) -> dict[str, Any]:
    """Take these files out of a table, all or none; the report."""
    if old and not dry_run:
        try:
            rewrite_files(table, old, (), {"retention": True}, data_change=True)
        except CommitConflict:
            old = ()  # another run of maintenance was faster: next time
    return {"files_removed": len(old), "bytes_removed": sum(add.size for add in old)}
