"""Numbering a batch: who gets which offset, who is a copy, who is refused (pure, vectorised).

A deterministic function of the rows, what `log` says (next offsets, known ids) and the topics: so
a batch that is judged again after a crash comes out the same. Rows are taken in (stamp, shard,
row) order: of several copies of a message the first in that order survives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jobs.id_index import Found, Ids
from lakequeue.errors import CorruptTable
from lakequeue.records import Offset, Partition, ShardName, Stamp, TopicId, TopicPartition

Index = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

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
    ]
)
"""What a row brings through Spark: no key, value or header. `file` (relative to the root) and
`topic_id` are null where they are those of the row above: strings are what costs in the JVM.
`id_hi`, `id_lo`: the hash of the message id, null without one. `request`: null unless atomic."""

NARROW = pa.schema(
    [
        pa.field("shard", _WORD),
        pa.field("file", _WORD),
        pa.field("topic_id", _WORD),
        *(field for field in SENT if field.name not in {"file", "topic_id"}),
    ]
)
"""The same with nothing left out."""

DUPLICATE = "duplicate"
TOPIC_GONE = "topic_gone"
PARTITION_GONE = "partition_gone"
REQUEST_REFUSED = "request_refused"
_REASONS = np.array(["", TOPIC_GONE, PARTITION_GONE, REQUEST_REFUSED], dtype=object)


class TopicRule(NamedTuple):
    """What ordering needs to know of a topic."""

    name: str
    partitions: int
    window_us: int


class Known(Protocol):
    """The index of ids, as ordering sees it (`jobs.id_index.IdIndex`)."""

    def find(
        self,
        topic_id: TopicId,
        hi: npt.NDArray[np.uint64],
        lo: npt.NDArray[np.uint64],
        *,
        oldest: Stamp,
        newest: Stamp,
        window_us: int,
    ) -> Found:
        """See `IdIndex.find`."""
        ...


@dataclass(frozen=True, slots=True)
class Batch:
    """Narrow rows as columns, in (stamp, shard, row) order; strings as codes into a list."""

    table: pa.Table
    shards: list[ShardName]
    shard: npt.NDArray[np.int32]
    stamp: npt.NDArray[np.int64]
    topics: list[TopicId]
    topic: npt.NDArray[np.int32]
    partition: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.stamp)

    @staticmethod
    def of(narrow: pa.Table) -> Batch:
        """Sort rows of `NARROW` and encode their strings."""
        shards, shard = _codes(narrow["shard"])
        topics, topic = _codes(narrow["topic_id"])
        stamp = narrow["stamp"].to_numpy()
        order = np.lexsort((narrow["row"].to_numpy(), shard, stamp))
        if not (order[1:] > order[:-1]).all():
            narrow = narrow.take(pa.array(order))
            shard, topic, stamp = shard[order], topic[order], stamp[order]
        return Batch(
            narrow,
            [ShardName(s) for s in shards],
            shard,
            stamp,
            [TopicId(t) for t in topics],
            topic,
            narrow["partition"].to_numpy(),
        )


def unfold(sent: pa.Table) -> pa.Table:
    """Rows of `SENT`, as they came through Spark, as rows of `NARROW`.

    Raises `CorruptTable` if they are not in the order they were sent in, file after file.
    """
    sent = sent.combine_chunks()
    begins = sent["file"].is_valid().to_numpy()
    row = sent["row"].to_numpy()
    steps = np.ones(len(row), bool)
    steps[1:] = row[1:] == row[:-1] + 1
    if not np.where(begins, row == 0, steps).all() or not begins[:1].all():
        raise CorruptTable("narrow rows came out of order, or an inbox file has rows that did not")
    files = _filled(sent["file"])
    words = files.dictionary.to_pylist()
    shards = pa.array([path.split("/", 2)[1] for path in words], pa.string())
    shard = pa.DictionaryArray.from_arrays(files.indices, shards)
    columns = {"shard": shard, "file": files, "topic_id": _filled(sent["topic_id"])}
    return pa.table(
        [columns[name] if name in columns else sent[name] for name in NARROW.names], schema=NARROW
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


def above(narrow: pa.Table, watermarks: Mapping[ShardName, Stamp]) -> pa.Table:
    """The rows of `narrow` that are not ordered yet: above the watermark of their shard."""
    names, codes = _codes(narrow["shard"])
    marks = np.array([watermarks.get(ShardName(n), 0) for n in names], np.int64)
    keep = narrow["stamp"].to_numpy() > (marks[codes] if len(names) else 0)
    return narrow if keep.all() else narrow.filter(pa.array(keep))


def _codes(column: pa.ChunkedArray) -> tuple[list[str], npt.NDArray[np.int32]]:
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


@dataclass(frozen=True, slots=True)
class Ordered:
    """The verdict on a batch. Row numbers are positions in `Batch.table`."""

    survivors: Index
    """Ascending, so in cut order."""
    offsets: npt.NDArray[np.int64]
    """Of `survivors`."""
    duplicates: Index
    original_partition: npt.NDArray[np.int32]
    original_offset: npt.NDArray[np.int64]
    refused: Index
    reasons: npt.NDArray[np.object_]
    next_offsets: dict[TopicPartition, Offset]
    """Of the partitions that moved."""
    watermarks: dict[ShardName, Stamp]
    """Of the shards in the batch."""
    new_ids: dict[TopicId, Ids]
    """Ids that are known from now on."""


def order(
    batch: Batch,
    known: Known,
    next_offsets: Mapping[TopicPartition, Offset],
    topics: Mapping[TopicId, TopicRule],
) -> Ordered:
    """Judge every row of `batch`: survivor with an offset, duplicate, or refused with a reason."""
    reason = _refusals(batch, topics)
    alive = reason == 0
    duplicate, place, hi, lo, has_id = _duplicates(batch, known, topics, alive)
    survivors = np.flatnonzero(alive & ~duplicate)
    offsets, moved = _number(batch, survivors, next_offsets)

    # A copy of a row of this very batch points at the row that survived.
    full_offset = place.offset
    full_offset[survivors] = offsets
    full_partition = place.partition
    full_partition[survivors] = batch.partition[survivors]
    inside = np.flatnonzero(place.original >= 0)
    full_offset[inside] = full_offset[place.original[inside]]
    full_partition[inside] = full_partition[place.original[inside]]
    copies = np.flatnonzero(duplicate)
    refused = np.flatnonzero(reason)

    new_ids: dict[TopicId, Ids] = {}
    with_id = survivors[has_id[survivors]]
    for code, topic_id in enumerate(batch.topics):
        mine = with_id[batch.topic[with_id] == code]
        if len(mine):
            new_ids[topic_id] = Ids(
                hi[mine], lo[mine], batch.partition[mine], full_offset[mine], batch.stamp[mine]
            )
    return Ordered(
        survivors,
        offsets,
        copies,
        full_partition[copies],
        full_offset[copies],
        refused,
        _REASONS[reason[refused]],
        moved,
        _watermarks(batch),
        new_ids,
    )


def _refusals(batch: Batch, topics: Mapping[TopicId, TopicRule]) -> npt.NDArray[np.int8]:
    """Number of the reason in `_REASONS` for each row, 0 for none."""
    rules = [topics.get(t) for t in batch.topics]
    partitions = np.array([-1 if r is None else r.partitions for r in rules], np.int32)
    limit = partitions[batch.topic] if len(rules) else np.empty(0, np.int32)
    reason = np.zeros(len(batch), np.int8)
    reason[(batch.partition >= limit) | (batch.partition < 0)] = 2
    reason[limit < 0] = 1
    bad = reason != 0
    request = batch.table["request"]
    if bad.any() and request.null_count < len(batch):
        # An atomic request is taken or refused as a whole; its id is unique within its shard.
        names, codes = _codes(pc.fill_null(request, ""))
        key = batch.shard.astype(np.int64) * len(names) + codes
        atomic = request.is_valid().to_numpy()
        drawn_in = np.isin(key, key[bad & atomic]) & atomic & ~bad
        reason[drawn_in] = 3
    return reason


@dataclass(frozen=True, slots=True)
class _Place:
    """Where each row's original is: in `log` (partition, offset), or row `original` here."""

    partition: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    original: npt.NDArray[np.int64]


def _duplicates(
    batch: Batch, known: Known, topics: Mapping[TopicId, TopicRule], alive: Mask
) -> tuple[Mask, _Place, npt.NDArray[np.uint64], npt.NDArray[np.uint64], Mask]:
    """Which rows are copies: of a known id, or of an earlier row of the batch."""
    count = len(batch)
    place = _Place(
        np.zeros(count, np.int32), np.zeros(count, np.int64), np.full(count, -1, np.int64)
    )
    duplicate = np.zeros(count, bool)
    has_id = batch.table["id_hi"].is_valid().to_numpy()
    hi = pc.fill_null(batch.table["id_hi"], 0).to_numpy().view(np.uint64)
    lo = pc.fill_null(batch.table["id_lo"], 0).to_numpy().view(np.uint64)
    for code, topic_id in enumerate(batch.topics):
        mine = np.flatnonzero(alive & has_id & (batch.topic == code))
        if not len(mine):
            continue
        stamps = batch.stamp[mine]
        found = known.find(
            topic_id,
            hi[mine],
            lo[mine],
            oldest=Stamp(int(stamps[0])),
            newest=Stamp(int(stamps[-1])),
            window_us=topics[topic_id].window_us,
        )
        rows = mine[found.mask]
        duplicate[rows] = True
        place.partition[rows] = found.partition[found.mask]
        place.offset[rows] = found.offset[found.mask]
        rest = mine[~found.mask]
        copies, originals = _copies_within(hi[rest], lo[rest])
        duplicate[rest[copies]] = True
        place.original[rest[copies]] = rest[originals]
    return duplicate, place, hi, lo, has_id


def _copies_within(hi: npt.NDArray[np.uint64], lo: npt.NDArray[np.uint64]) -> tuple[Index, Index]:
    """Rows that repeat an earlier row's id, and for each the first row with that id."""
    order = np.argsort(hi, kind="stable")
    same_hi = hi[order[1:]] == hi[order[:-1]]
    if not same_hi.any():
        return np.empty(0, np.intp), np.empty(0, np.intp)
    order = np.lexsort((lo, hi))  # stable: within one id, rows stay in cut order
    same = np.zeros(len(order), bool)
    same[1:] = (hi[order[1:]] == hi[order[:-1]]) & (lo[order[1:]] == lo[order[:-1]])
    first = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
    return order[same], order[first[same]]


def _number(
    batch: Batch, survivors: Index, next_offsets: Mapping[TopicPartition, Offset]
) -> tuple[npt.NDArray[np.int64], dict[TopicPartition, Offset]]:
    """Consecutive offsets within each partition, in cut order."""
    key = batch.topic[survivors].astype(np.int64) << 32 | batch.partition[survivors]
    groups, group, counts = np.unique(key, return_inverse=True, return_counts=True)
    by_group = np.argsort(group, kind="stable")
    starts = np.cumsum(counts) - counts
    names = [
        TopicPartition(batch.topics[int(g) >> 32], Partition(int(g) & 0xFFFFFFFF)) for g in groups
    ]
    base = np.array([next_offsets.get(name, 0) for name in names], np.int64)
    offsets = np.empty(len(survivors), np.int64)
    sorted_groups = group[by_group]
    offsets[by_group] = (
        base[sorted_groups] + np.arange(len(survivors)) - starts[sorted_groups]
        if len(groups)
        else 0
    )
    moved = {n: Offset(int(b + c)) for n, b, c in zip(names, base, counts, strict=True)}
    return offsets, moved


def _watermarks(batch: Batch) -> dict[ShardName, Stamp]:
    last = np.zeros(len(batch.shards), np.int64)
    np.maximum.at(last, batch.shard, batch.stamp)
    return {name: Stamp(int(s)) for name, s in zip(batch.shards, last, strict=True)}
