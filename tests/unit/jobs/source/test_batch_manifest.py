"""What a source tells of a batch, and which batches the driver reads by itself."""

from __future__ import annotations

from jobs.rows.batch_file import BatchFile
from jobs.source.batch_manifest import BatchManifest, manifest_of, pieces_of
from jobs.source.consistent_cut import VisibleCommit
from lakequeue.records import ShardName, Stamp, Version


def commits(count: int, size: int = 10) -> list[VisibleCommit]:
    """Commits of one file each."""
    fences = (("g", "t", 0, 3),)
    return [
        VisibleCommit(
            Stamp(n),
            ShardName("a"),
            Version(n),
            1,
            size,
            (f"hour=x/{n}.parquet",),
            fences,
            after=Stamp(max(0, n - 1)),
        )
        for n in range(count)
    ]


def test_a_small_batch_is_read_by_the_driver() -> None:
    files = [
        BatchFile("a", f"hour=x/{n}.parquet", stamp=Stamp(n), after=Stamp(max(0, n - 1)))
        for n in range(2)
    ]
    assert manifest_of(commits(2), 20, 20) == [BatchManifest(files, [("a", "g", "t", 0, 3)] * 2)]


def test_large_batches_are_left_to_the_tasks() -> None:
    assert manifest_of(commits(2, size=11), 20, 20) is None
    assert manifest_of(commits(1_001, size=0), 20, 20) is None


def write_of(sizes: tuple[int, ...], size: int) -> VisibleCommit:
    """One commit of a bulk write: `size` bytes of records in files of `sizes`."""
    paths = tuple(f"hour=x/{n}.parquet" for n in range(len(sizes)))
    return VisibleCommit(Stamp(9), ShardName("w"), Version(1), 7, size, paths, (), sizes)


def paths_of(pieces: list[BatchManifest]) -> list[list[int]]:
    """The numbers of the files of each piece."""
    return [[int(file.path[7:-8]) for file in piece.files] for piece in pieces]


def test_a_large_write_is_read_in_pieces_whatever_the_driver_reads_at_once() -> None:
    for driver_bytes in (0, 1_000):
        # Files of half the bytes of their records.
        pieces = manifest_of([write_of((5, 5, 5, 30, 5), 100)], driver_bytes, 20)
        assert paths_of(pieces or []) == [[0, 1], [2], [3], [4]]


def test_only_a_write_that_stands_alone_and_is_large_is_cut() -> None:
    assert paths_of(pieces_of([write_of((5, 5), 20)], 20)) == [[0, 1]]
    both = [write_of((5, 5), 21), *commits(1)]
    assert paths_of(pieces_of(both, 20)) == [[0, 1, 0]]
    unordered = write_of((5, 5), 21)._replace(sizes=())
    assert paths_of(pieces_of([unordered], 20)) == [[0, 1]]
