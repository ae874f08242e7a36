"""Earlier versions of a table, as far back as its commits are kept."""

from __future__ import annotations

import bisect
from datetime import UTC, datetime

from lakequeue.errors import CorruptTable, InvalidRequest
from lakequeue.records import Version
from queue_tables.delta.actions import Commit, commit_path
from queue_tables.delta.commit_json import parse
from queue_tables.delta.maintenance import ERASED_INFO
from queue_tables.delta.store import Store
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import commit_versions


def table_at(store: Store, table_path: str, at_ms: int, *, keep_files: bool = True) -> TableLog:
    """The table as it was at a time (milliseconds since 1970), by the clocks of its committers.

    Commits stay for about an hour behind a checkpoint. Raises `InvalidRequest` if it was longer
    ago than that.
    """
    versions = commit_versions(store, table_path)
    found = bisect.bisect_right(
        versions, at_ms, key=lambda version: _commit(store, table_path, version).timestamp_ms
    )
    if not found:
        raise _too_long_ago(table_path, at_ms)
    try:
        return TableLog(store, table_path, keep_files=keep_files).open(versions[found - 1])
    except CorruptTable as behind:
        # The checkpoint that the commits go on from stands for a later version.
        raise _too_long_ago(table_path, at_ms) from behind


def erased_after(store: Store, table_path: str, version: Version) -> Version | None:
    """The first later version that erased records; None if there is none."""
    for later in commit_versions(store, table_path):
        if later > version and ERASED_INFO in _commit(store, table_path, later).info:
            return later
    return None


def _commit(store: Store, table_path: str, version: Version) -> Commit:
    return parse(version, store.get(commit_path(table_path, version)), table_path)


def _too_long_ago(table_path: str, at_ms: int) -> InvalidRequest:
    at = datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds")
    return InvalidRequest(
        f"the versions of {table_path} that are kept do not reach back to {at}",
        hint="give a later time: commits are kept for about an hour",
    )
