"""Produce bodies that are Arrow streams, to columns. Pure.

The bytes come from outside, and Arrow trusts what it reads: nothing is computed on a batch before
`validate(full=True)`, and nothing is expanded before its size is known. Compressed buffers are
refused (their size is not known before they are unpacked; compress the body instead), and so are
the types that can name the same bytes many times (views, run ends, dictionaries).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakequeue import wire
from lakequeue.errors import InvalidRequest, LakequeueError, MalformedBody
from lakequeue.partitioner import PARTITIONERS
from lakequeue.records import Format
from queue_rules.produce import timing
from queue_rules.produce.rows import NO_PARTITION, NO_TIMESTAMP, Headers, Rows
from queue_rules.produce.validation import (
    Limits,
    at_record,
    check_message_id,
    check_values,
    header_bytes,
    too_large,
    too_many,
)
from queue_tables.schema.topic_rules import check_partition

_COLUMNS = (
    "value", "key", "partition", "message_id", "timestamp", "headers",
    "deliver_at", "delay_ms", "ttl_ms",
)  # fmt: skip
_LONGEST_ID = wire.MAX_MESSAGE_ID_CHARS
_COMPRESSION_SLOT = 3
"""Field of `RecordBatch` in Arrow's Message.fbs that tells how its buffers are compressed."""
_RECORD, _PAIR, _WIDE = 1_000, 250, 8
"""Bytes of Python beside the data: of a record, of a header, and for each byte of text."""


def columns_of_arrow(
    body: bytes,
    limits: Limits,
    producer_id: str | None,
    sequence: int | None,
    take: Callable[[int], object] = lambda _: None,
) -> Rows:
    """Check a stream of record batches and turn it into columns.

    Texts come out as text, binaries as bytes. Raises `MalformedBody`, `InvalidRequest`, `TooLarge`.
    `take` is told how many bytes the columns become in Python, before they do; it may raise.
    """
    table = _read(body, limits)
    headers = _header_lists(table)
    take(_becomes(table, headers))
    if table.num_rows == 0:
        raise InvalidRequest(
            "the request has no records", hint="send at least one", field="records", stored="no"
        )
    rows = Rows()
    rows.values, rows.value_formats = _payload(table, "value")
    if "key" in table.schema.names:
        rows.keys, rows.key_formats = _payload(table, "key")
    else:
        rows.keys, rows.key_formats = [None] * len(rows), [int(Format.BYTES)] * len(rows)
    rows.headers = None if headers is None else _headers(headers)
    given = _optional(table, "partition", pa.types.is_integer, "an integer")
    ids = _optional(table, "message_id", _is_text, "text")
    times = _times(table, "timestamp")
    rows.timings = _timings(table)
    rows.sizes = _sizes(rows)
    if not _are_good(rows, given, ids, times, limits):
        _refuse_first(rows, given, ids, times, limits)
    rows.partitions = _partitions(given, rows.keys, limits)
    if producer_id is not None and sequence is not None:
        rows.message_ids = [
            m or wire.derived_message_id(producer_id, sequence + i) for i, m in enumerate(ids)
        ]
    else:
        rows.message_ids = ids
    rows.timestamps = [NO_TIMESTAMP if t is None else t for t in times]
    check_values(rows, limits)
    return rows


def _sizes(rows: Rows) -> list[int]:
    sizes = [0 if value is None else len(value) for value in rows.values]
    if any(rows.keys):
        sizes = [n + len(key or b"") for n, key in zip(sizes, rows.keys, strict=True)]
    if rows.headers is None:
        return sizes
    return [n + header_bytes(pairs) for n, pairs in zip(sizes, rows.headers, strict=True)]


def _are_good(
    rows: Rows,
    given: list[int | None],
    ids: list[str | None],
    times: list[int | None],
    limits: Limits,
) -> bool:
    """Whether no record has a fault, looked at a column at a time: nearly always none has."""
    count = len(given)
    return (
        max(rows.sizes) <= limits.max_record_bytes
        and all(number is None or 0 <= number < limits.partitions for number in set(given))
        and (ids.count(None) == count or all(m is None or 0 < len(m) <= _LONGEST_ID for m in ids))
        and times.count(None) == count
    )


def _refuse_first(
    rows: Rows,
    given: list[int | None],
    ids: list[str | None],
    times: list[int | None],
    limits: Limits,
) -> None:
    """Raise for the first record with a fault; there may be none."""
    for i, size in enumerate(rows.sizes):
        try:
            if size > limits.max_record_bytes:
                raise too_large(size, limits.max_record_bytes)
            if given[i] is not None:
                check_partition(given[i], limits.partitions)
            if ids[i] is not None:
                check_message_id(ids[i])
            if (time := times[i]) is not None:
                timing.check_time(time)
        except LakequeueError as e:
            raise at_record(e, i) from None


def _partitions(given: list[int | None], keys: list[bytes | None], limits: Limits) -> list[int]:
    if None not in given:
        return given  # type: ignore[return-value]
    rule, count = PARTITIONERS[limits.partitioner], limits.partitions
    return [
        number if number is not None else NO_PARTITION if key is None else rule(key, count)
        for number, key in zip(given, keys, strict=True)
    ]


def _read(body: bytes, limits: Limits) -> pa.Table:
    try:
        _refuse_compressed(body)
        with pa.ipc.open_stream(pa.BufferReader(body)) as stream:
            schema = stream.schema
            _check_schema(schema)
            batches: list[pa.RecordBatch] = []
            total = 0
            for batch in stream:
                total += batch.num_rows
                if total > limits.max_records:
                    raise too_many(total, limits.max_records)
                batch.validate(full=True)
                if batch.num_rows:  # any number of empty ones fits into a body
                    batches.append(batch)
            return pa.Table.from_batches(batches, schema)
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, IndexError) as e:
        raise MalformedBody(
            f"the body is not an Arrow stream: {e}",
            hint="pyarrow.ipc.new_stream, or another writer of the streaming format",
            stored="no",
        ) from None


def _check_schema(schema: pa.Schema) -> None:
    names = schema.names
    for name in names:
        if name not in _COLUMNS:
            raise _wrong(f"unknown column {name[:100]!r}", f"known are {', '.join(_COLUMNS)}", name)
    if "value" not in names:
        raise _wrong("column value is missing", "text or binary", "value")
    if len(set(names)) != len(names):
        raise _wrong("a column is there twice", "send each once", "records")


def _payload(table: pa.Table, name: str) -> tuple[list[bytes | None], list[int]]:
    column = table[name]
    kind = column.type
    if _is_text(kind):
        data: list[Any] = column.cast(
            pa.large_binary() if pa.types.is_large_string(kind) else pa.binary()
        ).to_pylist()
        return data, [int(Format.BYTES) if d is None else int(Format.TEXT) for d in data]
    if _is_binary(kind) or pa.types.is_null(kind):
        return column.to_pylist(), [int(Format.BYTES)] * table.num_rows
    raise _wrong(f"column {name} is {kind}", "text or binary", name)


def _header_lists(table: pa.Table) -> pa.ListArray | None:
    """The headers of all records, no list longer than it may be; None: there is no such column."""
    if "headers" not in table.schema.names:
        return None
    column = table["headers"]
    kind = column.type
    if pa.types.is_map(kind):
        kind = pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
    if not (
        pa.types.is_list(kind)
        and pa.types.is_struct(kind.value_type)
        and [f.name for f in kind.value_type] == ["key", "value"]
        and _is_text(kind.value_type[0].type)
        and _is_payload(kind.value_type[1].type)
    ):
        raise _wrong(
            f"column headers is {column.type}",
            "list<struct<key: string, value: binary>> or a map",
            "headers",
        )
    column = column.cast(kind)
    longer = pc.index(pc.greater(pc.list_value_length(column), wire.MAX_HEADERS), True).as_py()
    if longer >= 0:
        raise _bad_headers(longer)
    return column.combine_chunks()


def _headers(lists: pa.ListArray) -> list[Headers]:
    keys, values = lists.flatten().flatten()
    texts = keys.to_pylist()
    if pa.types.is_string(values.type):
        values = values.cast(pa.binary())
    elif pa.types.is_large_string(values.type):
        values = values.cast(pa.large_binary())
    pairs = zip(texts, values.to_pylist(), strict=True)
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_pylist()
    out: list[Headers] = [list(islice(pairs, count)) for count in counts]
    if keys.null_count:  # a pair that is null has no key either
        raise _bad_headers(next(i for i, row in enumerate(out) if any(k is None for k, _ in row)))
    return out


def _bad_headers(record: int) -> LakequeueError:
    hint = f"at most {wire.MAX_HEADERS}, each with a key"
    return at_record(InvalidRequest("headers are not valid", hint=hint, field="headers"), record)


def _becomes(table: pa.Table, headers: pa.ListArray | None) -> int:
    """Bytes that the columns take as Python objects."""
    texts = table["message_id"].nbytes if "message_id" in table.schema.names else 0
    pairs = 0
    if headers is not None:
        pairs = len(headers.values)
        texts += headers.nbytes
    return int(table.nbytes + _WIDE * texts + _RECORD * table.num_rows + _PAIR * pairs)


def _times(table: pa.Table, name: str) -> list[int | None]:
    if name not in table.schema.names:
        return [None] * table.num_rows
    column = table[name]
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        try:
            micros = column.cast(pa.timestamp("us", tz="UTC"), safe=kind.unit != "ns")
        except pa.ArrowInvalid:
            raise _wrong(f"a {name} is out of range", "years 1900 to 2199", name) from None
        return list(micros.cast(pa.int64()).to_pylist())
    if pa.types.is_int64(kind):
        numbers: list[int | None] = column.to_pylist()
        for i, number in enumerate(numbers):
            try:
                if number is not None:
                    timing.micros_of(number, name)
            except LakequeueError as e:
                raise at_record(e, i) from None
        return numbers
    if pa.types.is_null(kind):
        return [None] * table.num_rows
    raise _wrong(f"column {name} is {kind}", "timestamp with a zone, or int64 microseconds", name)


def _timings(table: pa.Table) -> list[timing.Timing | None] | None:
    if timing.FIELDS.isdisjoint(table.schema.names):
        return None
    dues = _times(table, "deliver_at")
    delays = _optional(table, "delay_ms", pa.types.is_integer, "whole milliseconds")
    ttls = _optional(table, "ttl_ms", pa.types.is_integer, "whole milliseconds")
    out: list[timing.Timing | None] = []
    for i, due in enumerate(dues):
        try:
            out.append(timing.checked(due, delays[i], ttls[i]))
        except LakequeueError as e:
            raise at_record(e, i) from None
    return out


def _optional(table: pa.Table, name: str, accepts: Any, expected: str) -> list[Any]:
    if name not in table.schema.names or pa.types.is_null(table[name].type):
        return [None] * table.num_rows
    if not accepts(table[name].type):
        raise _wrong(f"column {name} is {table[name].type}", expected, name)
    return list(table[name].to_pylist())


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_payload(kind: pa.DataType) -> bool:
    return _is_text(kind) or _is_binary(kind)


def _wrong(detail: str, expected: str, field: str) -> InvalidRequest:
    return InvalidRequest(detail, hint=expected, field=field[:100], stored="no")


# -- compressed buffers -------------------------------------------------------------------------


def _refuse_compressed(body: bytes) -> None:
    """Look at each message's header (a flatbuffer) before Arrow unpacks anything."""
    reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(body))
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        if message.type == "dictionary":
            raise _wrong("dictionary-encoded columns are not taken", "plain columns", "records")
        if message.type == "record batch" and _is_compressed(message.metadata.to_pybytes()):
            raise _wrong(
                "the Arrow buffers are compressed",
                "write them plain, and compress the body by Content-Encoding",
                "records",
            )


def _is_compressed(metadata: bytes) -> bool:
    root = _u32(metadata, 0)
    header = _field(metadata, root, 2)  # Message.header, a union: slot 1 is its type
    if header is None:
        return False
    batch = header + _u32(metadata, header)
    return _field(metadata, batch, _COMPRESSION_SLOT) is not None


def _field(data: bytes, table: int, slot: int) -> int | None:
    """Position of a table's field, None if it is absent (the flatbuffers internals page)."""
    vtable = table - int.from_bytes(data[table : table + 4], "little", signed=True)
    at = 4 + 2 * slot
    if vtable < 0 or at + 2 > int.from_bytes(data[vtable : vtable + 2], "little"):
        return None
    offset = int.from_bytes(data[vtable + at : vtable + at + 2], "little")
    return table + offset if offset else None


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")
