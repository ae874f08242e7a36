"""What one request carries, and its body: JSON, or columns where that is cheaper for both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from lakequeue.client.producing.outgoing import KEY, MORE, NO_DATA, OWN_ID, PLACED, Outgoing
from lakequeue.records import Format
from lakequeue.wire import ARROW_STREAM, JSON, Consumed
from lakequeue.wire.arrow_stream import Column, bytes_column, int_column, stream_of

COLUMNS_FROM: Final = 32
"""Records of a request from which on columns are cheaper: they cost a node 30 µs to begin with."""
_COLUMN_OF: Final[dict[int, Literal["binary", "utf8"]]] = {
    int(Format.BYTES): "binary",
    int(Format.TEXT): "utf8",
}


@dataclass(frozen=True, slots=True)
class Body:
    """A body, and what goes beside it."""

    data: bytes
    content_type: str
    params: dict[str, str | int]


def body_of(head: dict[str, Any], encoded: Sequence[bytes]) -> bytes:
    """A produce request in JSON: the envelope `head` (not empty), and the encoded records."""
    return orjson.dumps(head)[:-1] + b',"records":[' + b",".join(encoded) + b"]}"


def whole_body(
    records: Sequence[Outgoing],
    producer_id: str,
    after: int | None,
    epoch: int | None,
    consumed: Consumed | None,
) -> bytes:
    """A request for records of several topics, all or none."""
    head: dict[str, Any] = {"producer_id": producer_id, "atomic": True}
    if consumed is not None:
        head["consumed"] = consumed.model_dump()
    if epoch is not None:
        head["producer_epoch"] = epoch
    if after is not None:
        head["after"] = after
    return body_of(head, [r.on_the_wire(with_id=True, with_topic=True) for r in records])


@dataclass(slots=True)
class ProducerBatch:
    """Records of one topic, in the order of sending."""

    topic: str
    records: list[Outgoing]
    opened_at: float
    """When its first record was sent."""
    size: int = 0
    """About what it takes as JSON."""
    route: str = ""
    """What the node is chosen by; the topic, if it is empty."""

    @property
    def is_whole(self) -> bool:
        """Its numbers follow each other, so the service knows them all by the first.

        A part of a batch that goes to several nodes has gaps: its records name their ids.
        """
        first, last = self.records[0].sequence, self.records[-1].sequence
        return last - first + 1 == len(self.records)

    def body(
        self, producer_id: str, after: int | None, epoch: int | None = None, *, columns: bool = True
    ) -> Body:
        """The request. Equal for every retry but for `after`, which may only have risen.

        `columns`: the node takes Arrow.
        """
        head: dict[str, str | int] = {"producer_id": producer_id}
        whole = self.is_whole
        if whole:
            head["sequence"] = self.records[0].sequence
        if epoch is not None:
            head["producer_epoch"] = epoch
        if after is not None:
            head["after"] = after
        if columns and len(self.records) >= COLUMNS_FROM:
            found = self._columns(with_ids=not whole)
            if found is not None:
                return Body(stream_of(found), ARROW_STREAM, head)
        return Body(body_of(head, [r.on_the_wire(not whole) for r in self.records]), JSON, {})

    def _columns(self, *, with_ids: bool) -> list[Column] | None:
        """None: they are not all of one kind, or of one that columns do not have."""
        records = self.records
        kind = records[0].kind
        values, keys = _COLUMN_OF.get(kind & 3), _COLUMN_OF.get(kind >> KEY & 3)
        no_keys = kind >> KEY & 3 == NO_DATA
        if values is None or (keys is None and not no_keys) or kind & MORE:
            return None
        if len({record.kind for record in records}) > 1:
            return None
        cells: Any = [record.value_data for record in records]
        columns = [bytes_column("value", values, cells)]
        if keys is not None:
            cells = [record.key_data for record in records]
            columns.append(bytes_column("key", keys, cells))
        if kind & PLACED:
            cells = [record.partition for record in records]
            columns.append(int_column("partition", cells))
        elif no_keys and records[0].chosen is not None:
            cells = [record.chosen for record in records]
            columns.append(int_column("partition", cells))
        if with_ids or kind & OWN_ID or records[0].life.says_ids:
            ids = [record.message_id.encode() for record in records]
            columns.append(bytes_column("message_id", "utf8", ids))
        return columns

    def without(self, index: int) -> list[ProducerBatch]:
        """What is before and after record `index`, which is at fault."""
        parts = (self.records[:index], self.records[index + 1 :])
        return [self.part(part) for part in parts if part]

    def halves(self) -> list[ProducerBatch]:
        """Two smaller batches, in order."""
        middle = len(self.records) // 2
        return [self.part(self.records[:middle]), self.part(self.records[middle:])]

    def part(self, records: list[Outgoing]) -> ProducerBatch:
        """A batch with some of the records."""
        return ProducerBatch(self.topic, records, self.opened_at, self.size, self.route)
