"""The writer of log files: copies keys and values from inbox files, in Arrow, in planned order.

The order job decides on projected rows; keys, values and headers never pass through the JVM. What
is decided comes here as a *plan*, one row a record in output order, and leaves as Parquet files
that are durable and that no commit names yet. The same function runs on the driver for small
batches and in executors for large ones, so it takes the root's URI and nothing that cannot be
pickled.

Row groups are cut where the partition changes, as far as they keep a decent size, and carry the
statistics of the declared columns: a reader of one partition decodes little else.
"""

from __future__ import annotations

import contextlib
import itertools
import time
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakequeue.errors import CorruptTable
from lakequeue.records import Version
from queue_tables.delta.actions import Add, encode
from queue_tables.delta.commit_json import parse
from queue_tables.delta.store import Store, open_store
from queue_tables.files.parquet import file_stats, read_data_file
from queue_tables.schema.schemas import INBOX, LOG

PLAN = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("row", pa.int32()),
        pa.field("topic", pa.string()),
        pa.field("topic_id", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("ordered_at", pa.timestamp("us", tz="UTC")),
        pa.field("shard", pa.string()),
        pa.field("hour", pa.string()),
        pa.field("out_file", pa.string()),
    ]
)
"""A plan: sorted by (out_file, topic, partition, offset).

`file` is the inbox data file relative to the root (`inbox/<shard>/hour=…/part-….parquet`), `row`
the position in it; rows with one `out_file` (any label) go to one file, and have one `hour`.
"""

_PLANNED = ("topic", "partition", "offset", "ordered_at", "shard")
_COPIED = tuple(
    name for name in LOG.file_arrow.names if name not in _PLANNED and name in INBOX.file_arrow.names
)
# Values that hardly repeat: a dictionary would be built, grow past its bound, and be dropped.
_PLAIN = frozenset({"key", "value", "message_id", "headers", "sequence", "offset", "row"})
_MIN_GROUP_ROWS = 1_024
_MAX_GROUP_ROWS = 8_192
_MAX_GROUP_BYTES = 4 << 20
"""Decoded bytes of a row group: what a reader holds at least."""
_TWO_READERS_BYTES = 4 << 20
_REMOTE_READERS = 8
_FILE_BYTES = 1 << 30
"""Sources of one output file are put together in arrays with 32-bit positions (2 GiB)."""

# Measured by bench/storage/log_writer.py, of processor time: snappy 178 MB/s, lz4 161, zstd level 1
# 149; files of 0.56, 0.53 and 0.51 of the record bytes. The order job is bound by this, so the
# fastest.
CODEC = "snappy"

_ADDS = pa.schema([pa.field("add", pa.string())])


def write_log_files(
    root_uri: str,
    plan: pa.Table,
    compression: str = CODEC,
    sources: SourceFiles | None = None,
) -> list[Add]:
    """Write the files that `plan` asks for, durable; their `Add`s in the order of the plan.

    Each source file is read once, and not at all if `sources` has it already. Every call makes
    files of new names, so that a task that is run again, or twice at once, harms nothing; what is
    not committed is waste, vacuumed later.
    Raises `CorruptTable` if a source row is not the one planned, and storage errors.
    """
    store = open_store(root_uri)
    plan = plan.select(PLAN.names).cast(PLAN).combine_chunks()
    if plan.num_rows == 0:
        return []
    sources = SourceFiles(store) if sources is None else sources  # an empty one is false
    labels = plan.column("out_file").combine_chunks().dictionary_encode()
    adds = []
    for start, end in _runs([_codes(labels)]):
        adds.append(_write_file(store, sources, plan.slice(start, end - start), compression))
    return adds


def render_log_files(plan: pa.Table, sources: SourceFiles) -> None:
    """Do all that `write_log_files` does of a plan in one file, but for storing it: a trial."""
    if plan.num_rows:
        render_rows(copy_rows(plan, sources))


def copy_rows(plan: pa.Table, sources: SourceFiles) -> pa.Table:
    """The rows that a plan of one file asks for, in its order: the first half of a trial."""
    return _copy(sources, plan.select(PLAN.names).cast(PLAN).combine_chunks())


def render_rows(copied: pa.Table) -> None:
    """The second half: such rows, or some of them in their order, become a file in memory."""
    _rendered(copied, CODEC)


def adds_to_arrow(adds: Iterable[Add]) -> pa.Table:
    """One row an `Add`: what an executor hands to the driver. Schema: `add STRING`."""
    return pa.table({"add": [encode([add]).decode() for add in adds]}, schema=_ADDS)


def adds_from_arrow(table: pa.Table) -> list[Add]:
    """The `Add`s of such rows."""
    actions = [parse(Version(0), text.encode()) for text in table.column("add").to_pylist()]
    return [add for commit in actions for add in commit.adds]


class SourceFiles:
    """Inbox files, each read once, whole."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: dict[str, pa.Table] = {}

    def __len__(self) -> int:
        return len(self._read)

    def load(self, paths: Sequence[str]) -> None:
        """Read these files, several at a time where that is quicker.

        One that cannot be read is skipped: whoever asks for it is told.
        """
        readers = 2
        if self._store.local_path is None:
            # Each is a request, of which nearly all is waiting; to ask for sizes would be as many.
            readers = min(_REMOTE_READERS, len(paths))
        elif sum(self._size(path) for path in paths) < _TWO_READERS_BYTES:
            return
        if readers < 2:
            return
        with ThreadPoolExecutor(readers, thread_name_prefix="source-files") as pool:
            list(pool.map(self._try, paths))

    def _size(self, path: str) -> int:
        try:
            return self._store.size(path)
        except FileNotFoundError:
            return 0

    def _try(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError, CorruptTable):
            self.get(path)

    def hold(self, path: str, rows: pa.Table) -> None:
        """These are the rows of a file: it is not read."""
        self._read[path] = rows

    def held(self, path: str) -> pa.Table | None:
        """The rows of a file that was read already."""
        return self._read.get(path)

    def get(self, path: str) -> pa.Table:
        """The rows of a file, named relative to the root; raises as `read_data_file` does."""
        if path not in self._read:
            kind, shard, file = path.split("/", 2)
            self._read[path] = read_data_file(self._store, f"{kind}/{shard}", file)
        return self._read[path]


def _write_file(store: Store, sources: SourceFiles, plan: pa.Table, compression: str) -> Add:
    return write_log_file(store, _copy(sources, plan), plan.column("hour")[0].as_py(), compression)


def write_log_file(
    store: Store, rows: pa.Table, hour: str, compression: str = CODEC, path: str | None = None
) -> Add:
    """Write rows of the log (no hour; sorted by topic, partition, offset) as one durable file.

    `path`: where in the table, if not under a new name.
    """
    partition = {"hour": hour}
    data = _rendered(rows, compression)
    path = path or f"hour={quote(partition['hour'])}/part-{uuid.uuid4()}.{compression}.parquet"
    store.put(f"{LOG.name}/{path}", data)
    return Add(
        path=path,
        size=data.size,
        partition_values=partition,
        modification_time=time.time_ns() // 1_000_000,
        stats=file_stats(rows, LOG.stats),
    )


def _rendered(rows: pa.Table, compression: str) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        rows.schema,
        compression=compression,
        compression_level=1 if compression == "zstd" else None,
        use_dictionary=[name for name in rows.schema.names if name not in _PLAIN],
        write_statistics=list(LOG.stats),
        store_schema=False,
        write_page_checksum=True,
    ) as writer:
        for start, end in row_groups(rows):
            writer.write_table(rows.slice(start, end - start), row_group_size=end - start)
    return sink.getvalue()


def _copy(sources: SourceFiles, plan: pa.Table) -> pa.Table:
    """The rows of one output file: taken from the sources in plan order, planned columns added."""
    files = plan.column("file").combine_chunks().dictionary_encode()
    tables = [sources.get(path).select(_COPIED) for path in files.dictionary.to_pylist()]
    if sum(table.nbytes for table in tables) > _FILE_BYTES:
        raise ValueError("plan fewer bytes for one output file")
    starts = np.cumsum([0, *(table.num_rows for table in tables)])
    wanted = plan.column("row").to_numpy()
    positions = starts[_codes(files)] + wanted
    if bool((positions >= starts[_codes(files) + 1]).any()):
        raise CorruptTable("an inbox file has fewer rows than its commit says")
    copied = pa.concat_tables(tables)
    if not _is_identity(positions, copied.num_rows):
        copied = copied.combine_chunks().take(pa.array(positions))
    if not np.array_equal(copied.column("row").to_numpy(), wanted):
        raise CorruptTable("rows of an inbox file are not in the order of their numbers")
    columns = [
        plan.column(name) if name in _PLANNED else copied.column(name)
        for name in LOG.file_arrow.names
    ]
    return pa.table(columns, schema=LOG.file_arrow)


def _is_identity(positions: npt.NDArray[np.int64], count: int) -> bool:
    return len(positions) == count and bool((positions == np.arange(count)).all())


def row_groups(rows: pa.Table) -> list[tuple[int, int]]:
    """Where to cut sorted `rows` of the log into row groups: [start, end) each.

    A cut falls where the partition changes, once the group has a decent size; a long partition is
    cut inside, into equal parts.
    """
    topics = rows.column("topic_id").combine_chunks().dictionary_encode()
    runs = _runs([_codes(topics), rows.column("partition").to_numpy()])
    row_bytes = max(1, rows.nbytes // max(1, rows.num_rows))
    most = max(1, min(_MAX_GROUP_ROWS, _MAX_GROUP_BYTES // row_bytes))
    least = min(_MIN_GROUP_ROWS, most)
    cuts: list[tuple[int, int]] = []
    open_at = 0
    for start, end in runs:
        if end - open_at > most and open_at < start:
            cuts.append((open_at, start))
            open_at = start
        parts = -(-(end - open_at) // most)
        if parts > 1 or end - open_at >= least:
            edges = np.linspace(open_at, end, parts + 1).astype(int).tolist()
            cuts += itertools.pairwise(edges)
            open_at = end
    if open_at < rows.num_rows:
        cuts.append((open_at, rows.num_rows))
    return cuts


def _codes(encoded: pa.DictionaryArray) -> npt.NDArray[np.int64]:
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False)).astype(np.int64)


def _runs(keys: Sequence[npt.NDArray[np.int64]]) -> list[tuple[int, int]]:
    """[start, end) of each range of offsets in which no key changes."""
    count = len(keys[0])
    if count == 0:
        return []
    changes = np.zeros(count - 1, dtype=bool)
    for key in keys:
        changes |= key[1:] != key[:-1]
    edges = [0, *(np.flatnonzero(changes) + 1).tolist(), count]
    return list(itertools.pairwise(edges))
