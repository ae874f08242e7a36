"""What the job `metrics` reads: facts of consumption, where hours end, sizes of records."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jobs.maintenance.shard_rules import hour_end, is_hour
from jobs.measuring.metrics_rules import HOUR_US, Moves, RequestedRanges
from lakequeue.clock import Micros, hour_of
from lakequeue.errors import CorruptTable, OffsetOutOfRange
from lakequeue.records import Offset, Partition, ShardName, TopicId
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file
from queue_tables.groups.facts import Key, Kind
from queue_tables.groups.record_states import SETTLES
from queue_tables.log.index import PartitionKey
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import shard_path

MEASURED = ("key", "value", "headers")
_MOVES = (Kind.COMMITTED, Kind.SEEK, Kind.GROUP_DELETED)
_KINDS = pa.array(sorted({kind.value for kind in _MOVES} | SETTLES))
_COLUMNS = ("kind", "group", "topic_id", "partition", "generation", "offset", "end_offset", "at")
_ATTEMPTS = 3
_ROWS = 20_000
_BYTES = 32 << 20


def hour_number(hour: str) -> int:
    """Hours since 1970 of `2013-01-31T07`. Pure."""
    return hour_end(hour) // HOUR_US - 1


def read_moves(root: QueueRoot, since: Micros) -> dict[Key, Moves]:
    """The facts that are in the journals, of files that may hold what was done after `since`."""
    tables: list[pa.Table] = []
    for shard in root.shards("journal"):
        tables += _facts(root, shard, hour_of(since))
    if not tables:
        return {}
    rows = pa.concat_tables(tables).combine_chunks()
    found: dict[Key, Moves] = {}
    keys = rows.group_by(["group", "topic_id", "partition"]).aggregate([]).to_pylist()
    for key in keys:
        mine = rows.filter(
            pc.and_(
                pc.equal(rows["group"], key["group"]),
                pc.and_(
                    pc.equal(rows["topic_id"], key["topic_id"]),
                    pc.equal(rows["partition"], key["partition"]),
                ),
            )
        )
        start = pc.fill_null(mine["offset"], 0).to_numpy()
        found[Key(key["group"], TopicId(key["topic_id"]), Partition(key["partition"]))] = Moves(
            mine["at"].cast(pa.int64()).to_numpy(),
            pc.fill_null(mine["generation"], 0).to_numpy(),
            start,
            pc.fill_null(mine["end_offset"], pa.scalar(-1, pa.int64())).to_numpy().clip(start + 1),
            np.asarray(pc.is_in(mine["kind"], pa.array(sorted(SETTLES)))),
        )
    return found


def _facts(root: QueueRoot, shard: ShardName, first_hour: str) -> list[pa.Table]:
    """The rows of one shard. What retention takes while this looks is old, and looked for anew."""
    path = shard_path("journal", shard)
    for attempt in range(_ATTEMPTS):
        try:
            table = TableLog(root.store, path, pass_torn=True).open()
            return [
                rows.filter(pc.is_in(rows["kind"], _KINDS))
                for add in table.files.values()
                if (add.partition_values["hour"] or "") >= first_hour
                for rows in [read_data_file(root.store, path, add.path, _COLUMNS)]
            ]
        except (FileNotFoundError, CorruptTable):
            if not root.is_table(path):
                return []
            if attempt == _ATTEMPTS - 1:
                raise
    return []


def read_ends(reader: LogReader, first_hour: int) -> dict[PartitionKey, list[tuple[int, Offset]]]:
    """(hour, last offset) of each partition in each file of `log` from an hour on."""
    found: dict[PartitionKey, list[tuple[int, Offset]]] = defaultdict(list)
    for add in reader.files():
        hour = add.partition_values["hour"] or ""
        number = hour_number(hour)
        if number >= first_hour and is_hour(hour):
            for key, (_, last) in reader.parts(add.path).items():
                found[key].append((number, last))
    return found


def measure_bytes(
    reader: LogReader, topic_id: TopicId, partition: Partition, of: RequestedRanges
) -> None:
    """Read the offsets that are asked for, each once; what retention has taken counts nothing."""
    for start, end in of.all().tolist():
        at = start
        while at < end:
            try:
                rows = reader.read_range(
                    topic_id, partition, Offset(at), min(_ROWS, end - at), _BYTES
                )
            except OffsetOutOfRange as gone:
                first = int(gone.extra["first_offset"])
                if first <= at:
                    break
                at = first
                continue
            if rows.num_rows == 0:
                break
            of.add(at, sizes_of(rows))
            at += rows.num_rows


def sizes_of(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Key + value + headers of each row, in bytes. Pure."""
    key, value, headers = (pa.concat_arrays(rows[name].chunks) for name in MEASURED)
    sizes = _lengths(key) + _lengths(value)
    flat = headers.flatten()
    if len(flat):
        each = _lengths(flat.field("key")) + _lengths(flat.field("value"))
        owners = pc.list_parent_indices(headers).to_numpy()
        sizes += np.bincount(owners, weights=each, minlength=len(sizes)).astype(np.int64)
    return sizes


def _lengths(values: pa.Array) -> npt.NDArray[np.int64]:
    lengths = pc.fill_null(pc.binary_length(values), 0)
    return np.array(lengths.to_numpy(zero_copy_only=False), np.int64)
