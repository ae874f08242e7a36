"""What a batch reads, and how a source tells its driver beside Spark.

A Spark job that collects a few hundred projected rows takes about 200 ms on a busy machine, of
which reading takes ten. So the source, which knows the files of the batch when it cuts it, tells
their names over its channel, and the driver reads the batch by itself unless it is too large. The
batch is Spark's all the same: its number must be the one that Spark runs, else the rows are taken
from Spark's frame.

A bulk write is one commit of any size, and so one batch. It is noted in *pieces*, which the driver
takes one after the other, so that it holds the rows of one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.rows.batch_file import BatchFile
from jobs.source.consistent_cut import VisibleCommit

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

    @staticmethod
    def of_json(told: Mapping[str, Any]) -> BatchManifest:
        """As a source has told it."""
        files = [BatchFile(*file) for file in told["files"]]
        return BatchManifest(files, [tuple(fence) for fence in told["fences"]])


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


def manifest_of(
    seen: Sequence[VisibleCommit], driver_bytes: int, piece_bytes: int
) -> list[BatchManifest] | None:
    """What the driver reads by itself: in pieces, if it is a write larger than `piece_bytes`.

    None for others with more than `driver_bytes` of records: Spark's tasks read them.
    """
    pieces = pieces_of(seen, piece_bytes)
    small = sum(s.bytes for s in seen) <= driver_bytes and len(seen) <= _MOST_FILES
    return pieces if small or len(pieces) > 1 else None
