"""What a batch reads, and how a source tells its driver beside Spark.

A Spark job that collects a few hundred narrow rows takes about 200 ms on a busy machine, of which
reading takes ten. So the source, which knows the files of the batch when it cuts it, leaves their
names in a small local file, and the driver reads the batch by itself unless it is too large. The
batch is Spark's all the same: its number must be the one that Spark runs, else the rows are taken
from Spark's frame.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jobs.cut import Seen

_MOST_FILES = 1_000
"""Two tasks read more of them quicker than one process does."""


@dataclass(frozen=True)
class BatchFiles:
    """The files of a batch, or of one task of it."""

    files: Sequence[tuple[str, str]]
    """(shard, path within the shard's table)"""
    fences: Sequence[tuple[str, str, str, int, int]]
    """(shard, group, topic_id, partition, epoch)"""

    @staticmethod
    def of(seen: Sequence[Seen]) -> BatchFiles:
        """What these commits brought."""
        return BatchFiles(
            [(s.shard, path) for s in seen for path in s.paths],
            [(s.shard, *fence) for s in seen for fence in s.fences],
        )


class BatchNote:
    """The file in which the source notes the newest batch of a query.

    One for each start of the query: a source that Spark has given up may still write its own.
    """

    def __init__(self, folder: Path, query: str, attempt: int) -> None:
        self._path = folder / f"{query}-{attempt}-batch.json"

    def write(self, number: int, seen: Sequence[Seen], max_bytes: int) -> None:
        """Note batch `number`; of one with more than `max_bytes` of records only the number."""
        small = sum(s.bytes for s in seen) <= max_bytes and len(seen) <= _MOST_FILES
        body = {"number": number, "files": asdict(BatchFiles.of(seen)) if small else None}
        temp = self._path.with_suffix(".tmp")
        temp.write_text(json.dumps(body))
        temp.rename(self._path)

    def read(self, number: int) -> BatchFiles | None:
        """The files of batch `number`; None if it is large, or another one is noted."""
        try:
            body = json.loads(self._path.read_text())
        except FileNotFoundError:
            return None
        if body["number"] != number or body["files"] is None:
            return None
        noted = body["files"]
        return BatchFiles([tuple(f) for f in noted["files"]], [tuple(f) for f in noted["fences"]])
