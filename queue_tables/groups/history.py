"""The state of groups, and the marks of `log`, at instants past: what a queue can be taken back to.

The versions of `group_offsets` and of `log` tell both for about an hour. Each file of
`group_history` tells them of one instant, for as long as retention leaves it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.clock import Micros
from queue_tables.delta.actions import Add
from queue_tables.delta.store import Store
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.files.stats import newest_micros
from queue_tables.groups.fact_rows import states_from_arrow, states_to_arrow
from queue_tables.groups.facts import States
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import is_next_offset, is_of_a_group
from queue_tables.schema.schemas import GROUP_HISTORY, GROUP_OFFSETS

_MS = 1_000


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """A queue's groups and marks as of one instant; no group is ahead of the marks."""

    as_of: Micros
    """All that was committed when this was read; whole milliseconds, so that it can be named."""
    states: States
    marks: Mapping[str, int]
    """Of `log`: next offsets of partitions, and how far transforms are."""


def write_group_snapshot(
    store: Store, as_of: Micros, states: States, txns: Mapping[str, int]
) -> Add | None:
    """The file of an instant (rounded up), durable; no commit names it yet. `txns`: of `log`.

    None of an empty queue: there is nothing to go back to, and no row to tell the instant.
    """
    marks = {name: n for name, n in txns.items() if is_next_offset(name) or is_of_a_group(name)}
    rows = pa.concat_tables(
        [
            states_to_arrow(states.values()).cast(GROUP_OFFSETS.arrow),
            pa.table({"mark": list(marks), "mark_version": list(marks.values())}),
        ],
        promote_options="permissive",
    )
    if not rows.num_rows:
        return None
    at = pa.scalar(-(-as_of // _MS) * _MS, GROUP_HISTORY.arrow.field("as_of").type)
    rows = rows.append_column("as_of", pa.repeat(at, rows.num_rows))
    return write_data_file(
        store, GROUP_HISTORY.name, rows.select(GROUP_HISTORY.arrow.names), {}, GROUP_HISTORY
    )


def group_snapshot_times(table: TableLog) -> dict[Micros, Add]:
    """The instants that are kept, the oldest first."""
    found = {newest_micros(add.stats, "as_of"): add for add in table.files.values()}
    return dict(sorted((at, add) for at, add in found.items() if at is not None))


def read_group_snapshot(root: QueueRoot, until: Micros) -> GroupSnapshot | None:
    """The newest instant at or before that; None if there is none."""
    table = TableLog(root.store, GROUP_HISTORY.name)
    try:
        known = group_snapshot_times(table.open())
    except FileNotFoundError:
        return None  # the root of an older release, or a new one that nobody has opened
    at = max((at for at in known if at <= until), default=None)
    if at is None:
        return None
    rows = read_data_file(root.store, table.path, known[at].path)
    marks = rows.filter(pc.is_valid(rows["mark"]))
    states = rows.filter(pc.is_null(rows["mark"])).select(GROUP_OFFSETS.arrow.names)
    pairs = zip(marks["mark"].to_pylist(), marks["mark_version"].to_pylist(), strict=True)
    return GroupSnapshot(at, states_from_arrow(states), dict(pairs))
