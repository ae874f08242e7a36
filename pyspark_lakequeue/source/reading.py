"""What a task does: reads its row groups from the log files. Runs in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition

from lakequeue.errors import CorruptTable
from pyspark_lakequeue.source.planning import Piece
from queue_tables.delta.columns import HEADERS
from queue_tables.delta.store import Store, open_store
from queue_tables.files.deletion_vectors import deleted_rows
from queue_tables.files.parquet import damage_named
from queue_tables.files.physical import OPENED_WITH
from queue_tables.log.files import rows_of_group
from queue_tables.schema.schemas import LOG

CREATE_TIME = 0
"""`timestampType`: the record's own time, as Kafka's CreateTime."""

OUT = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", HEADERS),
    ]
)


@dataclass
class LogTask(InputPartition):
    """The pieces of one task."""

    pieces: Sequence[Piece]

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(None)
        self.pieces = pieces


def read_task(uri: str, task: LogTask, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The records of a task, a batch for each range of offsets of one partition.

    Raises `CorruptTable` if a file is gone: it was rewritten and vacuumed since the plan was made.
    """
    store = open_store(uri)
    out = pa.schema([OUT.field(name) for name in columns])
    at = 0
    while at < len(task.pieces):
        path = task.pieces[at].path
        same = at
        while same < len(task.pieces) and task.pieces[same].path == path:
            same += 1
        yield from _read_file(store, path, task.pieces[at:same], out)
        at = same


def _read_file(
    store: Store, path: str, pieces: Sequence[Piece], out: pa.Schema
) -> Iterator[pa.RecordBatch]:
    columns = [name for name in out.names if name in LOG.file_arrow.names]
    read = list(dict.fromkeys([*columns, "offset"]))
    try:
        source = store.open(f"{LOG.name}/{path}")
        with (
            damage_named(f"{LOG.name}/{path}"),
            pq.ParquetFile(source, memory_map=isinstance(source, str), **OPENED_WITH) as file,
        ):
            vector = pieces[0].vector
            deleted = None if vector is None else deleted_rows(store, LOG.name, vector)
            decoded: tuple[int, pa.Table] | None = None
            for piece in pieces:
                if decoded is None or decoded[0] != piece.row_group:
                    rows = rows_of_group(
                        file, path, piece.row_group, read, deleted, mixed_up=piece.mixed_up
                    )
                    decoded = piece.row_group, rows.select(columns)
                rows = decoded[1]
                for start, end in _row_ranges(piece):
                    yield from _as_kafka(rows.slice(start, end - start), out)
    except FileNotFoundError as error:
        raise CorruptTable(
            f"log file {path} is gone",
            hint="it was compacted and vacuumed while the query ran: run it again, and keep files"
            " for longer than the slowest query",
        ) from error


def _row_ranges(piece: Piece) -> Iterator[tuple[int, int]]:
    """Cuts that follow each other, as one."""
    start, end = piece.spans[0].start, piece.spans[0].end
    for span in piece.spans[1:]:
        if span.start == end:
            end = span.end
        else:
            yield start, end
            start, end = span.start, span.end
    yield start, end


def _as_kafka(rows: pa.Table, out: pa.Schema) -> Iterator[pa.RecordBatch]:
    columns = {name: rows.column(name) for name in rows.column_names}
    if "timestampType" in out.names:
        columns["timestampType"] = pa.repeat(pa.scalar(CREATE_TIME, pa.int32()), rows.num_rows)
    if "headers" in columns:
        columns["headers"] = _null_if_empty(columns["headers"].combine_chunks())
    # Spark takes exactly the declared types.
    table = pa.table([columns[name] for name in out.names], names=out.names).cast(out)
    yield from table.combine_chunks().to_batches()


def _null_if_empty(headers: pa.Array) -> pa.Array:
    """The Kafka source has null where a record has no headers."""
    import pyarrow.compute as pc

    empty = pc.equal(pc.list_value_length(headers), 0)
    return pc.if_else(pc.fill_null(empty, True), pa.scalar(None, headers.type), headers)
