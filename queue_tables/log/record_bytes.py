"""How many bytes rows of `log` are: those of their keys, values and headers. Pure.

What is bounded by bytes counts them like this: an answer, what is read ahead, what memory holds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Bytes = npt.NDArray[np.int64]
_PAYLOADS = ("key", "value")
_HEADERS = "headers"


def bytes_of(rows: pa.Table) -> int:
    """Of all rows, mostly at the price of a few positions. Columns that are missing count nothing.

    What lies where a value is missing counts as well: mostly nothing.
    """
    there = [name for name in _PAYLOADS if name in rows.column_names]
    size = sum(_between(chunk) for name in there for chunk in rows.column(name).chunks)
    return size + int(_of_headers(rows).sum())


def bytes_up_to(rows: pa.Table) -> Bytes:
    """Of the first 1, 2, … rows."""
    sizes = _of_headers(rows)
    for name in _PAYLOADS:
        if name in rows.column_names:
            sizes = sizes + _lengths(rows.column(name))
    return np.cumsum(sizes)


def _between(chunk: pa.Array) -> int:
    if not len(chunk):
        return 0
    positions = np.frombuffer(chunk.buffers()[1], np.int32)
    return int(positions[chunk.offset + len(chunk)] - positions[chunk.offset])


def _lengths(column: pa.ChunkedArray | pa.Array) -> Bytes:
    lengths = pc.fill_null(pc.binary_length(column), 0)
    return np.asarray(lengths.to_numpy()).astype(np.int64)


def _of_headers(rows: pa.Table) -> Bytes:
    if _HEADERS not in rows.column_names:
        return np.zeros(rows.num_rows, np.int64)
    chunks = [_of_lists(chunk) for chunk in rows.column(_HEADERS).chunks]
    return np.concatenate([np.zeros(0, np.int64), *chunks])


def _of_lists(lists: pa.ListArray) -> Bytes:
    begins = lists.offsets.to_numpy().astype(np.int64)
    pairs = lists.values.slice(int(begins[0]), int(begins[-1] - begins[0]))
    if not len(pairs):
        return np.zeros(len(lists), np.int64)
    sizes = _lengths(pc.struct_field(pairs, 0)) + _lengths(pc.struct_field(pairs, 1))
    up_to: Bytes = np.concatenate([[0], np.cumsum(sizes)])
    of_lists: Bytes = np.diff(up_to[begins - begins[0]])
    return of_lists
