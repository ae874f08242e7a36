"""What the demo's processes saw, in files that outlive a SIGKILL: one JSON line a record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path


class Recording:
    """Appends lines; each `write` is handed to the kernel before it returns."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def write(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Append `rows` in one write."""
        data = "".join(json.dumps(row) + "\n" for row in rows)
        if data:
            self._file.write(data.encode())


class LineCount:
    """Counts the lines of growing files without reading anything twice."""

    def __init__(self, folder: Path, pattern: str) -> None:
        self._folder = folder
        self._pattern = pattern
        self._read: dict[Path, tuple[int, int]] = {}

    def lines(self) -> int:
        """Whole lines so far, over all files that match."""
        for path in self._folder.glob(self._pattern):
            position, lines = self._read.get(path, (0, 0))
            with path.open("rb") as file:
                file.seek(position)
                data = file.read()
            self._read[path] = (position + len(data), lines + data.count(b"\n"))
        return sum(lines for _, lines in self._read.values())
