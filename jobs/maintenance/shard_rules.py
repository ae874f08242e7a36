"""What may leave the inbox and journal shards, as pure functions.

Age only ever delays: what is not ordered (folded) stays, however old.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from lakequeue.clock import Micros
from lakequeue.records import ShardName, Stamp
from queue_tables.delta.actions import Add
from queue_tables.shards.bulk import is_asked_again
from queue_tables.shards.shards import node_of

CLOSED_AFTER_US = 120 * 1_000_000
"""An hour is closed this long after its end: the batch that was numbered in it has landed."""


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """A shard as it was read, after `done` was."""

    name: ShardName
    sealed: bool
    newest: Stamp
    """Of its commits with rows; 0 if there are none."""
    done: Stamp
    """Ordered or folded up to here."""
    changed_at: Micros
    """Time of its newest commit."""
    batch: int | None = None
    """Of a bulk writer: the newest batch that the shard remembers."""

    @property
    def all_done(self) -> bool:
        """Every row that is visible was ordered or folded."""
        return self.newest <= self.done


def removable(
    shards: Iterable[ShardFacts],
    now: Micros,
    margin_us: int,
    bulk_margin_us: int,
    held: Collection[ShardName] = (),
) -> list[ShardName]:
    """The shards that can go as a whole: sealed, done to the end, and quiet for the margin.

    `owned`: those that states still name. Of a bulk writer the shard with the newest batch stays:
    it is all that the writer remembers, unless it writes but once.
    """
    memory: dict[str, tuple[int, ShardName]] = {}
    everything = list(shards)
    for shard in everything:
        if shard.batch is not None and is_asked_again(shard.name):
            writer = node_of(shard.name)
            memory[writer] = max(memory.get(writer, (-1, ShardName(""))), (shard.batch, shard.name))
    kept = {name for _, name in memory.values()} | set(held)
    return [
        shard.name
        for shard in everything
        if shard.sealed
        and shard.all_done
        and shard.name not in kept
        and shard.changed_at <= now - (margin_us if shard.batch is None else bulk_margin_us)
    ]


def done_files(
    files: Iterable[Add], pending: Collection[str], now: Micros, margin_us: int
) -> list[Add]:
    """Of a shard's files those that can go: nothing of them waits (`pending` paths), and old."""
    limit_ms = (now - margin_us) // 1_000
    return [add for add in files if add.path not in pending and add.modification_time <= limit_ms]


NEVER: Final = 1 << 62
"""No time that anything is compared with."""


def hour_end(hour: str) -> Micros:
    """The first microsecond after an hour `2013-01-31T07`; what is no hour never ends."""
    try:
        begin = datetime.strptime(hour, "%Y-%m-%dT%H").replace(tzinfo=UTC)
        return int((begin + timedelta(hours=1)).timestamp()) * 1_000_000
    except (ValueError, OverflowError):
        return NEVER


def is_hour(text: str) -> bool:
    """Whether that is an hour. Another engine can have written a partition of any name."""
    return hour_end(text) != NEVER
