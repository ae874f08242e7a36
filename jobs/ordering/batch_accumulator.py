"""What the pieces of one batch come to, until one commit makes all of it visible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from jobs.ordering.id_index import Staged
from jobs.ordering.numbering import Ordered, TopicRule
from jobs.ordering.order_piece import Piece
from jobs.ordering.reject_rows import Key
from jobs.rows.projected_rows import ProjectedBatch
from lakequeue.clock import Micros
from lakequeue.records import Offset, ShardName, Stamp, TopicId, TopicPartition, Version
from lakequeue.tracing.context import TraceContext
from queue_tables.delta.actions import Action, Add, Txn
from queue_tables.schema.marks import ORDER_TXN, WATERMARKS, offset_mark


@dataclass(frozen=True, slots=True)
class Done:
    """What a batch came to, and where its time went (seconds)."""

    rows: int
    ordered: int
    duplicates: int
    refused: int
    refusals: Mapping[tuple[str, str], int]
    """Of those refused, by topic ("" if it is not known) and reason."""
    version: Version
    numbering_s: float
    writing_s: float
    committing_s: float
    traces: Sequence[TraceContext] = ()
    """Some of those of its records, if this process traces."""


@dataclass(slots=True)
class BatchAccumulator:
    """A batch, as far as its pieces are numbered. Of a row it keeps the id, and nothing else."""

    ids: Staged
    now: Micros
    """`ordered_at` of every row."""
    topics: dict[TopicId, TopicRule] = field(default_factory=dict)
    """As they were when a piece first met them."""
    next_offsets: dict[TopicPartition, Offset] = field(default_factory=dict)
    watermarks: dict[ShardName, Stamp] = field(default_factory=dict)
    marks: dict[str, int] = field(default_factory=dict)
    recorded: Mapping[Key, str | None] = field(default_factory=dict)
    """Rows that stand in `rejects` already, by a leader that died: their fault, if it is one."""
    adds: list[Add] = field(default_factory=list)
    rejects: list[Add] = field(default_factory=list)
    tried: tuple[pa.Table, ProjectedBatch, Ordered] | None = None
    """The rows of the piece that were numbered last, and how; none of it counts yet."""
    rows: int = 0
    ordered: int = 0
    duplicates: int = 0
    refused: int = 0
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)
    numbering_s: float = 0.0
    writing_s: float = 0.0
    traces: list[TraceContext] = field(default_factory=list)

    def take(self, piece: Piece, rejects: list[Add]) -> None:
        """A piece is numbered and written, and its `rejects`: the next one goes on from there."""
        batch, ordered = piece.batch, piece.ordered
        self.tried = None
        self.adds += piece.adds
        self.rejects += rejects
        self.numbering_s += piece.numbering_s
        self.writing_s += piece.writing_s
        for row, reason in zip(ordered.refused.tolist(), ordered.reasons.tolist(), strict=True):
            rule = self.topics.get(batch.topics[int(batch.topic[row])])
            self.refusals[rule.name if rule else "", reason] += 1
        self.next_offsets |= ordered.next_offsets
        self.watermarks |= ordered.watermarks
        self.marks |= ordered.marks
        for topic_id, ids in ordered.new_ids.items():
            self.ids.add(topic_id, ids)
        self.rows += len(batch)
        self.ordered += len(ordered.survivors)
        self.duplicates += len(ordered.duplicates)
        self.refused += len(ordered.refused)

    def actions(self, number: int) -> list[Action]:
        """What its commit says: rows and the watermarks they move. `number`: of the batch."""
        offsets, watermarks = self.next_offsets.items(), self.watermarks.items()
        return [
            *self.adds,
            Txn(ORDER_TXN, number),
            *(Txn(offset_mark(p.topic_id, p.partition), int(offset)) for p, offset in offsets),
            *(Txn(WATERMARKS.name(shard), int(stamp)) for shard, stamp in watermarks),
            *(Txn(name, value) for name, value in self.marks.items()),
        ]

    def done(self, version: Version, committing_s: float) -> Done:
        """It is committed, as `version` of `log`."""
        return Done(
            self.rows,
            self.ordered,
            self.duplicates,
            self.refused,
            self.refusals,
            version,
            self.numbering_s,
            self.writing_s,
            committing_s,
            self.traces,
        )
