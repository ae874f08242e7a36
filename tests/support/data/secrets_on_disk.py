"""Looks for bytes in every data file under a root, whether a table still names it or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def files_with(root: Path | str, secret: bytes) -> list[str]:
    """The files, relative to the root, of which some column holds `secret`."""
    found = []
    for path in sorted(Path(root).rglob("*.parquet")):
        rows = pq.read_table(path, partitioning=None).to_pylist()
        if any(secret in piece for row in rows for piece in _bytes_in(row)):
            found.append(str(path.relative_to(root)))
    return found


def _bytes_in(value: Any) -> Iterator[bytes]:
    match value:
        case bytes():
            yield value
        case str():
            yield value.encode()
        case dict():
            for inner in value.values():
                yield from _bytes_in(inner)
        case list():
            for inner in value:
                yield from _bytes_in(inner)
