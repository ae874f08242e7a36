"""Rows that their topic refuses, as records of the topic that is named for them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.errors import InvalidRequest, Rejected
from lakequeue.wire import MAX_RECORD_BYTES
from pyspark_lakequeue.sink.inbox_rows import Shaper
from queue_tables.delta.columns import HEADERS

REFUSED_HEADER = "lakequeue-refused"
"""Why the row was refused, in words."""
WANTED_HEADER = "lakequeue-wanted-topic"
"""The topic that it was for."""
CUT_HEADER = "lakequeue-cut"
"""Bytes of the value, of which the record has only the first."""
CUT_KEY_HEADER = "lakequeue-cut-key"
"""The same of the key."""
REFUSED_COLUMN = "_refused"
"""Column of a frame: why a row is refused already, null if it is not."""
SPARE_HEADERS = "_refused_headers"
"""Column: headers that a refused row gets beside its own."""
_CUT_BYTES = MAX_RECORD_BYTES // 2
_REASON_CHARS = 1_000
_KEY_BYTES = 4_096


@dataclass(slots=True)
class Sorted:
    """Shapes batches of one task: what is refused goes to the topic of `bad`."""

    good: Shaper
    bad: Shaper
    refused: int = 0

    def shape(self, batch: pa.Table) -> pa.Table:
        """All rows of the batch. Raises what the topic for refused rows refuses."""
        strays: list[pa.Table] = []
        if REFUSED_COLUMN in batch.column_names:
            known = pc.is_valid(batch[REFUSED_COLUMN])
            for row in batch.filter(known).to_batches(max_chunksize=1):
                table = pa.Table.from_batches([row])
                strays.append(_stray(table, self.good.topic, table[REFUSED_COLUMN][0].as_py()))
            batch = batch.filter(pc.invert(known))
        parts = list(self._parts(batch, strays))
        if strays:
            self.refused += len(strays)
            parts.append(self._shape_strays(pa.concat_tables(strays).combine_chunks(), batch))
        return pa.concat_tables(parts)

    def _parts(self, batch: pa.Table, strays: list[pa.Table]) -> Iterator[pa.Table]:
        """Halved until the rows at fault are alone: the shaper judges a batch as a whole."""
        try:
            yield self.good.shape(batch)
        except Rejected as error:
            if batch.num_rows == 1:
                strays.append(_stray(batch, self.good.topic, error.detail))
                return
            middle = batch.num_rows // 2
            yield from self._parts(batch.slice(0, middle), strays)
            yield from self._parts(batch.slice(middle), strays)

    def _shape_strays(self, strays: pa.Table, batch: pa.Table) -> pa.Table:
        if pa.types.is_string(batch["value"].type):
            with contextlib.suppress(pa.ArrowInvalid):  # what is no UTF-8 stays bytes
                text = strays["value"].cast(pa.string())
                strays = strays.set_column(strays.schema.get_field_index("value"), "value", text)
        try:
            return self.bad.shape(strays)
        except Rejected as error:
            raise InvalidRequest(
                f"topic {self.bad.topic!r}, for rows that are refused, refuses one: {error.detail}",
                hint="give that topic no value_schema and no max_record_bytes",
                field="badTopic",
            ) from error


def _stray(row: pa.Table, topic: str | None, why: str) -> pa.Table:
    """The row as it is sent to the topic for refused ones: bytes, cut if it is far too large."""
    given = {name: row.column(name)[0] for name in row.column_names}
    value, key = (_bytes_of(given.get(name)) for name in ("value", "key"))
    wanted = topic if topic is not None else _text_of(given.get("topic"))
    said: list[tuple[str, bytes | None]] = []
    spare = given.get(SPARE_HEADERS)
    if spare is not None and spare.is_valid:
        said += [(h["key"].as_py(), h["value"].as_py()) for h in spare.values]
    said += [
        (REFUSED_HEADER, why[:_REASON_CHARS].encode("utf-8", "replace")),
        (WANTED_HEADER, wanted.encode("utf-8", "replace")),
    ]
    if value is not None and len(value) > _CUT_BYTES:
        said.append((CUT_HEADER, str(len(value)).encode()))
        value = value[:_CUT_BYTES]
    if key is not None and len(key) > _KEY_BYTES:
        said.append((CUT_KEY_HEADER, str(len(key)).encode()))
        key = key[:_KEY_BYTES]
    columns = {
        "value": pa.array([value], pa.binary()),
        "key": pa.array([key], pa.binary()),
        "headers": pa.array([[{"key": k, "value": v} for k, v in said]], HEADERS),
    }
    return pa.table(columns)


def _bytes_of(given: pa.Scalar | None) -> bytes | None:
    """What is in a text or binary value, also where the text is no UTF-8."""
    if given is None or not given.is_valid:
        return None
    buffer = given.as_buffer()
    return None if buffer is None else buffer.to_pybytes()


def _text_of(given: pa.Scalar | None) -> str:
    return (_bytes_of(given) or b"").decode("utf-8", "replace")
