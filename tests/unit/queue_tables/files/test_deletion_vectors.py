"""Deletion vectors in every form that their format has."""

from __future__ import annotations

import struct
import uuid
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakequeue.errors import CorruptTable
from queue_tables.delta.store import ObjectStore
from queue_tables.files.deletion_vectors import deleted_rows, left_of
from tests.support.data.deletion_vectors import vector_of, z85

STORE = ObjectStore.in_memory()


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
