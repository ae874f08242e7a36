"""Reads the narrow rows of inbox commits: all that Spark carries. Runs in Spark's Python workers.

Keys, values and headers stay in the inbox files; whoever writes the log copies them from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.batch import SENT
from jobs.id_hash import hash_ids
from jobs.judged_rows import judged_text
from queue_tables.log_writer import SourceFiles
from queue_tables.parquet import read_data_file
from queue_tables.schemas import JOURNAL
from queue_tables.store import Store

_INBOX_COLUMNS = (
    "topic_id", "partition", "message_id", "stamp", "row", "request", "atomic", "bytes",
    "producer_id", "producer_epoch", "sequence", "consumed",
)  # fmt: skip
_ROWS_AT_ONCE = 50_000

FENCE = "fence"
FACT_ROWS = pa.schema(
    [pa.field("shard", pa.string()), *(f for f in JOURNAL.arrow if f.name != "hour")]
)
"""A journal row, and the shard it was read from: facts are narrow as they are."""


def narrow_rows(
    source: Store | SourceFiles, files: Sequence[tuple[str, str]]
) -> Iterator[pa.RecordBatch]:
    """Rows of `SENT` for each (shard, path within the shard's table), in that order.

    From a store only the narrow columns are read; `SourceFiles` keep the whole for the writer.
    """
    tables: list[pa.Table] = []
    rows = 0
    for shard, path in files:
        tables.append(_narrow(source, shard, path))
        rows += tables[-1].num_rows
        if rows >= _ROWS_AT_ONCE:
            yield from _joined(tables, SENT)
            tables, rows = [], 0
    if tables:
        yield from _joined(tables, SENT)


def _narrow(source: Store | SourceFiles, shard: str, path: str) -> pa.Table:
    if isinstance(source, SourceFiles):
        rows = source.get(f"inbox/{shard}/{path}")
    else:
        rows = read_data_file(source, f"inbox/{shard}", path, _INBOX_COLUMNS)
    count = rows.num_rows
    ids = rows["message_id"].combine_chunks()
    hi, lo = hash_ids(ids)
    missing = np.asarray(ids.is_null()) if ids.null_count else None
    request = pc.if_else(pc.fill_null(rows["atomic"], False), rows["request"], None)
    columns = {
        "file": pa.array([f"inbox/{shard}/{path}", *[None] * (count - 1)][:count], pa.string()),
        "topic_id": _where_it_changes(rows["topic_id"]),
        "id_hi": pa.array(hi.view(np.int64), mask=missing),
        "id_lo": pa.array(lo.view(np.int64), mask=missing),
        "request": request,
        "judged": _judged(rows),
    }
    return pa.table(
        [columns[name] if name in columns else rows[name] for name in SENT.names], schema=SENT
    )


def _judged(rows: pa.Table) -> pa.Array:
    """What is judged of requests as a whole, in the first row of each; null elsewhere."""
    count = rows.num_rows
    epochs, consumed = rows["producer_epoch"], rows["consumed"]
    if epochs.null_count == consumed.null_count == count:
        return pa.nulls(count, pa.string())
    codes = rows["request"].combine_chunks().dictionary_encode().indices.to_numpy(False)
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    ends = np.r_[starts[1:], count]
    out: list[str | None] = [None] * count
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        epoch, said = epochs[start].as_py(), consumed[start].as_py()
        if epoch is not None or said is not None:
            producer, sequence = rows["producer_id"][start], rows["sequence"][start]
            out[start] = judged_text(end - start, producer.as_py(), epoch, sequence.as_py(), said)
    return pa.array(out, pa.string())


def _where_it_changes(column: pa.ChunkedArray) -> pa.Array:
    """The column with null for what is the same as in the row above."""
    encoded = column.combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy()
    same = np.zeros(len(codes), bool)
    same[1:] = codes[1:] == codes[:-1]
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, pa.int32(), mask=same), encoded.dictionary
    ).cast(pa.string())


def fact_rows(
    store: Store,
    files: Sequence[tuple[str, str]],
    fences: Sequence[tuple[str, str, str, int, int]] = (),
) -> Iterator[pa.RecordBatch]:
    """Rows of `FACT_ROWS` for each (shard, path within the shard's table).

    `fences`, (shard, group, topic_id, partition, epoch), become rows of kind `FENCE`.
    """
    tables = []
    for shard, path in files:
        rows = read_data_file(store, f"journal/{shard}", path)
        shards = pa.repeat(pa.scalar(shard), rows.num_rows)
        tables.append(rows.add_column(0, "shard", shards).select(FACT_ROWS.names))
    if fences:
        names = ("shard", "group", "topic_id", "partition", "epoch")
        said = [dict(zip(names, fence, strict=True)) | {"kind": FENCE} for fence in fences]
        tables.append(pa.Table.from_pylist(said, schema=FACT_ROWS))
    if tables:
        yield from _joined(tables, FACT_ROWS)


def _joined(tables: list[pa.Table], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    # Spark takes exactly the declared types, and does not look into dictionary columns.
    joined = pa.concat_tables(tables).cast(schema).combine_chunks()
    yield from joined.to_batches()
