"""What a queue can be taken back to: where its groups were, an hour for an hour.

Written by the job `metrics`, thinned out by `retention`, read by `fork` (decision 0025).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.maintenance.log_retention import let_go
from jobs.measuring.metrics_rules import HOUR_US
from lakequeue.clock import Micros
from lakequeue.steps import Step, reach
from queue_tables.delta.actions import Txn
from queue_tables.delta.maintenance import append_once
from queue_tables.delta.table import TableLog, create_table
from queue_tables.files.stats import oldest_micros
from queue_tables.groups.facts import States
from queue_tables.groups.history import group_snapshot_times, write_group_snapshot
from queue_tables.groups.state import read_group_state
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import BACKUP_TXN, HISTORY_TXN
from queue_tables.schema.schemas import GROUP_HISTORY, LOG

DENSE_US = 48 * HOUR_US
"""An instant an hour stays for this long, then one a day."""
_DAY_US = 24 * HOUR_US


def save_group_snapshot(root: QueueRoot, now: Micros, *, dry_run: bool) -> str | None:
    """Put down where groups are now, unless it was done in this hour; the instant, RFC 3339."""
    began = time.monotonic()
    if not dry_run:
        create_table(root.store, GROUP_HISTORY.name, GROUP_HISTORY, dict(GROUP_HISTORY.properties))
    table = TableLog(root.store, GROUP_HISTORY.name)
    try:
        done = table.open().txns.get(HISTORY_TXN, -1)
    except FileNotFoundError:
        done = -1  # a dry run on a root that an older release made
    if done >= now // HOUR_US:
        return None
    if dry_run:
        return said(now)
    # In this order, as a mirror reads: no group is ahead of the records that the marks tell of.
    states = read_group_state(root).states
    marks = LogMarks(root).read()
    as_of = Micros(now + int((time.monotonic() - began) * 1_000_000))
    add = write_group_snapshot(root.store, as_of, states, marks)
    if add is None:
        return None
    reach(Step.METRICS_HISTORY_WRITTEN)
    info = {"states": len(states), "marks": len(marks)}
    if not append_once(table, add, Txn(HISTORY_TXN, now // HOUR_US), info):
        return None
    reach(Step.METRICS_HISTORY_COMMITTED)
    return said(max(group_snapshot_times(table)))


def save_copied_groups(
    replica: QueueRoot, as_of: Micros, states: States, marks: Mapping[str, int]
) -> None:
    """Put down, in a backup, where the groups of its source were in the run that ends now."""
    table = TableLog(replica.store, GROUP_HISTORY.name).open()
    add = write_group_snapshot(replica.store, as_of, states, marks)
    if add is not None:
        append_once(table, add, Txn(BACKUP_TXN, as_of), {"states": len(states)})


def retain_history(
    root: QueueRoot, now: Micros, most_bytes: int, *, dry_run: bool, span_us: int = HOUR_US
) -> dict[str, Any]:
    """Remove the instants that are not needed, or too many; the report."""
    table = TableLog(root.store, GROUP_HISTORY.name).open()
    files = TableLog(root.store, LOG.name).open().files.values()
    oldest = min((t for f in files if (t := oldest_micros(f.stats, "ordered_at"))), default=now)
    known = group_snapshot_times(table)
    kept = snapshots_to_keep(
        {at: add.size for at, add in known.items()}, now, oldest, most_bytes, span_us
    )
    old = [add for at, add in known.items() if at not in kept]
    report = let_go(table, old, dry_run=dry_run)
    return report | {
        "instants": len(known) - report["files_removed"],
        "back_to": said(min(kept)) if kept else None,
    }


def snapshots_to_keep(
    sizes: Mapping[Micros, int],
    now: Micros,
    oldest: Micros,
    most_bytes: int,
    span_us: int = HOUR_US,
) -> set[Micros]:
    """Of the instants (with their sizes in bytes) those that stay. Pure.

    The first of each `span_us` for two days, then the first of each day; back to the newest one
    that is not after the `oldest` record. Beyond `most_bytes` the oldest go; the newest one always
    stays.
    """
    before = max((at for at in sizes if at <= oldest), default=0)
    needed = [at for at in sizes if at >= before]
    dense = _first_of_each((at for at in needed if at > now - DENSE_US), span_us)
    thin = _first_of_each((at for at in needed if at <= now - DENSE_US), _DAY_US)
    kept: set[Micros] = set()
    left = most_bytes
    for at in sorted(dense | thin, reverse=True):
        left -= sizes[at]
        if kept and left < 0:
            break
        kept.add(at)
    return kept


def _first_of_each(instants: Iterable[Micros], span_us: int) -> set[Micros]:
    first: dict[int, Micros] = {}
    for at in sorted(instants):
        first.setdefault(at // span_us, at)
    return set(first.values())


def said(at: Micros) -> str:
    """An instant as people and `--as-of` write it. Pure."""
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
