"""How far a result table goes: the mark that each of our commits carries, and what follows. Pure.

The mark is JSON in the commit's `userMetadata`, declared in `lakequeue/results/declared.py`.
`DESCRIBE HISTORY` shows it, newest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from lakequeue.errors import InvalidRequest
from lakequeue.results.declared import (
    Mark,
    Positions,
    parse_mark,
    partition_needle,
    written_by_other,
)
from lakequeue.results.restores import UNTOLD, untold

NO_RESTORE: Final = -1
"""In place of the version of a RESTORE."""


class Commit(NamedTuple):
    """A row of `DESCRIBE HISTORY`."""

    version: int
    restored_to: int | None
    """The version that a RESTORE went back to, or `UNTOLD`; None: another operation."""
    metadata: str | None


class FoundMark(NamedTuple):
    """What the history says of a group."""

    round: int
    """Of its newest commit; 0: it has none."""
    positions: Positions
    """That the table has now, after whatever was restored."""
    restored: int = NO_RESTORE
    """The newest RESTORE that is known, by version."""


def find(group: str, newest_first: Iterable[Commit]) -> FoundMark:
    """The newest round, and the positions of the newest commit that is not restored away.

    A partition that only commits restored away had begun is at 0: the table has nothing of it.
    Raises `InvalidRequest` if that cannot be told, after a RESTORE to a time; if a RESTORE came in
    between a writer's look at the table and its commit; and if delta-rs has written for the group.
    """
    newest_round, restored, upto = 0, NO_RESTORE, None
    undone: dict[str, int] = {}
    commits = iter(newest_first)
    for commit in commits:
        mark = parse_mark(group, commit.metadata)
        if mark is not None:
            newest_round = newest_round or mark.round
        if commit.restored_to is not None:
            restored = max(restored, commit.version)
        if upto is not None and commit.version > upto:
            undone |= dict.fromkeys(mark.positions if mark is not None else (), 0)
            continue
        if (commit.metadata or "").startswith(partition_needle(group)):
            raise written_by_other(group, "Consumer.transaction")
        if commit.restored_to == UNTOLD:
            raise untold(commit.version)
        if commit.restored_to is not None:
            upto = commit.restored_to
        elif mark is not None:
            below = _below(group, mark, commits)
            return FoundMark(newest_round, undone | dict(mark.positions), max(restored, below))
    return FoundMark(newest_round, undone, restored)


def _below(group: str, mark: Mark, older: Iterator[Commit]) -> int:
    """The newest RESTORE below the commit of `mark`. Raises if its writer did not know of it."""
    known = mark.restored
    for commit in older:
        if commit.restored_to is not None and known is not None and commit.version > known:
            raise InvalidRequest(
                f"version {commit.version} restored the result table while a batch was being "
                "written, which stands on top of it",
                hint="restore it again, to the same version, by its number, and start again",
            )
        if commit.restored_to is not None:
            return commit.version
        if parse_mark(group, commit.metadata) is not None:
            break  # what is below that, its writer has looked for
    return NO_RESTORE if known is None else known


def quoted(path: str) -> str:
    """A path as the name of a table in SQL."""
    return "delta.`{}`".format(path.replace("`", "``"))


class Span(NamedTuple):
    """Offsets of one partition in a batch: the lowest, and one past the highest."""

    first: int
    end: int


def gaps(positions: Positions, batch: Mapping[str, Span]) -> dict[str, tuple[int, int]]:
    """Partitions of which the batch begins beyond what the table has: (table, batch)."""
    return {
        place: (positions[place], span.first)
        for place, span in batch.items()
        if place in positions and span.first > positions[place]
    }


def moved(positions: Positions, batch: Mapping[str, Span]) -> dict[str, int]:
    """The positions once the batch is in the table. They never go back."""
    return dict(positions) | {
        place: max(span.end, positions.get(place, 0)) for place, span in batch.items()
    }
