"""What the demo's processes saw, in files that outlive a SIGKILL: one JSON line a record."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
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


class Lines:
    """Reads growing files without reading anything twice."""

    def __init__(self, folder: Path, pattern: str) -> None:
        self._folder = folder
        self._pattern = pattern
        self._read: dict[Path, int] = {}

    def new(self) -> Iterator[tuple[Path, bytes]]:
        """Each line that is whole by now and was not given before, with its file."""
        for path in sorted(self._folder.glob(self._pattern)):
            position = self._read.get(path, 0)
            with path.open("rb") as file:
                file.seek(position)
                # A line that is being written comes with the next look.
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read[path] = position + len(whole)
            for line in whole.splitlines():
                yield path, line


class Acknowledged:
    """How many departures the producers had acknowledged."""

    def __init__(self, folder: Path) -> None:
        self._lines = Lines(folder, "producer-*.jsonl")
        self._count = 0

    def count(self) -> int:
        """So far."""
        self._count += sum(1 for _ in self._lines.new())
        return self._count


class Received:
    """What the consumers got: each record once, however often it was delivered."""

    def __init__(self, folder: Path) -> None:
        self._lines = Lines(folder, "consumer-*.jsonl")
        self._seen: set[tuple[int, int]] = set()
        self.by_consumer: dict[str, int] = {}
        """Consumer → deliveries so far."""

    def count(self) -> int:
        """Records that some consumer has got so far."""
        for path, line in self._lines.new():
            row = json.loads(line)
            self._seen.add((row["partition"], row["offset"]))
            name = path.stem.removeprefix("consumer-")
            self.by_consumer[name] = self.by_consumer.get(name, 0) + 1
        return len(self._seen)
