"""The tables of a replica, as their mirror commits to them.

A mark, the `txn` `mirror/<id of the source>`, says in each of them up to which cut of the source it
goes. A commit lands right behind the newest version or not at all, so whoever commits has judged
the mark. Promotion raises it above every cut: from then on no mirror commits there any more.

A copied file has the name of its origin behind a word of its run, so that two runs, or one that
goes on where another died, never write to one file.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from lakequeue.errors import CommitConflict, InvalidRequest, ReplicaPromoted, TailLost
from lakequeue.records import ShardName, Version
from queue_tables.delta.actions import Action, Add, Remove, Txn
from queue_tables.delta.guard import OWN_TXNS
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import write_data_file
from queue_tables.groups.fact_rows import states_to_arrow
from queue_tables.groups.facts import GroupState, States, join
from queue_tables.groups.state import read_group_offsets
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import OFFSETS_TXN, mirror_aim, mirror_aims_in, mirror_mark
from queue_tables.schema.schemas import GROUP_OFFSETS, LOG, TOPICS

PROMOTED = 1 << 62
"""The mark of a replica that is a queue of its own."""
MIRRORED = (TOPICS.name, LOG.name, GROUP_OFFSETS.name)
"""In this order: a mirror that is refused in one of them ends, and commits to none behind it."""


_COPY = re.compile(r"((?:.*/)?)m[0-9a-f]{8}-([^/]+)\Z")


def new_run() -> str:
    """The word that the copies of a run begin with."""
    return f"m{secrets.token_hex(4)}"


def copy_path(path: str, run: str) -> str:
    """Where a run puts its copy of a file, relative to the table. Pure."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{run}-{name}"


def origin_of(path: str) -> str:
    """The file that one of a replica is the copy of. Pure."""
    match = _COPY.match(path)
    return path if match is None else match[1] + match[2]


class ReplicaTable:
    """One table of a replica, opened with its files. The mark of an empty one is -1."""

    def __init__(self, root: QueueRoot, table: str, source_id: str) -> None:
        self.root = root
        self._source_id = source_id
        self.log = TableLog(root.store, table).open()

    @property
    def copies(self) -> dict[str, Add]:
        """Path in the source → its copy here."""
        return {origin_of(path): add for path, add in self.log.files.items()}

    @property
    def mark(self) -> int:
        """The version of the source's table up to which this one goes; of groups, that of `log`."""
        return self.log.txns.get(mirror_mark(self._source_id), -1)

    @property
    def aim(self) -> int:
        """The cut that is there, or of which some is: no earlier one is to be applied."""
        return max(self.mark, self.log.txns.get(mirror_aim(self._source_id), -1))

    def commit(
        self,
        actions: Iterable[Action],
        cut: int,
        info: Mapping[str, Any],
        *,
        whole: bool = True,
    ) -> Version:
        """Commit; `whole`: now all of `cut` is there.

        Raises `ReplicaPromoted`, and `CommitConflict` if another run was faster: plan anew.
        """
        if self.mark >= PROMOTED:
            raise ReplicaPromoted(
                f"{self.root.uri} was promoted", hint="mirror into another, empty root"
            )
        name = (mirror_mark if whole else mirror_aim)(self._source_id)
        return self.log.commit(
            [*actions, Txn(name, cut)], {"mirror": self._source_id, "cut": cut} | dict(info)
        )

    def foreign(self, txns: Mapping[str, int]) -> list[Txn]:
        """The source's watermarks that this table does not have, or has others of."""
        own = {mirror_mark(self._source_id), mirror_aim(self._source_id), *OWN_TXNS}
        return [
            Txn(name, version)
            for name, version in txns.items()
            if name not in own and self.log.txns.get(name) != version
        ]


def removed(adds: Iterable[Add], now_ms: int) -> list[Remove]:
    """Actions that take files out of a table."""
    return [add.removal(now_ms) for add in adds]


def without_shards(state: GroupState) -> GroupState:
    """A position as a replica has it: the journals of the source are not there. Pure.

    The epoch stays, so that leases are taken above it.
    """
    return replace(
        state, holders={}, owner_shard=ShardName(""), member="", epoch=state.highest_epoch
    )


def commit_groups(
    root: QueueRoot, source_id: str, states: States, cut: Version, epoch_txn: int, now_ms: int
) -> bool:
    """Replace the positions by those of the source; False if they are there, or further ones.

    Joined with what is there, so that of two runs the one that read earlier takes nothing back.
    """
    table = ReplicaTable(root, GROUP_OFFSETS.name, source_id)
    if cut < table.mark < PROMOTED:
        return False
    there = read_group_offsets(root)[0]
    wanted = {key: without_shards(state) for key, state in states.items()}
    wanted = {k: join(s, there[k]) if k in there else s for k, s in wanted.items()}
    if wanted == there and table.mark == cut:
        return False
    add = write_data_file(
        root.store, GROUP_OFFSETS.name, states_to_arrow(wanted.values()), {}, GROUP_OFFSETS
    )
    epoch = Txn(OFFSETS_TXN, max(epoch_txn, table.log.txns.get(OFFSETS_TXN, 0)))
    gone = removed(table.log.files.values(), now_ms)
    try:
        table.commit([*gone, add, epoch], cut, {"rows": len(wanted)})
    except (CommitConflict, ReplicaPromoted):
        root.store.delete(f"{GROUP_OFFSETS.name}/{add.path}")
        raise
    return True


def must_be_whole(root: QueueRoot, log: TableLog, source_id: str) -> None:
    """Raise `InvalidRequest` if the replica's `log` has some of a cut and not all of it.

    A long way is gone in several commits. The replica of a replica takes the marks of that one
    along, and with them that it was on its way.
    """
    mark = log.txns.get(mirror_mark(source_id), -1)
    started = mirror_aims_in(log.txns)
    if mark < 0 or any(log.txns.get(mirror_mark(of), -1) < cut for of, cut in started.items()):
        raise InvalidRequest(
            f"{root.uri} is on a long way: it has {mark} and not all of the next cut",
            hint="run the mirror once more (that of a replica's own source first); if the source "
            "is lost, promote with --incomplete: records are whole, and marks of producers and "
            "transforms may be behind them",
        )


def shut_out(root: QueueRoot, table: str, source_id: str, *, whole: bool = False) -> None:
    """Let no mirror of that source commit to the table any more. Durable; idempotent.

    `whole`: only if all of a cut is there (`must_be_whole`), as of the commit that this one lands
    behind: a mirror may run meanwhile.
    """
    log = TableLog(root.store, table, keep_files=False).open()
    while log.txns.get(mirror_mark(source_id), -1) < PROMOTED:
        if whole:
            must_be_whole(root, log, source_id)
        with contextlib.suppress(CommitConflict, TailLost):
            log.commit([Txn(mirror_mark(source_id), PROMOTED)], {"promotion": True})
    log.make_durable()
