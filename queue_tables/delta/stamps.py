"""The stamp of a commit to a shard: it orders the commit, and says how far a shard is done. Pure.

A shard can hold a commit that no release of ours has made, with any stamp. A stamp that is no time
of ours would hide all commits behind it, or be hidden itself.
"""

from __future__ import annotations

from typing import Final

from lakequeue.errors import CorruptTable
from lakequeue.records import Stamp
from queue_tables.delta.actions import Commit, commit_path

LAST_STAMP: Final = 7_258_118_400_000_000
"""Year 2200: a higher stamp would hide all that follows it in its shard."""


def sound_stamp(commit: Commit) -> Stamp | None:
    """The stamp of a commit; None if it has none, or one that no commit of ours has."""
    given = commit.info.get("stamp")
    return Stamp(given) if type(given) is int and 0 < given < LAST_STAMP else None


def stamp_of(commit: Commit, table: str) -> Stamp | None:
    """The stamp of the rows that a commit brings; None for a creation, a fence, a seal.

    Raises `CorruptTable` if rows come with no stamp, or with one that no commit of ours has.
    """
    if not commit.appends:
        return None
    stamp = sound_stamp(commit)
    if stamp is None:
        given = repr(commit.info.get("stamp"))[:40]
        raise CorruptTable(
            f"{table}: commit {commit.version} brings rows under the stamp {given}; a stamp is a"
            f" whole number between 0 and {LAST_STAMP}",
            hint="no release of lakequeue writes that. Its rows are ordered when"
            f" commitInfo.lakequeue.stamp in {commit_path(table, commit.version)} is a number"
            " between the stamps of the commits before and after it",
        )
    return stamp
