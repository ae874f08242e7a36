"""Deletion vectors: which rows of a data file another engine has deleted without rewriting it.

The queue writes none. A table of an earlier release may have some, when somebody switched them on.
Source: the Delta transaction log protocol, "Deletion Vectors", and the portable format of Roaring
bitmaps. A few dozen lines that only ever read; a library for it would be a C extension in every
installation, for what most never meet.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakequeue.errors import CorruptTable
from queue_tables.delta.store import Store

Rows = npt.NDArray[np.int64]
"""Positions in a file, rising."""

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC = 1_681_511_377
_WITHOUT_RUNS, _WITH_RUNS = 12_346, 12_347
_MOST_IN_ARRAY = 4_096
_LEAST_FOR_OFFSETS = 4
_REMEDY = "say `lakequeue repair`, or ALTER TABLE … DROP FEATURE deletionVectors in Spark"


def deleted_rows(store: Store, table_path: str, vector: Mapping[str, Any]) -> Rows:
    """The positions of the deleted rows, by the descriptor in an `add` action.

    Raises `CorruptTable` for a vector that is damaged, or kept outside of the table.
    """
    try:
        rows = _decode(_stored(store, table_path, vector))
    except (ValueError, IndexError, KeyError, struct.error, FileNotFoundError) as error:
        raise CorruptTable(
            f"a deletion vector of {table_path} cannot be read: {error}", hint=_REMEDY
        ) from error
    if len(rows) != vector["cardinality"]:
        raise CorruptTable(
            f"a deletion vector of {table_path} has {len(rows)} rows, not {vector['cardinality']}",
            hint=_REMEDY,
        )
    return rows


def vector_path(vector: Mapping[str, Any]) -> str | None:
    """Its file, relative to the table; None if it is in the action itself, or elsewhere.

    Raises `ValueError` and `IndexError` for a descriptor that makes no sense.
    """
    if vector["storageType"] != "u":
        return None
    where = str(vector["pathOrInlineDv"])
    folder, name = where[:-20], uuid.UUID(bytes=_z85(where[-20:]))
    return f"{folder + '/' if folder else ''}deletion_vector_{name}.bin"


def left_of(rows: pa.Table, deleted: Rows) -> pa.Table:
    """The rows whose position, counted from the first, is not among `deleted`."""
    keep = np.ones(rows.num_rows, dtype=bool)
    keep[deleted[(deleted >= 0) & (deleted < rows.num_rows)]] = False
    return rows.filter(pa.array(keep))


def _stored(store: Store, table_path: str, vector: Mapping[str, Any]) -> bytes:
    kind, where, size = vector["storageType"], str(vector["pathOrInlineDv"]), vector["sizeInBytes"]
    if kind == "i":
        return _z85(where)[:size]
    inside = vector_path(vector)
    if inside is None:
        raise ValueError("it is kept outside of the table")
    path = f"{table_path}/{inside}"
    data, at = store.get(path), vector.get("offset") or 0
    (said,) = struct.unpack_from(">i", data, at)
    body = data[at + 4 : at + 4 + said]
    (checksum,) = struct.unpack_from(">I", data, at + 4 + said)
    if said != size or zlib.crc32(body) != checksum:
        raise ValueError(f"{path} is damaged")
    return body


def _z85(text: str) -> bytes:
    """ZeroMQ's base 85: five characters are four bytes, the first the highest."""
    out = b""
    for at in range(0, len(text), 5):
        number = 0
        for character in text[at : at + 5]:
            number = number * 85 + _Z85.index(character)
        out += number.to_bytes(4, "big")
    return out


def _decode(data: bytes) -> Rows:
    """A 64-bit bitmap: 32-bit ones, each under the upper half of its numbers."""
    magic, count = struct.unpack_from("<iq", data)
    if magic != _MAGIC:
        raise ValueError(f"format {magic} is not known")
    at, found = 12, [np.empty(0, np.int64)]
    for _ in range(count):
        (high,) = struct.unpack_from("<I", data, at)
        at += 4
        for low, some in _containers(data, at):
            at = low
            found.append(some + (high << 32))
    return np.concatenate(found)


def _containers(data: bytes, at: int) -> Iterator[tuple[int, Rows]]:
    """The numbers of each container of a 32-bit bitmap, and where in `data` it ends."""
    (cookie,) = struct.unpack_from("<I", data, at)
    at += 4
    runs = np.zeros(0, np.uint8)
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.frombuffer(data, np.uint8, (count + 7) // 8, at)
        runs, at = np.unpackbits(flags, bitorder="little"), at + len(flags)
    elif cookie == _WITHOUT_RUNS:
        (count,) = struct.unpack_from("<I", data, at)
        runs, at = np.zeros(count, np.uint8), at + 4
    else:
        raise ValueError(f"cookie {cookie} is not known")
    keys = np.frombuffer(data, "<u2", 2 * count, at).astype(np.int64).reshape(count, 2)
    at += 4 * count
    if cookie == _WITHOUT_RUNS or count >= _LEAST_FOR_OFFSETS:
        at += 4 * count  # where each begins, which follows
    for (key, less), is_run in zip(keys.tolist(), runs.tolist(), strict=False):
        at, low = _container(data, at, less + 1, is_run=bool(is_run))
        yield at, low + (key << 16)
    if not count:
        yield at, np.empty(0, np.int64)


def _container(data: bytes, at: int, count: int, *, is_run: bool) -> tuple[int, Rows]:
    if is_run:
        (spans,) = struct.unpack_from("<H", data, at)
        pairs = np.frombuffer(data, "<u2", 2 * spans, at + 2).astype(np.int64).reshape(-1, 2)
        found = [np.arange(start, start + more + 1) for start, more in pairs.tolist()]
        return at + 2 + 4 * spans, np.concatenate([np.empty(0, np.int64), *found])
    if count <= _MOST_IN_ARRAY:
        return at + 2 * count, np.frombuffer(data, "<u2", count, at).astype(np.int64)
    bits = np.unpackbits(np.frombuffer(data, np.uint8, 8_192, at), bitorder="little")
    return at + 8_192, np.flatnonzero(bits).astype(np.int64)
