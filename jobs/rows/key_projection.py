"""Reads the projected rows of inbox commits: all that Spark carries. Runs in Spark's Python
workers.

Keys, values and headers stay in the inbox files; whoever writes the log copies them from there.
Nothing that lies in a file makes this fail: a row that is not sound carries its fault, and a file
that cannot be read is one row that says so (`jobs.rows.row_faults`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from jobs.rows.batch_file import BatchFile
from jobs.rows.blame import is_of_the_rows, said_of
from jobs.rows.halving import Fails, Units, find_guilty
from jobs.rows.id_hash import hash_ids
from jobs.rows.projected_rows import SENT
from jobs.rows.projection_faults import Files, Sound, request_spans, sound_rows
from jobs.rows.row_faults import RowFault
from jobs.rows.transactional_rows import transactional_text
from lakequeue.errors import CorruptTable
from queue_tables.delta.store import Store
from queue_tables.files.parquet import read_data_file
from queue_tables.groups.fact_rows import under_stamp
from queue_tables.log.writer import SourceFiles
from queue_tables.schema.marks import NO_TOPIC
from queue_tables.schema.reasons import Reason
from queue_tables.schema.record_rules import Faults
from queue_tables.schema.schemas import INBOX, JOURNAL

_INBOX_COLUMNS = (
    "topic_id", "partition", "message_id", "stamp", "row", "request", "atomic", "bytes",
    "producer_id", "producer_epoch", "sequence", "consumed",
    # What follows is judged, and not carried.
    "key_format", "value_format", "timestamp", "deliver_at", "expires_at", "headers",
)  # fmt: skip
_ROWS_AT_ONCE = 50_000

log = structlog.get_logger()
_READS = 2
"""A read that was cut short is no damage."""
FENCE = "fence"
UNREADABLE = "unreadable file"
"""Kind of the row that stands for a journal file."""
FACT_ROWS = pa.schema(
    [pa.field("shard", pa.string()), *(f for f in JOURNAL.arrow if f.name != "hour")]
)
"""A journal row, and the shard it was read from: facts need no projection."""


def project_rows(
    source: Store | SourceFiles, files: Sequence[BatchFile], suspects: set[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Rows of `SENT` for each file, in that order.

    From a store only the projected columns are read; `SourceFiles` keep the whole for the writer.
    `suspects`: the shards of which the newest file had rows that failed, kept by the caller from
    call to call. Their files are not read together with others. Raises storage errors.
    """
    suspects = set() if suspects is None else suspects
    held: list[tuple[BatchFile, pa.Table]] = []
    rows = 0
    for file in files:
        try:
            table = _read(source, file)
        except (FileNotFoundError, CorruptTable) as error:
            yield from _projected(held, suspects)
            yield from _instead_of(file, error)
            held, rows = [], 0
            continue
        held.append((file, table))
        rows += table.num_rows
        if rows >= _ROWS_AT_ONCE:
            yield from _projected(held, suspects)
            held, rows = [], 0
    yield from _projected(held, suspects)


def _read(source: Store | SourceFiles, file: BatchFile) -> pa.Table:
    if isinstance(source, SourceFiles):
        return source.get(f"inbox/{file.shard}/{file.path}").select(_INBOX_COLUMNS)
    return read_data_file(source, f"inbox/{file.shard}", file.path, _INBOX_COLUMNS)


def _instead_of(file: BatchFile, error: Exception) -> Iterator[pa.RecordBatch]:
    """The one row that stands for a file that cannot be read."""
    reason = Reason.MISSING if isinstance(error, FileNotFoundError) else Reason.UNREADABLE
    said = {
        "file": f"inbox/{file.shard}/{file.path}",
        "topic_id": NO_TOPIC,
        "row": 0,
        "stamp": file.stamp,
        "partition": 0,
        "bytes": 0,
        "fault": RowFault(reason, str(error), file.after).text(),
    }
    yield from pa.Table.from_pylist([said], schema=SENT).to_batches()


def _projected(
    held: Sequence[tuple[BatchFile, pa.Table]], suspects: set[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of files that were read, whatever is in them."""
    run: list[tuple[BatchFile, pa.Table]] = []
    for file, table in held:
        if not table.num_rows:
            continue
        if file.shard in suspects:
            yield from _of_run(run, suspects)
            run = []
            yield from _of_run([(file, table)], suspects)
        else:
            run.append((file, table))
    yield from _of_run(run, suspects)


def _of_run(
    run: Sequence[tuple[BatchFile, pa.Table]], suspects: set[str]
) -> Iterator[pa.RecordBatch]:
    """The rows of files that are tried together first."""
    if not run:
        return
    try:
        batches = _project(run, {})
    except Exception as error:
        if not is_of_the_rows(error):
            raise
        if len(run) > 1:
            for one in run:
                yield from _of_run([one], suspects)
            return
        suspects.add(run[0][0].shard)
        batches = _without_guilty(*run[0])
    else:
        suspects.difference_update({file.shard for file, _ in run})
    yield from batches


def _without_guilty(file: BatchFile, table: pa.Table) -> list[pa.RecordBatch]:
    """Rows of a file, less those that make this fail: they are null but for their fault.

    Raises if a sound row fails as well: then no row is to blame.
    """
    quick = _trial_of_sending(file, table)
    if quick is not None and (texts := _guilty_texts(table, quick)):
        try:
            return _project([(file, _blanked(table, texts))], texts)
        except Exception as error:
            if not is_of_the_rows(error):
                raise
    texts = _guilty_texts(table, _trial_of_all(file, table))
    if len(texts) == table.num_rows:
        _project([(file, _control(file))], {})
    return _project([(file, _blanked(table, texts))], texts)


def _guilty_texts(table: pa.Table, fails: Fails) -> dict[int, str]:
    guilty = find_guilty(table.num_rows, fails)
    return {int(row): said_of(g.error) for g in guilty for row in g.units}


def _blanked(table: pa.Table, texts: Mapping[int, str]) -> pa.Table:
    """The rows, null where there is a text."""
    blank = np.zeros(table.num_rows, bool)
    blank[list(texts)] = True
    columns = [
        pc.if_else(pa.array(blank), pa.scalar(None, column.type), column)
        for column in table.columns
    ]
    return pa.table(columns, names=table.schema.names)


def _trial_of_all(file: BatchFile, table: pa.Table) -> Fails:
    """Tries to judge some of the rows, and to send them."""
    at = table.schema.get_field_index("row")

    def fails(units: Units) -> Exception | None:
        some = table.take(pa.array(units))
        # By their place among these: else each row has a fault, and that is judged slowly.
        places = pa.array(np.arange(len(units), dtype=np.int32))
        return _error_of(lambda: _project([(file, some.set_column(at, "row", places))], {}))

    return fails


def _trial_of_sending(file: BatchFile, table: pa.Table) -> Fails | None:
    """Tries the second half alone: the rows are judged once. None: that fails already."""
    judged: list[Sound] = []
    if _error_of(lambda: judged.append(sound_rows(table, _files_of([(file, table)])))) is not None:
        return None
    sound = judged[0]

    def fails(units: Units) -> Exception | None:
        some = Sound(
            sound.rows.take(pa.array(units)),
            sound.stamps[units],
            np.arange(len(units), dtype=np.int32),
            {at: sound.faults[row] for at, row in enumerate(units.tolist()) if row in sound.faults},
        )
        return _error_of(lambda: _sent(some, _files_of([(file, some.rows)]), [""], {}))

    return fails


def _error_of(act: Callable[[], object]) -> Exception | None:
    """What it fails with, if rows may be to blame for it."""
    try:
        act()
    except Exception as error:
        if not is_of_the_rows(error):
            raise
        return error
    return None


def _control(file: BatchFile) -> pa.Table:
    """A sound row of our own, as it would stand in the file."""
    said = {
        "topic_id": "control", "partition": 0, "message_id": "m", "stamp": file.stamp, "row": 0,
        "request": "0", "atomic": False, "bytes": 2, "key_format": 1, "value_format": 1,
        "timestamp": file.stamp, "headers": [],
    }  # fmt: skip
    return pa.Table.from_pylist([said], schema=INBOX.file_arrow).select(_INBOX_COLUMNS)


def _files_of(held: Sequence[tuple[BatchFile, pa.Table]]) -> Files:
    counts = np.array([table.num_rows for _, table in held], np.int64)
    return Files(
        np.cumsum(counts) - counts,
        counts,
        np.array([file.after for file, _ in held], np.int64),
        np.array([file.stamp for file, _ in held], np.int64),
    )


def _project(
    held: Sequence[tuple[BatchFile, pa.Table]], unorderable: Mapping[int, str]
) -> list[pa.RecordBatch]:
    """The rows of files that have any. `unorderable`: rows, and what they make fail with."""
    files = _files_of(held)
    sound = sound_rows(pa.concat_tables([table for _, table in held]), files)
    names = [f"inbox/{file.shard}/{file.path}" for file, _ in held]
    faults = {row: RowFault(Reason.MALFORMED, str(f)) for row, f in sound.faults.items()}
    faults |= {row: RowFault(Reason.UNORDERABLE, why) for row, why in unorderable.items()}
    return _sent(sound, files, names, faults)


def _sent(
    sound: Sound, files: Files, names: Sequence[str], faults: Mapping[int, RowFault]
) -> list[pa.RecordBatch]:
    rows, count = sound.rows, sound.rows.num_rows
    faulty = np.zeros(count, bool)
    faulty[list(faults)] = True
    ids = rows["message_id"].combine_chunks()
    hi, lo = hash_ids(ids)
    missing = np.asarray(ids.is_null()) | faulty
    file = np.full(count, None, object)
    file[files.begins] = names
    columns = {
        "file": pa.array(file, pa.string()),
        "topic_id": _where_it_changes(rows["topic_id"]),
        "row": pa.array(sound.positions),
        "stamp": pa.array(sound.stamps),
        "id_hi": pa.array(hi.view(np.int64), mask=missing),
        "id_lo": pa.array(lo.view(np.int64), mask=missing),
        "request": pc.if_else(pc.fill_null(rows["atomic"], False), rows["request"], None),
        "judged": _transactional(rows, files, sound.faults),
        "fault": _texts(faults, count),
    }
    sent = pa.table(
        [columns[name] if name in columns else rows[name] for name in SENT.names], names=SENT.names
    )
    # Spark takes exactly the declared types, and does not look into dictionary columns.
    batches: list[pa.RecordBatch] = sent.cast(SENT).combine_chunks().to_batches()
    return batches


def _texts(faults: Mapping[int, RowFault], count: int) -> pa.Array:
    if not faults:
        return pa.nulls(count, pa.string())
    texts: list[str | None] = [None] * count
    for row, fault in faults.items():
        texts[row] = fault.text()
    return pa.array(texts, pa.string())


def _transactional(rows: pa.Table, files: Files, faults: Faults) -> pa.Array:
    """What is judged of requests as a whole, in the first row of each; null elsewhere."""
    out: list[str | None] = [None] * rows.num_rows
    epochs, consumed = rows["producer_epoch"], rows["consumed"]
    for start, end in request_spans(rows, files):
        epoch, said = epochs[start].as_py(), consumed[start].as_py()
        if (epoch is None and said is None) or all(row in faults for row in range(start, end)):
            continue
        producer, last = rows["producer_id"][start], rows["sequence"][end - 1]
        out[start] = transactional_text(end - start, producer.as_py(), epoch, last.as_py(), said)
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
    files: Sequence[BatchFile],
    fences: Sequence[tuple[str, str, str, int, int]] = (),
) -> Iterator[pa.RecordBatch]:
    """Rows of `FACT_ROWS` for each file.

    `fences`, (shard, group, topic_id, partition, epoch), become rows of kind `FENCE`.
    """
    tables = []
    for file in files:
        rows = _facts_of(store, file)
        shards = pa.repeat(pa.scalar(file.shard), rows.num_rows)
        tables.append(rows.add_column(0, "shard", shards).select(FACT_ROWS.names))
    if fences:
        names = ("shard", "group", "topic_id", "partition", "epoch")
        said = [dict(zip(names, fence, strict=True)) | {"kind": FENCE} for fence in fences]
        tables.append(pa.Table.from_pylist(said, schema=FACT_ROWS))
    if tables:
        yield from _joined(tables, FACT_ROWS)


def _facts_of(store: Store, file: BatchFile) -> pa.Table:
    """The rows of a journal file; of one that is damaged or gone, one row that is no fact.

    Their stamp is that of the commit, whatever they say: a higher one would pass over commits to
    come. What is damaged is set aside as any other, so that one file does not end the job for all
    groups.
    """
    for attempt in range(_READS):
        try:
            rows = read_data_file(store, f"journal/{file.shard}", file.path)
            return under_stamp(rows, file.stamp)
        except (FileNotFoundError, CorruptTable) as error:
            if attempt + 1 == _READS:
                log.warning("facts.set_aside", shard=file.shard, file=file.path, why=str(error))
    said = {"kind": UNREADABLE, "stamp": file.stamp, "row": 0}
    return pa.Table.from_pylist([said], schema=JOURNAL.file_arrow)


def _joined(tables: list[pa.Table], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    # Spark takes exactly the declared types, and does not look into dictionary columns.
    joined = pa.concat_tables(tables).cast(schema).combine_chunks()
    yield from joined.to_batches()
