"""Projected rows: what a record brings through Spark, and a batch of them as columns in cut
order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakequeue.errors import CorruptTable
from lakequeue.records import Partition, ShardName, Stamp, TopicId, TopicPartition

_WORD = pa.dictionary(pa.int32(), pa.string())

SENT = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("topic_id", pa.string()),
        pa.field("row", pa.int32()),
        pa.field("stamp", pa.int64()),
        pa.field("partition", pa.int32()),
        pa.field("id_hi", pa.int64()),
        pa.field("id_lo", pa.int64()),
        pa.field("request", pa.string()),
        pa.field("bytes", pa.int32()),
        pa.field("judged", pa.string()),
        pa.field("fault", pa.string()),
    ]
)
"""What a row brings through Spark: no key, value or header. `file` (relative to the root) and
`topic_id` are null where they are those of the row above: strings are what costs in the JVM.
`id_hi`, `id_lo`: the hash of the message id, null without one. `request`: null unless atomic.
`judged`: what is judged of a request as a whole (`jobs.rows.transactional_rows.judged_text`), in
its first row; null for nearly all. `fault`: why the row is not ordered (`jobs.rows.row_faults`);
what else it says then is made up where it was wrong."""

PROJECTED = pa.schema(
    [
        pa.field("shard", _WORD),
        pa.field("file", _WORD),
        pa.field("topic_id", _WORD),
        *(field for field in SENT if field.name not in {"file", "topic_id"}),
    ]
)
"""The same with nothing left out."""


@dataclass(frozen=True, slots=True)
class ProjectedBatch:
    """Projected rows as columns, in (stamp, shard, row) order; strings as codes into a list."""

    table: pa.Table
    shards: list[ShardName]
    shard: npt.NDArray[np.int32]
    stamp: npt.NDArray[np.int64]
    topics: list[TopicId]
    topic: npt.NDArray[np.int32]
    partition: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.stamp)

    def places(self) -> list[TopicPartition]:
        """The partitions of its rows."""
        seen = np.unique(self.topic.astype(np.int64) << 32 | self.partition)
        return [
            TopicPartition(self.topics[int(key) >> 32], Partition(int(key) & 0xFFFFFFFF))
            for key in seen
        ]

    @staticmethod
    def of(projected: pa.Table) -> ProjectedBatch:
        """Sort rows of `PROJECTED` and encode their strings."""
        shards, shard = codes_of(projected["shard"])
        topics, topic = codes_of(projected["topic_id"])
        stamp = projected["stamp"].to_numpy()
        # Files come in cut order, so their numbers part rows of one shard that share a stamp.
        files = _codes_in_order(projected["file"])
        order = np.lexsort((projected["row"].to_numpy(), files, shard, stamp))
        if not (order[1:] > order[:-1]).all():
            projected = projected.take(pa.array(order))
            shard, topic, stamp = shard[order], topic[order], stamp[order]
        return ProjectedBatch(
            projected,
            [ShardName(s) for s in shards],
            shard,
            stamp,
            [TopicId(t) for t in topics],
            topic,
            projected["partition"].to_numpy(),
        )


def _codes_in_order(column: pa.ChunkedArray) -> npt.NDArray[np.int32]:
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # what an empty column stays
        return np.empty(0, np.int32)
    return np.asarray(whole.indices.to_numpy())


def unfold(sent: pa.Table) -> pa.Table:
    """Rows of `SENT`, as they came through Spark, as rows of `PROJECTED`.

    Raises `CorruptTable` if they are not in the order they were sent in, file after file.
    """
    sent = sent.combine_chunks()
    begins = sent["file"].is_valid().to_numpy()
    row = sent["row"].to_numpy()
    steps = np.ones(len(row), bool)
    steps[1:] = row[1:] == row[:-1] + 1
    if not np.where(begins, row == 0, steps).all() or not begins[:1].all():
        raise CorruptTable(
            "projected rows came out of order, or an inbox file has rows that did not"
        )
    files = _filled(sent["file"])
    words = files.dictionary.to_pylist()
    shards = pa.array([path.split("/", 2)[1] for path in words], pa.string())
    shard = pa.DictionaryArray.from_arrays(files.indices, shards)
    columns = {"shard": shard, "file": files, "topic_id": _filled(sent["topic_id"])}
    return pa.table(
        [columns[name] if name in columns else sent[name] for name in PROJECTED.names],
        schema=PROJECTED,
    )


def _filled(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Nulls replaced by the value above them."""
    values = column.drop_null().combine_chunks()
    run = np.cumsum(column.is_valid().to_numpy()) - 1
    encoded = values.dictionary_encode()
    codes = encoded.indices.to_numpy()
    return pa.DictionaryArray.from_arrays(
        pa.array(codes[run] if len(run) else codes, pa.int32()), encoded.dictionary
    )


def above(projected: pa.Table, watermarks: Mapping[ShardName, Stamp]) -> pa.Table:
    """The rows of `projected` that are not ordered yet: above the watermark of their shard."""
    names, codes = codes_of(projected["shard"])
    marks = np.array([watermarks.get(ShardName(n), 0) for n in names], np.int64)
    keep = projected["stamp"].to_numpy() > (marks[codes] if len(names) else 0)
    return projected if keep.all() else projected.filter(pa.array(keep))


def codes_of(column: pa.ChunkedArray) -> tuple[list[str], npt.NDArray[np.int32]]:
    """Distinct strings in ascending order, and the number of each row's."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # what an empty column stays
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    if pa.types.is_dictionary(whole.type):
        # One word may stand for several entries (a shard of many files).
        words_of = whole.dictionary.dictionary_encode()
        again = words_of.indices.to_numpy()
        words = words_of.dictionary.to_pylist()
        codes = again[whole.indices.to_numpy()] if len(whole) else np.empty(0, np.int32)
    else:
        encoded = whole.dictionary_encode()
        words, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    present = np.unique(codes)
    words = [words[i] for i in present]
    codes = np.searchsorted(present, codes).astype(np.int32)
    by_name = sorted(range(len(words)), key=words.__getitem__)
    rank = np.empty(len(words), np.int32)
    rank[by_name] = np.arange(len(words), dtype=np.int32)
    return [words[i] for i in by_name], rank[codes] if len(words) else codes.astype(np.int32)
