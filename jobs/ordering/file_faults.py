"""Inbox files that cannot be read: what is put aside of them, and which shard has to wait.

A file that is there and no Parquet file is put aside as the bytes that it is, and its shard goes
on. A file that is not there leaves nothing to put aside: its shard waits at the commit that names
it, and all other shards go on. It may be brought back from a backup. Or one gives its records up by
putting an empty file in its place, which is put aside like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from jobs.ordering.reject_rows import Key
from jobs.rows.projected_rows import PROJECTED
from jobs.rows.row_faults import RowFault
from lakequeue.errors import CorruptTable, StorageUnavailable
from lakequeue.records import ShardName, Stamp
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.store import Store
from queue_tables.files.parquet import DataFile, read_data_file
from queue_tables.files.stats import FileStats
from queue_tables.root import QueueRoot
from queue_tables.schema.reasons import Reason

MOST_BYTES = 256 << 20
"""A larger file is not put aside: its shard waits for a person."""


MOST_RECORDS = 1 << 20
"""Of an unreadable file; a record takes a byte of it at least. What more it may have had is said by
its first row alone."""


class BlockedShard(NamedTuple):
    """A shard that waits."""

    stamp: Stamp
    """Of the commit that it waits at: nothing from there on is ordered."""
    after: Stamp
    """What comes up to there is ordered."""
    path: str
    """The file, relative to the root."""
    why: str

    @property
    def remedy(self) -> str:
        """What lets it go on."""
        return remedy_of(self.path)


def remedy_of(path: str) -> str:
    """What lets a shard go on that waits for this file."""
    return (
        f"restore {path} from a backup; or, to give its records up, put an empty file "
        "there: it is put aside in rejects"
    )


def split_off_missing(
    rows: pa.Table, store: Store, waiting: Mapping[ShardName, BlockedShard]
) -> tuple[pa.Table, dict[ShardName, BlockedShard]]:
    """Rows (`PROJECTED`) that can be ordered now, and the shards that have to wait from now on.

    `waiting`: those that wait already; nothing of them is ordered.
    """
    rows = _before(rows, waiting)
    held: dict[ShardName, BlockedShard] = {}
    for at, fault in _file_faults(rows):
        path = rows["file"][at].as_py()
        if fault.reason is Reason.UNREADABLE:
            if _can_be_read(store, path):
                raise StorageUnavailable(
                    f"{path} could not be read, and can be now", retry_after_s=1.0
                )
            if _size(store, path) <= MOST_BYTES:
                continue
        shard, stamp = ShardName(rows["shard"][at].as_py()), Stamp(rows["stamp"][at].as_py())
        if shard not in held or stamp < held[shard].stamp:
            held[shard] = BlockedShard(stamp, fault.after, path, fault.detail)
    return _before(rows, held), held


def _before(rows: pa.Table, held: Mapping[ShardName, BlockedShard]) -> pa.Table:
    """The rows that are not of a shard that waits, or come before what it waits at."""
    if not held:
        return rows
    stamps = rows["stamp"].to_numpy()
    keep = np.ones(len(stamps), bool)
    shards = np.asarray(rows["shard"].to_pylist(), object)
    for shard, last in held.items():
        keep &= (shards != shard) | (stamps <= last.after)
    return rows.filter(pa.array(keep))


def is_there(store: Store, held: BlockedShard) -> bool:
    """Whether the file can be read now, or put aside."""
    try:
        return store.size(held.path) <= MOST_BYTES
    except FileNotFoundError:
        return False


def settled_files(rows: pa.Table, root: QueueRoot) -> pa.Table:
    """A row for each record that an unreadable file should have, in place of its one."""
    more: list[pa.Table] = []
    for at, fault in _file_faults(rows):
        path = rows["file"][at].as_py()
        count = _records_of(root, path)
        if count > 1:
            said = RowFault(fault.reason, f"{fault.detail} (the bytes stand at row 0)").text()
            same = rows.slice(at, 1).take(pa.array(np.zeros(count - 1, np.int64)))
            same = _with(same, "row", pa.array(np.arange(1, count)))
            more.append(_with(same, "fault", pa.repeat(pa.scalar(said), count - 1)))
    return pa.concat_tables([rows, *more]).unify_dictionaries().combine_chunks() if more else rows


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    at = PROJECTED.get_field_index(name)
    return rows.set_column(at, PROJECTED.field(at), values.cast(PROJECTED.field(at).type))


def with_verdicts(rows: pa.Table, recorded: Mapping[Key, str | None]) -> pa.Table:
    """The faults that a leader who died has recorded of these rows are theirs."""
    known = {key: fault for key, fault in recorded.items() if fault is not None}
    if not known:
        return rows
    keys = zip(*(rows[name].to_pylist() for name in ("shard", "stamp", "row")), strict=True)
    faults = [
        known.get(key) or fault for key, fault in zip(keys, rows["fault"].to_pylist(), strict=True)
    ]
    at = PROJECTED.get_field_index("fault")
    return rows.set_column(at, PROJECTED.field(at), pa.array(faults, pa.string()))


def _file_faults(rows: pa.Table) -> list[tuple[int, RowFault]]:
    faults = rows["fault"]
    if faults.null_count == len(faults):
        return []
    read = [(int(at), RowFault.of(faults[int(at)].as_py())) for at in _valid(faults)]
    return [(at, fault) for at, fault in read if fault.is_of_a_file]


def _valid(column: pa.ChunkedArray) -> list[int]:
    return np.flatnonzero(np.asarray(column.is_valid())).tolist()


def _size(store: Store, path: str) -> int:
    try:
        return store.size(path)
    except FileNotFoundError:
        return MOST_BYTES + 1


def _records_of(root: QueueRoot, path: str) -> int:
    """How many records the file should have: by its footer, else by the commit; 1 if none tells.

    Neither is believed beyond what can be in a file of that size, as it was when it was committed.
    """
    kind, shard, name = path.split("/", 2)
    table = f"{kind}/{shard}"
    count, most = _in_footer(root.store, table, name), MOST_RECORDS
    with suppress(KeyError, FileNotFoundError, CorruptTable):
        add = load_snapshot(root.store, table, pass_torn=True).files[name]
        count, most = count or FileStats(add.stats).records, min(most, add.size)
    return max(1, min(count or 1, most))


def _in_footer(store: Store, table: str, name: str) -> int | None:
    try:
        with DataFile(store, table, name) as file:
            return int(file.begins[-1])
    except (CorruptTable, FileNotFoundError):
        return None


def _can_be_read(store: Store, path: str) -> bool:
    kind, shard, name = path.split("/", 2)
    try:
        read_data_file(store, f"{kind}/{shard}", name)
    except (CorruptTable, FileNotFoundError):
        return False
    return True
