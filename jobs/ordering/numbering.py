"""Numbering a batch: who gets which offset, who is a copy, who is refused (pure, vectorised).

A deterministic function of the rows, what `log` says (next offsets, known ids) and the topics: so
a batch that is judged again after a crash comes out the same. Rows are taken in (stamp, shard,
row) order: of several copies of a message the first in that order survives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from jobs.ordering.id_index import Ids, KnownIds
from jobs.rows.projected_rows import ProjectedBatch, codes_of
from jobs.rows.row_faults import RowFault
from jobs.rows.transactional_rows import transactional_requests_of
from lakequeue.records import Offset, Partition, ShardName, Stamp, TopicId, TopicPartition
from queue_rules.produce.transactional_requests import (
    Marks,
    TransactionalRequest,
    judge_consumed,
    judge_epochs,
    move_sequences,
)
from queue_tables.schema.reasons import BY_CODE, Reason

Index = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

_REASONS = np.array(BY_CODE, dtype=object)
_NO_MARKS: Mapping[str, int] = MappingProxyType({})


class TopicRule(NamedTuple):
    """What ordering needs to know of a topic."""

    name: str
    partitions: int
    window_us: int


class Known(Protocol):
    """The index of ids, as ordering sees it (`jobs.ordering.id_index.IdIndex`)."""

    def find(
        self,
        topic_id: TopicId,
        hi: npt.NDArray[np.uint64],
        lo: npt.NDArray[np.uint64],
        *,
        oldest: Stamp,
        newest: Stamp,
        window_us: int,
    ) -> KnownIds:
        """See `IdIndex.find`."""
        ...


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
    marks: dict[str, int]
    """Marks that moved (`queue_tables.schema.marks`)."""


def order(
    batch: ProjectedBatch,
    known: Known,
    next_offsets: Mapping[TopicPartition, Offset],
    topics: Mapping[TopicId, TopicRule],
    marks: Mapping[str, int] = _NO_MARKS,
) -> Ordered:
    """Judge every row of `batch`: survivor with an offset, duplicate, or refused with a reason."""
    requests = transactional_requests_of(
        batch.table["judged"], lambda at: batch.topics[int(batch.topic[at])]
    )
    moving = Marks(marks)
    reason = _refusals(batch, topics, requests, moving)
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
        moving.moved,
    )


def _refusals(
    batch: ProjectedBatch,
    topics: Mapping[TopicId, TopicRule],
    requests: list[TransactionalRequest],
    marks: Marks,
) -> npt.NDArray[np.int8]:
    """Code of the reason for each row, 0 for none; moves `marks`."""
    reason = _row_refusals(batch, topics)
    bare = [request.first for request in requests if not request.is_record]
    reason[bare] = 0
    aside = _put_aside(batch)
    reason[aside.rows] = aside.reasons
    judge_epochs(requests, reason, marks)
    _refuse_whole(batch, reason)
    judge_consumed(requests, reason, marks)
    move_sequences(requests, reason, marks)
    for at in bare:
        reason[at] = reason[at] or Reason.NO_RECORD.code
    # Whatever became of its request: such a row is kept as it is.
    reason[aside.rows] = aside.reasons
    return reason


class _Aside(NamedTuple):
    rows: Index
    reasons: npt.NDArray[np.int8]


def _put_aside(batch: ProjectedBatch) -> _Aside:
    """The rows that have a fault."""
    faults = batch.table["fault"]
    if faults.null_count == len(batch):
        return _NONE_ASIDE
    rows = np.flatnonzero(np.asarray(faults.is_valid()))
    said = [RowFault.of(faults[int(row)].as_py()).reason for row in rows]
    return _Aside(rows, np.array([reason.code for reason in said], np.int8))


_NONE_ASIDE = _Aside(np.empty(0, np.intp), np.empty(0, np.int8))


def _row_refusals(
    batch: ProjectedBatch, topics: Mapping[TopicId, TopicRule]
) -> npt.NDArray[np.int8]:
    rules = [topics.get(t) for t in batch.topics]
    partitions = np.array([-1 if r is None else r.partitions for r in rules], np.int32)
    limit = partitions[batch.topic] if len(rules) else np.empty(0, np.int32)
    reason = np.zeros(len(batch), np.int8)
    reason[(batch.partition >= limit) | (batch.partition < 0)] = Reason.PARTITION_GONE.code
    reason[limit < 0] = Reason.TOPIC_GONE.code
    return reason


def _refuse_whole(batch: ProjectedBatch, reason: npt.NDArray[np.int8]) -> None:
    """One refused row refuses the whole of an atomic request."""
    bad = reason != 0
    request = batch.table["request"]
    if bad.any() and request.null_count < len(batch):
        # The id of a request is unique within its shard.
        names, codes = codes_of(pc.fill_null(request, ""))
        key = batch.shard.astype(np.int64) * len(names) + codes
        atomic = request.is_valid().to_numpy()
        drawn_in = np.isin(key, key[bad & atomic]) & atomic & ~bad
        reason[drawn_in] = Reason.REQUEST_REFUSED.code


@dataclass(frozen=True, slots=True)
class _Place:
    """Where each row's original is: in `log` (partition, offset), or row `original` here."""

    partition: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    original: npt.NDArray[np.int64]


def _duplicates(
    batch: ProjectedBatch, known: Known, topics: Mapping[TopicId, TopicRule], alive: Mask
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
    batch: ProjectedBatch, survivors: Index, next_offsets: Mapping[TopicPartition, Offset]
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


def _watermarks(batch: ProjectedBatch) -> dict[ShardName, Stamp]:
    last = np.zeros(len(batch.shards), np.int64)
    np.maximum.at(last, batch.shard, batch.stamp)
    return {name: Stamp(int(s)) for name, s in zip(batch.shards, last, strict=True)}
