"""Records that a node cannot read, and that the order job cannot read or write, for a reason that
nobody thought of: any that hold the marker.

Whatever bytes a record has, the queue goes on with it. So a test that is about records that fail
needs a process that fails at some.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.support.faults.patching import Patch

MARKER = b"\xff\xfe nobody can read this"


def _fails_at_marker(encode: ModuleType) -> None:
    right = encode.put_key_value

    def put_key_value(record: dict[str, Any], name: str, data: bytes | None, fmt: int) -> None:
        if data is not None and MARKER in data:
            raise ZeroDivisionError("no value of it")
        right(record, name, data, fmt)

    encode.put_key_value = put_key_value  # type: ignore[attr-defined]


def _judges_no_marker(polls_matching: ModuleType) -> None:
    right = polls_matching.matching

    def matching(condition: Any, rows: pa.Table) -> pa.Table:
        if MARKER in b"".join(value or b"" for value in rows["value"].to_pylist()):
            raise ZeroDivisionError("no verdict of it")
        return right(condition, rows)

    polls_matching.matching = matching  # type: ignore[attr-defined]


POISON = "poison"


def _fails_to_write(writer: ModuleType) -> None:
    right = writer._rendered

    def rendered(rows: pa.Table, compression: str) -> pa.Buffer:
        if pc.any(pc.match_substring(rows["value"], POISON)).as_py():
            raise ZeroDivisionError("no page")
        return right(rows, compression)

    writer._rendered = rendered  # type: ignore[attr-defined]


def _fails_to_hash(id_hash: ModuleType) -> None:
    right = id_hash.hash_ids

    def hash_ids(ids: pa.Array) -> Any:
        if pc.any(pc.match_substring(ids, POISON)).as_py():
            raise ZeroDivisionError("no hash")
        return right(ids)

    id_hash.hash_ids = hash_ids  # type: ignore[attr-defined]


PATCHES: dict[str, Sequence[tuple[str, Patch]]] = {
    "unreadable": [
        ("consumer_service.reading.encode", _fails_at_marker),
        ("consumer_service.polls.matching", _judges_no_marker),
    ],
    "unorderable": [
        ("queue_tables.log.writer", _fails_to_write),
        ("jobs.rows.id_hash", _fails_to_hash),
    ],
}
