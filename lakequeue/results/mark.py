"""How far a result table goes that delta-rs writes: its mark, and what a `RESTORE` undid of it.

Two `txn`s go with each commit: the mark, and the version of the table that it was committed from.
`RESTORE` keeps both, and the rows are gone; but it stands in the history above that version, and
the table as of the version that it went back to has the mark that counts.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import deltalake
import orjson
import pyarrow.fs as pafs
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler

from lakequeue.errors import InvalidRequest
from lakequeue.results.declared import base_id
from lakequeue.results.restores import UNTOLD, Restore, Restores, restored_to, undone_by, untold


class Resume(NamedTuple):
    """What of the offsets `from_offset` … `next_offset - 1` is to be written."""

    from_offset: int
    """Where to begin; `next_offset` when all of it is in the table."""
    gap: int
    """Offsets between what the table has and `from_offset` that nobody wrote."""


def resume(done: int | None, from_offset: int, next_offset: int) -> Resume:
    """Compare what was delivered with the mark of the result table (None: it has none). Pure."""
    if done is None:
        return Resume(from_offset, 0)
    return Resume(min(max(done, from_offset), next_offset), max(0, from_offset - done))


def marks(name: str, next_offset: int, base: int) -> list[deltalake.Transaction]:
    """For the commit that a handle at version `base` makes."""
    return [
        deltalake.Transaction(name, next_offset),
        deltalake.Transaction(base_id(name), base),
    ]


def _restores(table: deltalake.DeltaTable, after: int, upto: int) -> tuple[Restore, ...]:
    rows = table.history(upto - after)
    if not any(row.get("operation") == "RESTORE" for row in rows):
        return ()
    # The numbers in `history` are counted, from a version that another may have followed meanwhile.
    handler = DeltaStorageHandler(table.table_uri, _storage_options(table))
    files = pafs.PyFileSystem(handler)
    found = []
    for version in range(upto, after, -1):
        try:
            with files.open_input_stream(f"_delta_log/{version:020}.json") as stream:
                lines = stream.read().splitlines()
        except FileNotFoundError:
            break  # cleaned away, and what is below it too
        for info in (orjson.loads(line).get("commitInfo") for line in lines if line):
            if info is not None and info.get("operation") == "RESTORE":
                parameters = info.get("operationParameters") or {}
                found.append(Restore(version, restored_to(parameters)))
    return tuple(found)


def read_mark(table: deltalake.DeltaTable, name: str, restores: Restores) -> int | None:
    """How far the table goes now, by the handle as it is; None: it never had anything of `name`.

    0 when all that it had was restored away. Raises `InvalidRequest` when that cannot be told: a
    `RESTORE` to a time, or to a version that the log does not tell of any more.
    """
    newest = version = table.version()
    done, base = _marks_of(table, name)
    while done is not None and base is not None:
        known = restores.since(base, newest, partial(_restores, table))
        undone = undone_by(known, base, version)
        if undone is None:
            return done
        if undone.to == UNTOLD:
            raise untold(undone.version)
        version = undone.to
        done, base = _as_of(table, undone, name)
        done = done or 0
    return done


def _marks_of(table: deltalake.DeltaTable, name: str) -> tuple[int | None, int | None]:
    return table.transaction_version(name), table.transaction_version(base_id(name))


def _as_of(
    table: deltalake.DeltaTable, restore: Restore, name: str
) -> tuple[int | None, int | None]:
    try:
        # Another handle: one that cannot load a version is of no use any more.
        then = deltalake.DeltaTable(table.table_uri, restore.to, _storage_options(table))
    except DeltaError as error:
        raise InvalidRequest(
            f"version {restore.version} restored the result table to version {restore.to}, which "
            f"its log does not tell of any more: {error}",
            hint="write to a new table, or restore it again, to a version that is in its history",
        ) from error
    return _marks_of(then, name)


def _storage_options(table: deltalake.DeltaTable) -> dict[str, str] | None:
    return table._storage_options  # noqa: SLF001 -- it tells them nowhere else
