"""What the inbox holds against what the order job made of it, read from the tables alone.

`judge(root)` raises `AssertionError` unless every acknowledged row stands exactly once in `log` or
in `rejects`, with its values; offsets are gapless from 0 and agree with the watermarks in `log`;
rows of a shard keep their order within a partition; no message id has two offsets; and every
duplicate names its original.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from lakequeue.errors import ShardSealed
from lakequeue.records import ShardName, Stamp
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.files.parquet import read_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX, LOG, REJECTS
from queue_tables.shards.shards import ShardWriter
from tests.support.data.rows import rows_of

Row = dict[str, Any]
Place = tuple[str, int, int]
"""(shard, stamp, row)"""
_COPIED = (
    "topic_id",
    "partition",
    "key",
    "value",
    "headers",
    "timestamp",
    "message_id",
    "deliver_at",
    "expires_at",
)


class Inbox:
    """An ingest node's hand: commits groups of records with the stamps it is told."""

    def __init__(self, root: QueueRoot, node: str) -> None:
        self._root, self._node = root, node
        self._writer = ShardWriter.create(root, "inbox", node)

    @property
    def name(self) -> ShardName:
        """The shard."""
        return self._writer.name

    def commit(self, stamp: int, records: Sequence[Row]) -> None:
        """One group. Records have topic_id, partition, value; message_id, headers, request, …"""
        columns: dict[str, Sequence[Any]] = {
            "topic_id": [r["topic_id"] for r in records],
            "partition": [r.get("partition", 0) for r in records],
            "key": [r.get("key") for r in records],
            "value": [r["value"] for r in records],
            "headers": [r.get("headers", [{"key": "h", "value": r["value"][:3]}]) for r in records],
            "timestamp": [stamp] * len(records),
            "message_id": [r.get("message_id") for r in records],
            "deliver_at": [r.get("deliver_at") for r in records],
            "expires_at": [r.get("expires_at") for r in records],
            "request": [r.get("request") for r in records],
            "atomic": [r.get("atomic", False) for r in records],
            "bytes": [len(r["value"]) for r in records],
        }
        rows = rows_of(INBOX, columns, without=("hour", "stamp", "row"))
        try:
            self._writer.append(rows, Stamp(stamp))
        except ShardSealed:
            # No node of this name is registered, so a leader took it for dead.
            self._writer = ShardWriter.create(self._root, "inbox", self._node)
            self._writer.append(rows, Stamp(stamp))


def rows_in(root: QueueRoot, path: str) -> list[Row]:
    """Every row of a table, from its newest snapshot."""
    files = load_snapshot(root.store, path).files
    return [row for file in files for row in read_data_file(root.store, path, file).to_pylist()]


def log_rows(root: QueueRoot) -> list[Row]:
    """The log, by (topic_id, partition, offset)."""
    rows = rows_in(root, LOG.name)
    return sorted(rows, key=lambda r: (r["topic_id"], r["partition"], r["offset"]))


def reject_rows(root: QueueRoot) -> list[Row]:
    """The rejects, by place."""
    return sorted(rows_in(root, REJECTS.name), key=_place)


def _place(row: Row) -> Place:
    return row["shard"], row["stamp"], row["row"]


def judge(root: QueueRoot, *, complete: bool = True) -> None:
    """See the module. `complete=False`: rows above the watermarks may be in neither table."""
    txns = load_snapshot(root.store, LOG.name).txns
    inbox = {
        (str(shard), row["stamp"], row["row"]): row
        for shard in root.shards("inbox")
        for row in rows_in(root, f"inbox/{shard}")
    }
    log, rejects = log_rows(root), reject_rows(root)
    seen = Counter(_place(row) for row in (*log, *rejects))
    twice = [place for place, count in seen.items() if count > 1]
    assert not twice, f"in log or rejects more than once: {twice[:5]}"
    assert seen.keys() <= inbox.keys(), "rows that nobody sent"
    passed = {p for p in inbox if p[1] <= txns.get(f"inbox/{p[0]}", 0)}
    lost = sorted((inbox.keys() if complete else passed) - seen.keys())
    assert not lost, f"acknowledged and nowhere: {lost[:5]}"
    ahead = [_place(row) for row in log if _place(row) not in passed]
    assert not ahead, f"in log above the watermark: {ahead[:5]}"
    for row in (*log, *rejects):
        sent = inbox[_place(row)]
        assert all(row[c] == sent[c] for c in _COPIED), f"changed on the way: {_place(row)}"
    _judge_offsets(log, txns)
    # Rejects of a batch stand before its rows do.
    _judge_ids(log, [row for row in rejects if _place(row) in passed])


def _judge_offsets(log: list[Row], txns: dict[str, int]) -> None:
    partitions: dict[tuple[str, int], list[Row]] = defaultdict(list)
    for row in log:
        partitions[row["topic_id"], row["partition"]].append(row)
    for (topic_id, partition), rows in partitions.items():
        offsets = [row["offset"] for row in rows]
        assert offsets == list(range(len(rows))), f"gaps or repeats in {topic_id}/{partition}"
        assert txns[f"offset/{topic_id}/{partition}"] == len(rows)
        last: dict[str, tuple[int, int]] = {}
        for row in rows:
            at = row["stamp"], row["row"]
            assert last.get(row["shard"], (0, -1)) < at, f"out of order: {_place(row)}"
            last[row["shard"]] = at


def _judge_ids(log: list[Row], rejects: list[Row]) -> None:
    ids = Counter((r["topic_id"], r["message_id"]) for r in log if r["message_id"])
    twice = [i for i, count in ids.items() if count > 1]
    assert not twice, f"ids with two offsets: {twice[:5]}"
    places = {(r["topic_id"], r["partition"], r["offset"]): r for r in log}
    for row in rejects:
        if row["reason"] != "duplicate":
            continue
        place = row["topic_id"], row["original_partition"], row["original_offset"]
        assert place in places, f"duplicate of nothing: {_place(row)}"
        assert places[place]["message_id"] == row["message_id"], f"wrong original: {_place(row)}"
