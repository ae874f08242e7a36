"""Records that a node cannot read, for a reason that nobody thought of: any that hold the marker.

Whatever bytes a record has, nodes read it. So a test that is about records that cannot be read
needs a node that fails at some.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from tests.support.faults.patching import Patch

MARKER = b"\xff\xfe nobody can read this"


def _fails_at_marker(encode: ModuleType) -> None:
    right = encode.put_key_value

    def put_key_value(record: dict[str, Any], name: str, data: bytes | None, fmt: int) -> None:
        if data is not None and MARKER in data:
            raise ZeroDivisionError("no value of it")
        right(record, name, data, fmt)

    encode.put_key_value = put_key_value  # type: ignore[attr-defined]


PATCHES: dict[str, Sequence[tuple[str, Patch]]] = {
    "unreadable": [("consumer_service.reading.encode", _fails_at_marker)],
}
