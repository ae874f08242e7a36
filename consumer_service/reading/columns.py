"""Rows of `log` as the columns of a poll's answer: an Arrow stream, or JSON. Pure.

Nothing is made of a row: its buffers leave as they are. Rows that a client could not read so (a
text that is not UTF-8, headers without names) have no columns, and leave one by one, as JSON.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

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
_OWN: Final = [name for name in SCHEMA.names if name != "receipt"]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one partition, delivered under one epoch."""

    place: tuple[str, int]
    epoch: int
    rows: pa.Table
    columns: pa.Table

    def text(self) -> bytes | memoryview:
        """The records as JSON, with commas between them."""
        try:
            return records_text(self.columns, self.epoch, self.rows["topic_id"][0].as_py())
        except (pa.ArrowException, ValueError):  # one by one, the odd ones can be told apart
            return orjson.dumps(records_of(self.rows, self.epoch))[1:-1]


@dataclass(slots=True)
class InColumns:
    """The records of one answer, one part after the other."""

    form: Form = "arrow"
    parts: list[Part] = field(default_factory=list)

    def __len__(self) -> int:
        return sum(part.rows.num_rows for part in self.parts)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """As JSON has them."""
        for part in self.parts:
            yield from records_of(part.rows, part.epoch)

    def without(self, over: Collection[tuple[str, int]]) -> InColumns:
        """Those of other partitions."""
        return InColumns(self.form, [part for part in self.parts if part.place not in over])

    def body(self, beside: Mapping[str, object]) -> bytes:
        """The answer in its form, with what goes beside the records."""
        return self._stream(beside) if self.form == "arrow" else self._json(beside)

    def _json(self, beside: Mapping[str, object]) -> bytes:
        pieces: list[bytes | memoryview] = []
        for part in self.parts:
            pieces += (b",", part.text())
        more = orjson.dumps(beside)[1:-1]
        end = (b"],", more, b"}") if more else (b"]}",)
        return b"".join((b'{"records":[', *pieces[1:], *end))

    def _stream(self, beside: Mapping[str, object]) -> bytes:
        sink = pa.BufferOutputStream()
        schema = SCHEMA.with_metadata({BESIDE: orjson.dumps(beside)})
        with pa.ipc.new_stream(sink, schema) as out:
            for part in self.parts:
                out.write_table(part.columns)
        return bytes(memoryview(sink.getvalue()))


def part_of(place: tuple[str, int], epoch: int, rows: pa.Table) -> Part | None:
    """Rows of one partition, at least one; None: they have to leave as JSON."""
    try:
        columns = rows.select(_OWN)
        columns.validate(full=True)
        if not _are_plain(columns["headers"]):
            return None
        for name in ("key_format", "value_format", "timestamp"):
            at = columns.schema.get_field_index(name)
            kind = SCHEMA.field(name).type
            filled = pc.fill_null(columns[name].cast(kind), pa.scalar(0).cast(kind))
            columns = columns.set_column(at, name, filled)
        # As `receipt_of` makes them.
        before = pa.scalar(f"{rows['topic_id'][0].as_py()}.{place[1]}")
        offsets, after = columns["offset"].cast(pa.string()), pa.scalar(f"{epoch}.1")
        receipts = pc.binary_join_element_wise(before, offsets, after, ".")
        return Part(place, epoch, rows, columns.append_column("receipt", receipts).cast(SCHEMA))
    except (pa.ArrowException, ValueError):
        return None


def _are_plain(headers: pa.ChunkedArray) -> bool:
    """Whether every header has a name."""
    if headers.null_count == len(headers):
        return True
    pairs = pc.list_flatten(headers)
    return not pairs.null_count and not pc.struct_field(pairs, 0).null_count
