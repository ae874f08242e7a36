"""Tables of a queue as Arrow datasets: what DuckDB and others query.

Files of a local root are read by Arrow itself, those of an object store through delta-rs
(`queue_tables.querying.arrow_files`). What a dataset promises of each file is said here: delta-rs
1.6 promises `column >= null` of a column without statistics, and a filter on such a column
(`message_id = 'm1'`) then finds nothing, silently.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping

import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from queue_tables.delta.actions import Add
from queue_tables.delta.declared import lacking_columns
from queue_tables.delta.table import TableLog
from queue_tables.files.stats import FileStats
from queue_tables.querying.arrow_files import files_of
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.schema.schemas import TABLES
from queue_tables.upkeep.delta_rs import opened

_BOUNDED: Mapping[str, type[str] | type[int]] = {"topic_id": str, "partition": int, "offset": int}
"""Columns by whose statistics files are skipped: those a query names most, never null."""


def dataset(uri: str, table: str) -> ds.Dataset:
    """The newest version of `table` (`log`, `inbox/<shard>`, …) of the queue at `uri`.

    Raises `RootUnusable` if there is no queue.
    """
    root = QueueRoot.existing(uri, replica_too=True)
    log = TableLog(root.store, table).open()
    files = log.files
    read = opened(root, table).to_pyarrow_dataset()
    schema = read.schema
    declared = TABLES[table.partition("/")[0]]
    for column in lacking_columns(log.metadata, declared):
        schema = schema.append(declared.arrow.field(column.name))
    here = root.store.local_path
    files_in = (
        files_of(f"{root.uri}/{table}", {path: add.size for path, add in files.items()})
        if here is None
        else SubTreeFileSystem(f"{here}/{table}", LocalFileSystem())
    )
    fragments = [
        read.format.make_fragment(path, files_in, partition_expression=_promised(add))
        for path, add in files.items()
    ]
    return ds.FileSystemDataset(fragments, schema, read.format, files_in)


def shards_dataset(uri: str, kind: ShardKind) -> ds.Dataset:
    """All shards of that kind, as they are now, as one."""
    shards = QueueRoot.existing(uri, replica_too=True).shards(kind)
    if not shards:
        return ds.dataset(TABLES[kind].arrow.empty_table())
    return ds.dataset([dataset(uri, f"{kind}/{shard}") for shard in shards])


def _promised(add: Add) -> ds.Expression:
    """What holds for every row of the file."""
    parts = [ds.field(name) == value for name, value in add.partition_values.items()]
    stats = FileStats(add.stats)
    for name, kind in _BOUNDED.items():
        low, high = stats.low(name, kind), stats.high(name, kind)
        if low is not None and high is not None and stats.nulls(name) == 0:
            parts += [ds.field(name) >= low, ds.field(name) <= high]
    return functools.reduce(operator.and_, parts, ds.scalar(True))
