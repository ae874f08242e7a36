"""Rows of `log` as the columns of a poll's answer: an Arrow stream, or JSON. Pure.

Nothing is made of a row: its buffers leave as they are. Rows that a client could not read so (a
text that is not UTF-8, headers without names) have no columns, and leave one by one, as JSON.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from consumer_service.reading.encode import records_of
from consumer_service.reading.json_text import records_text
from lakequeue.wire import BESIDE
from queue_tables.delta.columns import HEADERS

SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("key_format", pa.int32()),
        ("value", pa.binary()),
        ("value_format", pa.int32()),
        ("headers", HEADERS),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("message_id", pa.string()),
        ("receipt", pa.string()),
    ]
)
Form = Literal["arrow", "json"]
"""How columns leave: as they are, or as the text of their records."""
_END_BYTES: Final = 8
_OWN: Final = [name for name in SCHEMA.names if name != "receipt"]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one partition, at least one, delivered under one epoch."""

    place: tuple[str, int]
    epoch: int
    rows: pa.Table

    def text(self, columns: pa.RecordBatch) -> bytes | memoryview:
        """The records as JSON, with commas between them; `columns` are theirs."""
        try:
            return records_text(columns)
        except (pa.ArrowException, ValueError):  # one by one, the odd ones can be told apart
            return orjson.dumps(records_of(self.rows, self.epoch))[1:-1]


@dataclass(slots=True)
class InColumns:
    """The records of one answer, one part after the other."""

    form: Form = "arrow"
    parts: list[Part] = field(default_factory=list)
    columns: pa.RecordBatch | None = None
    """Of all parts, once they are made."""

    def __len__(self) -> int:
        return sum(part.rows.num_rows for part in self.parts)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """As JSON has them."""
        for part in self.parts:
            yield from records_of(part.rows, part.epoch)

    def __iadd__(self, part: Part) -> Self:
        self.parts.append(part)
        return self

    def without(self, over: Collection[tuple[str, int]]) -> InColumns:
        """Those of other partitions."""
        left = [part for part in self.parts if part.place not in over]
        return self if len(left) == len(self.parts) else InColumns(self.form, left)

    def make(self) -> bool:
        """Make the columns; False: some of the records have none."""
        self.columns = columns_of(self.parts)
        return self.columns is not None

    def body(self, beside: Mapping[str, object]) -> bytes | memoryview:
        """The answer in its form, with what goes beside the records."""
        columns = self.columns or columns_of(self.parts)
        return (self._stream if self.form == "arrow" else self._json)(columns, beside)

    def _json(self, columns: pa.RecordBatch, beside: Mapping[str, object]) -> bytes:
        pieces: list[bytes | memoryview] = []
        at = 0
        for part in self.parts:
            pieces += (b",", part.text(columns.slice(at, part.rows.num_rows)))
            at += part.rows.num_rows
        more = orjson.dumps(beside)[1:-1]
        end = (b"],", more, b"}") if more else (b"]}",)
        return b"".join((b'{"records":[', *pieces[1:], *end))

    @staticmethod
    def _stream(columns: pa.RecordBatch, beside: Mapping[str, object]) -> memoryview:
        """One batch, in memory of its size."""
        schema = SCHEMA.with_metadata({BESIDE: orjson.dumps(beside)})
        size = schema.serialize().size + pa.ipc.get_record_batch_size(columns) + _END_BYTES
        buffer = pa.allocate_buffer(size)
        with pa.FixedSizeBufferWriter(buffer) as sink:
            with pa.ipc.new_stream(sink, schema) as out:
                out.write_batch(columns)
            used = sink.tell()
        return memoryview(buffer)[:used]


def columns_of(parts: Sequence[Part]) -> pa.RecordBatch | None:
    """The columns of all parts, at least one; None: some rows have to leave as JSON."""
    try:
        rows = pa.concat_tables([part.rows.select(_OWN) for part in parts]).combine_chunks()
        (batch,) = rows.to_batches()
        batch.validate(full=True)
        columns: dict[str, pa.Array] = dict(zip(rows.schema.names, batch.columns, strict=True))
        if not _are_plain(columns["headers"]):
            return None
        for name in ("key_format", "value_format", "timestamp"):
            kind = SCHEMA.field(name).type
            columns[name] = pc.fill_null(columns[name].cast(kind), pa.scalar(0).cast(kind))
        columns["receipt"] = _receipts(parts, columns["offset"])
        return pa.RecordBatch.from_arrays(
            [columns[one.name].cast(one.type) for one in SCHEMA], schema=SCHEMA
        )
    except (pa.ArrowException, ValueError):
        return None


def _receipts(parts: Sequence[Part], offsets: pa.Array) -> pa.Array:
    """As `receipt_of` makes them."""
    counts = [part.rows.num_rows for part in parts]
    of_part = pa.array(np.repeat(np.arange(len(parts)), counts))
    begins = [f"{part.rows['topic_id'][0].as_py()}.{part.place[1]}" for part in parts]
    before = pa.array(begins, pa.string()).take(of_part)
    after = pa.array([f"{part.epoch}.1" for part in parts], pa.string()).take(of_part)
    return pc.binary_join_element_wise(before, offsets.cast(pa.string()), after, ".")


def _are_plain(headers: pa.ListArray) -> bool:
    """Whether every header has a name."""
    if headers.null_count == len(headers):
        return True
    pairs = headers.flatten()
    return not pairs.null_count and not pc.struct_field(pairs, 0).null_count
