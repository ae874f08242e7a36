"""Files of the inbox that could not be read: what is kept of them, for who has to look into all.

Each stands in `rejects` as its bytes, and lies in its shard until retention. Nobody can say whose
records are in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakequeue.errors import CorruptTable
from lakequeue.records import Stamp
from lakequeue.wire import ERASED_HEADER
from queue_tables.delta.actions import Add, commit_path
from queue_tables.delta.commit_json import parse
from queue_tables.delta.stamps import sound_stamp
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import commit_versions
from queue_tables.files.parquet import read_data_file
from queue_tables.schema.odd_bytes import headers_of
from queue_tables.schema.reasons import Reason

Place = tuple[str, int]
"""(shard, stamp): the group commit."""


@dataclass(slots=True)
class Unreadable:
    """What stands in `rejects` as the bytes of a file."""

    rows: dict[str, list[int]] = field(default_factory=dict)
    """File of `rejects` → rows in it."""
    places: set[Place] = field(default_factory=set)
    said: list[dict[str, Any]] = field(default_factory=list)
    """For people: shard, stamp, what was wrong, and how many bytes there are."""


def unreadable_in(rejects: TableLog, outside: Iterable[str] | None = None) -> Unreadable:
    """Those that are not erased yet, in the table; or in files `outside` of it, if they are there.

    A file of the table that cannot be read raises.
    """
    found = Unreadable()
    columns = ["shard", "stamp", "reason", "detail", "value", "headers"]
    for path in rejects.files if outside is None else outside:
        try:
            rows = read_data_file(rejects.store, rejects.path, path, columns)
        except (FileNotFoundError, CorruptTable):
            if outside is None:
                raise
            continue
        at = [n for n, why in enumerate(rows["reason"].to_pylist()) if why == Reason.UNREADABLE]
        rows = rows.take(pa.array(at, pa.int64()))
        headers = headers_of(rows["headers"])
        for number, row, heads in zip(at, rows.to_pylist(), headers, strict=True):
            if row["value"] is None or any(name == ERASED_HEADER for name, _ in heads):
                continue
            found.rows.setdefault(path, []).append(number)
            found.places.add((row["shard"], row["stamp"]))
            said = {name: row[name] for name in ("shard", "stamp", "detail")}
            found.said.append(said | {"bytes": len(row["value"])})
    return found


def passed_unreadable(table: TableLog, stamps: Collection[int], done: Stamp) -> list[Add]:
    """Files of an inbox shard that cannot be read, and were put aside under one of `stamps`."""
    bad = [add for add in table.files.values() if not _can_be_read(table, add)]
    if not bad:
        return []
    came: dict[str, int] = {}
    for version in commit_versions(table.store, table.path):
        commit = parse(version, table.store.get(commit_path(table.path, version)))
        came |= {add.path: sound_stamp(commit) or 0 for add in commit.adds}
    # A commit is cleaned up when it was ordered: what has none any more was passed long ago.
    passed = {stamp for stamp in stamps if stamp <= done}
    return [add for add in bad if add.path not in came or came[add.path] in passed]


def _can_be_read(table: TableLog, add: Add) -> bool:
    try:
        read_data_file(table.store, table.path, add.path)
    except CorruptTable:
        return False
    return True
