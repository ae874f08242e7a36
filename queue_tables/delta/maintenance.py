"""Maintenance commits: files leave a table, or are replaced by others with the same rows.

They are made beside whoever owns the table, without a lease. What makes that safe is the one rule
of every commit: it lands right after the newest version, or meets what was committed first. The
owner's commits add files and move `txn`s, which a maintenance commit never does, so either may go
on from the other. Two of maintenance exclude each other by their files: a file leaves a table once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakequeue.errors import CommitConflict, TailLost
from lakequeue.records import Version
from queue_tables.delta.actions import Action, Add, Commit, Txn, has_table, whole
from queue_tables.delta.table import TableLog

VACUUM_INFO = "vacuum"
"""In a commit's info: files older than this (ms) that no commit names may be deleted."""
ERASED_INFO = "erased"
"""In a commit's info: rows became tombstones; what is held of them in memory is to be dropped."""
_SKEW_MS = 600_000
"""What the clocks of a writer and of the storage may differ by."""


def rewrite_files(
    table: TableLog,
    removes: Sequence[Add],
    adds: Sequence[Add],
    info: Mapping[str, Any],
    *,
    data_change: bool,
) -> Version:
    """Take `removes` out of the table and put `adds` in, in one commit; its version.

    `data_change`: False if the rows are the same. `table` has its files. Raises `CommitConflict`
    (stored "no") if one of `removes` has left the table, `adds` may have been vacuumed, or there is
    no table any more: the plan is stale, nothing was changed.
    """
    now_ms = time.time_ns() // 1_000_000
    actions: list[Action] = [
        *(add.removal(now_ms, data_change=data_change) for add in removes),
        *(replace(add, data_change=data_change) for add in adds),
    ]
    while True:
        gone = [add.path for add in removes if add.path not in table.files]
        if gone:
            raise CommitConflict(
                f"{table.path}: {len(gone)} of {len(removes)} files have left the table, "
                f"{gone[0]} among them",
                hint="another run was faster: plan again",
                stored="no",
                commits=(),
            )
        try:
            return table.commit(actions, info)
        except CommitConflict as conflict:
            # The owner's rows, or other files. (After an unknown outcome that had landed the
            # files are gone, which is the answer above.)
            if vacuumed(adds, conflict.commits):
                raise
        except TailLost as lost:
            # A shard may be removed whole meanwhile: then there is nothing to go on from.
            if adds or not has_table(table.store.names(f"{table.path}/_delta_log")):
                raise CommitConflict(lost.detail, stored=lost.stored, commits=()) from lost


def vacuumed(adds: Iterable[Add], met: Iterable[Commit]) -> bool:
    """Whether files that are written and not committed may be gone, by a vacuum that was met. Pure.

    A vacuum commits before it deletes, so a writer that slept with its files written meets it.
    """
    before = max((whole(commit.info.get(VACUUM_INFO)) or 0 for commit in met), default=0)
    return any(add.modification_time <= before + _SKEW_MS for add in adds)


def append_once(table: TableLog, add: Add, txn: Txn, info: Mapping[str, Any]) -> bool:
    """Append a file with a `txn` that only rises; whether it is there now by this call.

    Not if another was faster, or if the file may be gone: it waited for as long as vacuum does.
    """
    while table.txns.get(txn.app_id, -1) < txn.version:
        try:
            table.commit([add, txn], info)
        except CommitConflict as conflict:
            if vacuumed([add], conflict.commits):
                break
        except TailLost:
            break  # what was cleaned up since may have had a vacuum in it
        else:
            return True
    if add.path in table.files:  # after an outcome that was unknown
        return True
    table.store.delete(f"{table.path}/{add.path}")
    return False
