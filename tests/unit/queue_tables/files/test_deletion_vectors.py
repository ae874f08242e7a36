"""Deletion vectors in every form that their format has."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakequeue.errors import CorruptTable
from queue_tables.delta.store import ObjectStore
from queue_tables.files.deletion_vectors import _Z85, deleted_rows, left_of

STORE = ObjectStore.in_memory()


def z85(data: bytes) -> str:
    text = ""
    for at in range(0, len(data), 4):
        number, some = int.from_bytes(data[at : at + 4], "big"), ""
        for _ in range(5):
            number, digit = divmod(number, 85)
            some = _Z85[digit] + some
        text += some
    return text


def stretches(low: Sequence[int]) -> list[tuple[int, int]]:
    """(start, length - 1) of each run."""
    found = []
    for _, run in groupby(enumerate(low), lambda pair: pair[1] - pair[0]):
        some = [number for _, number in run]
        found.append((some[0], len(some) - 1))
    return found


def bitmap_of(numbers: Sequence[int], *, runs: bool) -> bytes:
    """32-bit numbers, rising, in the portable format; `runs`: as stretches."""
    parts = [(key, [n & 0xFFFF for n in some]) for key, some in groupby(numbers, lambda n: n >> 16)]
    head = b"".join(struct.pack("<HH", key, len(low) - 1) for key, low in parts)
    bodies = []
    for _, low in parts:
        if runs:
            pairs = stretches(low)
            body = struct.pack("<H", len(pairs))
            bodies.append(body + b"".join(struct.pack("<HH", *pair) for pair in pairs))
        elif len(low) <= 4_096:
            bodies.append(np.array(low, "<u2").tobytes())
        else:
            bits = np.zeros(1 << 16, np.uint8)
            bits[low] = 1
            bodies.append(np.packbits(bits, bitorder="little").tobytes())
    if runs:
        flags = b"\xff" * ((len(parts) + 7) // 8)
        start = struct.pack("<I", 12_347 | (len(parts) - 1) << 16) + flags + head
        start += b"\0\0\0\0" * len(parts) if len(parts) >= 4 else b""
    else:
        start = struct.pack("<II", 12_346, len(parts)) + head + b"\0\0\0\0" * len(parts)
    return start + b"".join(bodies)


def vector_of(numbers: Sequence[int], *, runs: bool = False) -> bytes:
    halves = [(high, list(some)) for high, some in groupby(numbers, lambda n: n >> 32)]
    body = struct.pack("<iq", 1_681_511_377, len(halves))
    for high, some in halves:
        low = [n & 0xFFFF_FFFF for n in some]
        body += struct.pack("<I", high) + bitmap_of(low, runs=runs)
    return body


def inline(data: bytes, count: int) -> dict[str, Any]:
    text = z85(data + b"\0" * (-len(data) % 4))
    return {
        "storageType": "i",
        "pathOrInlineDv": text,
        "sizeInBytes": len(data),
        "cardinality": count,
    }


numbers = st.one_of(
    st.sets(st.integers(0, 300), max_size=200),
    st.sets(st.integers(0, 1 << 34), max_size=40),
    st.builds(range, st.integers(0, 70_000), st.integers(0, 150_000), st.integers(1, 3)).map(set),
)


@given(numbers, st.booleans())
def test_every_vector_is_read_back(some: set[int], runs: bool) -> None:
    rising = sorted(some)
    found = deleted_rows(STORE, "log", inline(vector_of(rising, runs=runs), len(rising)))
    assert found.tolist() == rising


@pytest.mark.parametrize("folder", ["", "ab"])
def test_a_vector_in_a_file_is_found_by_its_descriptor(folder: str) -> None:
    name, data = uuid.uuid4(), vector_of([1, 5, 6])
    stored = struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    path = f"log/{folder + '/' if folder else ''}deletion_vector_{name}.bin"
    STORE.put(path, b"\x01" + stored)
    vector = {
        "storageType": "u",
        "pathOrInlineDv": folder + z85(name.bytes),
        "offset": 1,
        "sizeInBytes": len(data),
        "cardinality": 3,
    }
    assert deleted_rows(STORE, "log", vector).tolist() == [1, 5, 6]
    STORE.put(path, b"\x01" + stored[:-1] + bytes([stored[-1] ^ 1]))
    with pytest.raises(CorruptTable, match="is damaged") as refused:
        deleted_rows(STORE, "log", vector)
    assert "lakequeue repair" in refused.value.hint
    STORE.delete(path)
    with pytest.raises(CorruptTable, match="cannot be read"):
        deleted_rows(STORE, "log", vector)


@pytest.mark.parametrize(
    "vector",
    [
        inline(vector_of([1, 2]), 3),
        inline(b"\0" * 24, 0),
        inline(vector_of([1, 2])[:14], 2),
        {"storageType": "p", "pathOrInlineDv": "/x", "sizeInBytes": 1, "cardinality": 1},
    ],
)
def test_a_vector_that_makes_no_sense_is_an_error_with_a_remedy(vector: dict[str, Any]) -> None:
    with pytest.raises(CorruptTable, match="deletion vector of log") as refused:
        deleted_rows(STORE, "log", vector)
    assert "DROP FEATURE" in refused.value.hint


def test_positions_are_counted_from_the_first_row() -> None:
    rows = pa.table({"n": list(range(5))})
    assert left_of(rows, np.array([-3, 1, 4, 9]))["n"].to_pylist() == [0, 2, 3]
