"""Rows of `log` as the bytes of a poll's answer. Pure.

Key and value leave as they were sent: JSON is copied byte for byte. Bytes that are not what their
format says leave as base64, and a name that is not UTF-8 has its odd bytes escaped. A record that
cannot be read at all has neither key nor value nor headers, and says why in `undecodable`: it holds
up nobody else.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable
from contextlib import suppress
from itertools import repeat
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.records import Format
from lakequeue.wire import (
    UNDECODABLE,
    group_checksum,
    headers_to_json,
    key_value_to_json,
    put_key_value,
    queue_receipts_begin,
)
from queue_rules.queues.attempts import Attempt, NewRecord
from queue_rules.queues.key_order import key_hash
from queue_tables.groups.facts import Key
from queue_tables.groups.record_states import NEVER
from queue_tables.schema.odd_bytes import headers_of, texts_of

COLUMNS = [
    "topic_id",
    "topic",
    "partition",
    "offset",
    "key",
    "value",
    "key_format",
    "value_format",
    "headers",
    "timestamp",
    "message_id",
    "deliver_at",
    "expires_at",
]
"""What delivery needs of a log file."""


MOST_REASON = 500
"""Characters of a reason."""


def records_of(rows: pa.Table, epoch: int) -> list[dict[str, Any]]:
    """The records of `rows` (columns `COLUMNS`, one partition), ready for `orjson.dumps`.

    The shape is that of `lakequeue.wire.record_to_json`, made a column at a time for speed.
    """
    records = plain_records(rows)
    if not records:
        return []
    return delivered(records, rows["topic_id"][0].as_py(), epoch)


def delivered(records: Iterable[dict[str, Any]], topic_id: str, epoch: int) -> list[dict[str, Any]]:
    """Plain records of one partition as a stream group gets them: copies with their receipts."""
    return [
        {
            **record,
            "attempt": 1,
            "receipt": f"{topic_id}.{record['partition']}.{record['offset']}.{epoch}.1",
        }
        for record in records
    ]


def queue_delivered(
    records: list[dict[str, Any]], key: Key, generation: int, attempts: Iterable[Attempt]
) -> list[dict[str, Any]]:
    """As `delivered`, for a queue group: `attempts` are those of the records, one by one.

    Nobody else gets them, so these are no copies.
    """
    end = group_checksum(key.group)
    begin = queue_receipts_begin(key.topic_id, key.partition)
    for record, one in zip(records, attempts, strict=True):
        record["attempt"] = one.attempt
        record["receipt"] = f"{begin}{one.offset}.{generation}.{one.attempt}.{end}"
        record["deadline"] = one.deadline
        record["first_delivered_at"] = one.first_at
    return records


def new_records_of(rows: pa.Table, *, keys: bool) -> list[NewRecord]:
    """What a queue partition has to know of rows that it has not seen; `keys`: their keys too."""
    deliver_at = numbers_of(pc.fill_null(rows["deliver_at"].cast(pa.int64()), 0))
    expires_at = numbers_of(pc.fill_null(rows["expires_at"].cast(pa.int64()), NEVER))
    hashes = map(key_hash, rows["key"].to_pylist()) if keys else repeat(0)
    return list(map(NewRecord, numbers_of(rows["offset"]), hashes, deliver_at, expires_at))


def numbers_of(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column of whole numbers: by numpy in a tenth of the time, unless some is
    missing."""
    values: list[Any] = column.to_pylist() if column.null_count else column.to_numpy().tolist()
    return values


def plain_records(rows: pa.Table) -> list[dict[str, Any]]:
    """The records of `rows` by themselves: without what belongs to a delivery."""
    if rows.num_rows == 0:
        return []
    try:
        return _all_of(rows)
    except Exception:  # noqa: BLE001 -- one record must not hold up those beside it, whatever it is
        return [_one_of(rows.slice(at, 1)) for at in range(rows.num_rows)]


def unreadable_among(rows: pa.Table) -> list[dict[str, Any]]:
    """Those of the records that cannot be read: mostly none, at the price of one reading."""
    return [record for record in plain_records(rows) if UNDECODABLE in record]


def kept_record(row: pa.Table) -> dict[str, Any]:
    """The record of one row as it goes to the dead letters: if it cannot be read, its bytes do."""
    record = plain_records(row)[0]
    if UNDECODABLE not in record:
        return record
    # Whatever it fails at: each part by itself, and what cannot be had is left out.
    with suppress(Exception):
        record["timestamp"] = row["timestamp"].cast(pa.int64())[0].as_py() or 0
    with suppress(Exception):
        record["headers"] = headers_to_json(headers_of(row["headers"])[0])
    with suppress(Exception):
        record |= key_value_to_json("key", row["key"][0].as_py(), Format.BYTES)
    with suppress(Exception):
        record |= key_value_to_json("value", row["value"][0].as_py(), Format.BYTES)
    return record


def _one_of(row: pa.Table) -> dict[str, Any]:
    try:
        return _all_of(row)[0]
    except Exception as error:  # noqa: BLE001 -- the answer says it, and the log
        return {
            "topic": texts_of(row["topic"])[0],
            "partition": row["partition"][0].as_py(),
            "offset": row["offset"][0].as_py(),
            "key": None,
            "value": None,
            "headers": [],
            "timestamp": 0,
            "message_id": None,
            UNDECODABLE: f"{type(error).__name__}: {error}"[:MOST_REASON],
        }


def _all_of(rows: pa.Table) -> list[dict[str, Any]]:
    places = zip(
        texts_of(rows["topic"]),
        numbers_of(rows["partition"]),
        numbers_of(rows["offset"]),
        strict=True,
    )
    out: list[dict[str, Any]] = [
        {"topic": topic, "partition": partition, "offset": offset}
        for topic, partition, offset in places
    ]
    _put_all(out, "key", rows)
    _put_all(out, "value", rows)
    rest = zip(
        out,
        headers_of(rows["headers"]),
        numbers_of(pc.fill_null(rows["timestamp"].cast(pa.int64()), 0)),
        texts_of(rows["message_id"]),
        strict=True,
    )
    for record, headers, timestamp, mid in rest:
        record["headers"] = headers_to_json(headers) if headers else []
        record["timestamp"] = timestamp
        record["message_id"] = mid
    return out


def _put_all(records: list[dict[str, Any]], name: Literal["key", "value"], rows: pa.Table) -> None:
    """`put_key_value` for each of the records, which are those of the rows."""
    column = rows[name]
    if column.null_count == len(column):
        for record in records:
            record[name] = None
        return
    encoded = f"{name}_base64"
    formats = numbers_of(rows[f"{name}_format"])
    for record, data, fmt in zip(records, column.to_pylist(), formats, strict=True):
        if fmt == Format.BYTES and data is not None:
            record[encoded] = b2a_base64(data, newline=False).decode("ascii")
        else:
            put_key_value(record, name, data, fmt)
