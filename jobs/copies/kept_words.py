"""What people said of a queue goes along with a copy of it: who may do what, and about groups.

A copy without these would be open to everybody where its source is locked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar

from lakequeue.errors import CommitConflict, ReplicaPromoted, TailLost
from queue_tables.delta.actions import Txn
from queue_tables.delta.table import TableLog
from queue_tables.entries import AccessTable
from queue_tables.group_settings import GroupSettings, SettingKind
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import ACCESS, GROUP_SETTINGS

T = TypeVar("T")
ALL: Collection[SettingKind] = ("options", "pause", "webhook")
QUIET: Collection[SettingKind] = ("options", "pause")
"""Without webhooks: a second queue must not post the records of the first to its endpoints."""


def copy_entries(source: QueueRoot, to: QueueRoot, by: str) -> int:
    """Let `access` say in `to` what it says in `source`; how many entries have changed.

    Raises `ReplicaPromoted`.
    """
    wanted = AccessTable(source).entries()
    if not wanted:
        return 0
    table = AccessTable(to)
    there = {(one.kind, one.name): replace(one, version=0) for one in table.entries()}
    changed = [one for one in wanted if there.get((one.kind, one.name)) != replace(one, version=0)]
    if changed:
        table.change(lambda _: unless_promoted(to, changed), by)
    return len(changed)


def copy_settings(
    source: QueueRoot, to: QueueRoot, by: str, kinds: Collection[SettingKind] = ALL
) -> int:
    """The same of `group_settings`, of these kinds."""
    wanted = {key: one for key, one in GroupSettings(source).read().items() if one.kind in kinds}
    if not wanted:
        return 0
    there = GroupSettings(to)
    before = {key: replace(one, version=0) for key, one in there.read().items()}
    changed = [one for key, one in wanted.items() if before.get(key) != replace(one, version=0)]
    there.change(lambda _: unless_promoted(to, changed), by)
    return len(changed)


def unless_promoted(to: QueueRoot, changed: list[T]) -> list[T]:
    """Judged again whenever another commit was faster: that of a promotion is one."""
    if to.was_promoted:
        raise ReplicaPromoted(f"{to.uri} was promoted", hint="copy into another, empty root")
    return changed


def end_copying(promoted: QueueRoot) -> None:
    """Let no copy land any more that was judged before the promotion. Durable; idempotent."""
    for name in (ACCESS.name, GROUP_SETTINGS.name):
        done = not promoted.is_table(name)
        while not done:
            log = TableLog(promoted.store, name, keep_files=False).open()
            with contextlib.suppress(CommitConflict, TailLost):
                log.commit([Txn(name, log.txns.get(name, 0) + 1)], {"promotion": True})
                log.make_durable()
                done = True
