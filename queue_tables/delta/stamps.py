"""The stamp of a commit to a shard: it orders the commit, and says how far a shard is done. Pure.

A shard can hold a commit that no release of ours has made, with any stamp. A stamp that is no time
of ours would hide all commits behind it, or be hidden itself. What is asked of it costs nothing and
trusts no clock, since a node's clock may have been wrong and its records count all the same:

- it is a whole number above 0 and below the year 2200,
- it is what the commit's mark says as well (its `txn` `stamp`),
- it is above the stamp of the commit with rows before.
"""

from __future__ import annotations

from typing import Final

from lakequeue.errors import CorruptTable
from lakequeue.records import Stamp
from queue_tables.delta.actions import Commit, commit_path

LAST_STAMP: Final = 7_258_118_400_000_000
"""Year 2200: a higher stamp would hide all that follows it in its shard."""
STAMP_TXN: Final = "stamp"
"""Of shards: the newest stamp. It moves with each commit that brings rows."""


def sound_stamp(commit: Commit) -> Stamp | None:
    """The stamp of a commit; None if it has none, or one that no commit of ours has."""
    given = commit.info.get("stamp")
    if type(given) is not int or not 0 < given < LAST_STAMP:
        return None
    return Stamp(given) if commit.txns.get(STAMP_TXN, given) == given else None


def stamp_of(commit: Commit, table: str) -> Stamp | None:
    """The stamp of the rows that a commit brings; None for a creation, a fence, a seal.

    Raises `CorruptTable` if rows come with no stamp, or with one that no commit of ours has.
    """
    if not commit.appends:
        return None
    stamp = sound_stamp(commit)
    if stamp is None:
        given = commit.info.get("stamp")
        why = f"a stamp is a whole number between 0 and {LAST_STAMP}"
        if type(given) is int and 0 < given < LAST_STAMP:
            why = f"its txn `{STAMP_TXN}` says {commit.txns[STAMP_TXN]}"
        raise _odd(commit, table, f"the stamp {repr(given)[:40]}; {why}")
    return stamp


class RisingStamps:
    """Judges the commits of one shard, one after the other: the `check` of its tail."""

    def __init__(self, table: str, after: Stamp | None) -> None:
        """`after`: the stamp of the commit that the first one follows, if it is known."""
        self._table = table
        self._last = after or Stamp(0)

    def __call__(self, commit: Commit) -> None:
        """Raise `CorruptTable` for rows under no stamp, an odd one, or one that does not rise."""
        stamp = stamp_of(commit, self._table)
        if stamp is None:
            return
        if stamp <= self._last:
            why = f"the stamp {stamp}, which is not above {self._last}, that of the commit before"
            raise _odd(commit, self._table, why)
        self._last = stamp


def _odd(commit: Commit, table: str, under: str) -> CorruptTable:
    return CorruptTable(
        f"{table}: commit {commit.version} brings rows under {under}",
        hint=f"no release of lakequeue writes that. Say `lakequeue repair --table {table}`. Or give"
        f" commitInfo.lakequeue.stamp and the txn `{STAMP_TXN}` in"
        f" {commit_path(table, commit.version)} the number that they had, between the stamps of the"
        " commits before and after it",
    )
