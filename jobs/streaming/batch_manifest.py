"""What a batch reads, and how a source tells its driver beside Spark.

A Spark job that collects a few hundred projected rows takes about 200 ms on a busy machine, of
which reading takes ten. So the source, which knows the files of the batch when it cuts it, leaves
their names in a small local file, and the driver reads the batch by itself unless it is too large.
The batch is Spark's all the same: its number must be the one that Spark runs, else the rows are
taken from Spark's frame.

A bulk write is one commit of any size, and so one batch. It is noted in *pieces*, which the driver
takes one after the other, so that it holds the rows of one at a time.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jobs.rows.batch_file import BatchFile
from jobs.streaming.consistent_cut import VisibleCommit

_MOST_FILES = 1_000
"""Two tasks read more of them quicker than one process does."""


@dataclass(frozen=True)
class BatchManifest:
    """The files of a batch, or of one task of it."""

    files: Sequence[BatchFile]
    fences: Sequence[tuple[str, str, str, int, int]]
    """(shard, group, topic_id, partition, epoch)"""

    @staticmethod
    def of(seen: Sequence[VisibleCommit]) -> BatchManifest:
        """What these commits brought."""
        return BatchManifest(
            [BatchFile(s.shard, path, s.after, s.stamp) for s in seen for path in s.paths],
            [(s.shard, *fence) for s in seen for fence in s.fences],
        )


def pieces_of(seen: Sequence[VisibleCommit], most_bytes: int) -> list[BatchManifest]:
    """A batch in pieces of about `most_bytes` of records, in cut order; in one if it is not cut.

    Cut is only a commit that stands alone, and only between files: no request lies in two.
    """
    if len(seen) != 1 or len(seen[0].sizes) < 2 or seen[0].bytes <= most_bytes:
        return [BatchManifest.of(seen)]
    commit = seen[0]
    share = commit.bytes / max(1, sum(commit.sizes))
    parts: list[list[str]] = []
    held = 0.0
    for path, size in zip(commit.paths, commit.sizes, strict=True):
        if not parts or held + size * share > most_bytes:
            parts.append([])
            held = 0.0
        parts[-1].append(path)
        held += size * share
    bounds = commit.after, commit.stamp
    return [
        BatchManifest([BatchFile(commit.shard, p, *bounds) for p in part], ()) for part in parts
    ]


class BatchManifestFile:
    """The file in which the source notes the newest batch of a query.

    One for each start of the query: a source that Spark has given up may still write its own.
    """

    def __init__(self, folder: Path, query: str, attempt: int) -> None:
        self._path = folder / f"{query}-{attempt}-batch.json"

    def write(
        self, number: int, seen: Sequence[VisibleCommit], driver_bytes: int, piece_bytes: int
    ) -> None:
        """Note batch `number`, in pieces if it is a write larger than `piece_bytes`.

        Of others with more than `driver_bytes` of records only the number is noted.
        """
        pieces = pieces_of(seen, piece_bytes)
        small = sum(s.bytes for s in seen) <= driver_bytes and len(seen) <= _MOST_FILES
        noted = [asdict(piece) for piece in pieces] if small or len(pieces) > 1 else None
        body = {"number": number, "pieces": noted}
        temp = self._path.with_suffix(".tmp")
        temp.write_text(json.dumps(body))
        temp.rename(self._path)

    def read(self, number: int) -> list[BatchManifest] | None:
        """The pieces of batch `number`; None if Spark is to read it, or another one is noted."""
        try:
            body = json.loads(self._path.read_text())
        except FileNotFoundError:
            return None
        if body["number"] != number or body["pieces"] is None:
            return None
        return [
            BatchManifest(
                [BatchFile(*f) for f in noted["files"]], [tuple(f) for f in noted["fences"]]
            )
            for noted in body["pieces"]
        ]
