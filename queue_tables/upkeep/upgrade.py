"""Raises a root of an earlier format to the newest: `lakequeue upgrade`.

What is to be done follows from the root as it is, step by step. So a run that was killed is gone
on with by the next, and two at once do no harm. The format is raised before anything that an older
release cannot read: no process of it starts in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lakequeue.errors import CommitConflict, CorruptTable, TailLost
from lakequeue.steps import Step, reach
from queue_tables.delta.columns import Table
from queue_tables.delta.declared import lacking_columns, with_later_columns
from queue_tables.delta.guard import is_guarded
from queue_tables.delta.table import TableLog
from queue_tables.identity import identity_of, raise_format
from queue_tables.root import QueueRoot
from queue_tables.schema.formats import NEWEST, RootFormat, raised
from queue_tables.upkeep.health import table_paths

UPGRADE_INFO = "upgrade"


@dataclass(frozen=True)
class Change:
    """One step of an upgrade: atomic, and nothing if it was done already."""

    what: str
    """A sentence without its subject: what it does to the root."""
    step: Step
    apply: Callable[[], object]


def changes_of(root: QueueRoot, newest: RootFormat = NEWEST) -> list[Change]:
    """What the root needs to be of the newest format, in the order in which it is done."""
    tables = list(_opened(root))
    guards = [
        Change(f"put the guard into {log.path}", Step.UPGRADE_GUARDED, log.put_guard)
        for log, _ in tables
        if not is_guarded(log.protocol)
    ]
    return [*guards, *_raise(root, newest), *(_widen(log, table) for log, table in _short(tables))]


def upgrade(root: QueueRoot, told: Callable[[Change], object], newest: RootFormat = NEWEST) -> None:
    """Do it. `told` is called after each step. Raises storage errors; say it again then."""
    for change in changes_of(root, newest):
        change.apply()
        reach(change.step)
        told(change)


def _opened(root: QueueRoot) -> Iterator[tuple[TableLog, Table]]:
    for path, table in table_paths(root).items():
        try:
            yield TableLog(root.store, path, keep_files=False).open(), table
        except FileNotFoundError:
            continue  # a shard that was removed meanwhile, or not made yet
        except CorruptTable:
            # A shard without its first commit is being removed; no other table ever is.
            if not table.sharded or root.is_table(path):
                raise


def _short(tables: list[tuple[TableLog, Table]]) -> Iterator[tuple[TableLog, Table]]:
    return ((log, table) for log, table in tables if lacking_columns(log.metadata, table))


def _raise(root: QueueRoot, newest: RootFormat) -> Iterator[Change]:
    found = identity_of(root.store).format
    wanted = raised(found, newest)
    if wanted == found:
        return
    what = f"raise the format of the root from {found.number} to {wanted.number}"
    if wanted.number == found.number:
        what = f"switch on {', '.join(sorted(wanted.features.keys() - found.features.keys()))}"
    yield Change(what, Step.UPGRADE_RAISED, lambda: raise_format(root.store, wanted))


def _widen(log: TableLog, table: Table) -> Change:
    names = ", ".join(f"`{column.name}`" for column in lacking_columns(log.metadata, table))

    def widen() -> None:
        while (wider := with_later_columns(log.metadata, table)) is not None:
            try:
                log.commit([wider], {UPGRADE_INFO: True})
            except (CommitConflict, TailLost):
                continue  # the handle has seen what the other one did

    return Change(f"add {names} to {log.path}", Step.UPGRADE_WIDENED, widen)
