"""Deletion vectors as another engine stores them: the queue itself writes none."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from queue_tables.delta.actions import CommitInfo, Protocol, commit_path, encode
from queue_tables.delta.store import Store
from queue_tables.delta.table import TableLog
from queue_tables.files.deletion_vectors import _Z85
from tests.support.faults.foreign import as_of_earlier_release


def z85(data: bytes) -> str:
    """Base 85 of bytes, whose number four divides."""
    text = ""
    for at in range(0, len(data), 4):
        number, some = int.from_bytes(data[at : at + 4], "big"), ""
        for _ in range(5):
            number, digit = divmod(number, 85)
            some = _Z85[digit] + some
        text += some
    return text


def spans(low: Sequence[int]) -> list[tuple[int, int]]:
    """(start, length - 1) of each run."""
    found = []
    for _, run in groupby(enumerate(low), lambda pair: pair[1] - pair[0]):
        some = [number for _, number in run]
        found.append((some[0], len(some) - 1))
    return found


def bitmap_of(numbers: Sequence[int], *, runs: bool) -> bytes:
    """32-bit numbers, rising, in the portable format; `runs`: as ranges of offsets."""
    parts = [(key, [n & 0xFFFF for n in some]) for key, some in groupby(numbers, lambda n: n >> 16)]
    head = b"".join(struct.pack("<HH", key, len(low) - 1) for key, low in parts)
    bodies = []
    for _, low in parts:
        if runs:
            pairs = spans(low)
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
    """Numbers, rising, as the content of a vector."""
    halves = [(high, list(some)) for high, some in groupby(numbers, lambda n: n >> 32)]
    body = struct.pack("<iq", 1_681_511_377, len(halves))
    for high, some in halves:
        low = [n & 0xFFFF_FFFF for n in some]
        body += struct.pack("<I", high) + bitmap_of(low, runs=runs)
    return body


def stored(store: Store, table: str, positions: Sequence[int]) -> dict[str, Any]:
    """A vector in a file of its own, which is put there; its descriptor."""
    name, data = uuid.uuid4(), vector_of(positions)
    kept = struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    store.put(f"{table}/deletion_vector_{name}.bin", b"\x01" + kept)
    return {
        "storageType": "u",
        "pathOrInlineDv": z85(name.bytes),
        "offset": 1,
        "sizeInBytes": len(data),
        "cardinality": len(positions),
    }


def delete_before_the_guard(store: Store, table: str, positions: Sequence[int]) -> None:
    """Delete rows of the only file of `table` as Spark does, in a root of an earlier release."""
    as_of_earlier_release(store, table)
    log = TableLog(store, table).open()
    [add] = log.files.values()
    marked = replace(add, deletion_vector=stored(store, table, positions))
    on = Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))
    info = CommitInfo(engine="Apache-Spark/4.2.0 Delta-Lake/4.4.0", operation="DELETE")
    path = commit_path(table, log.version + 1)
    store.put_new(path, encode([info, on, add.removal(1), marked]))
