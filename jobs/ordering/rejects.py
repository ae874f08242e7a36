"""Refused rows and duplicates, committed to `rejects` before the log commit that passes them.

Nothing acknowledged vanishes without a row: by (shard, stamp, row) it stands in `log` or here. The
commit here comes first, so a leader that dies between the two has left rejects for a batch that
was never ordered. Judging those rows again in another batch could give another verdict (another
copy may come first, offsets may differ), so the commit also records its *plan*, the ends of the
cut. The next leader makes exactly that cut its first batch: the same rows over the same log come
out the same, and what is recorded already is not recorded twice. A leader commits its epoch here
as well as in `log`, or an old one that still lives could add to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from jobs.ordering.numbering import Ordered, TopicRule
from jobs.ordering.order_state import order_epoch, order_number
from jobs.rows.projected_rows import ProjectedBatch
from jobs.rows.row_faults import RowFault
from lakequeue.clock import Micros, hour_of
from lakequeue.errors import CommitConflict, LeadershipLost, TailLost
from lakequeue.records import Epoch, Format, ShardName, Stamp, TopicId, Version
from queue_tables.delta.actions import Action, Add, Commit, Txn
from queue_tables.delta.declared import with_later_columns
from queue_tables.delta.maintenance import vacuumed
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import ORDER_TXN, PLANS
from queue_tables.schema.reasons import Fate, Reason, with_fate
from queue_tables.schema.record_rules import escaped
from queue_tables.schema.schemas import REJECTS

_RECORDED = ("shard", "stamp", "row", "reason", "detail")

Key = tuple[str, int, int]
"""(shard, stamp, row)"""


def fenced_commit(
    table: TableLog,
    actions: list[Action],
    info: Mapping[str, Any],
    epoch: Epoch,
    *,
    begins: bool = False,
) -> list[Commit]:
    """Commit under `epoch`, whatever maintenance does meanwhile.

    Returns the foreign commits that were met. Raises `LeadershipLost` if one of them is of a
    higher epoch: then nothing was committed, and this leader can never commit again. `begins`:
    the first commit of the term. An equal epoch is then another's (the ensemble was rebuilt and
    counts anew), and two leaders of one epoch would not stop each other. It is also raised when
    this leader slept so long that a vacuum may have deleted what it wrote for this commit, or that
    commits it has not seen are gone.
    """
    met: list[Commit] = []
    while True:
        newest = order_epoch(table.txns.get(ORDER_TXN, 0))
        if newest > epoch or (begins and newest == epoch):
            raise LeadershipLost(
                f"{table.path}: epoch {epoch} presented, {newest} current",
                hint="a newer leader orders; this process starts again as a standby",
            )
        try:
            table.commit(actions, info)
        except CommitConflict as conflict:
            met += conflict.commits
            if vacuumed([a for a in actions if isinstance(a, Add)], conflict.commits):
                raise LeadershipLost(
                    f"{table.path}: a vacuum came while this leader slept, and may have deleted"
                    " the files of this commit",
                    hint="this process starts again as a standby",
                ) from conflict
            continue
        except TailLost as lost:
            raise LeadershipLost(
                f"{table.path}: commits that this leader has not seen were cleaned up:"
                f" {lost.detail}",
                hint="this process starts again as a standby",
                stored=lost.stored,
            ) from lost
        return met


def unfinished_in(
    txns: Mapping[str, int], watermarks: Mapping[ShardName, Stamp]
) -> dict[ShardName, Stamp]:
    """In the txns of `rejects`: the ends of a cut that is not passed in `log` (`watermarks`)."""
    plan = PLANS.read(txns)
    # Only the newest plan can be unfinished: older ones were passed before it was made.
    return {shard: end for shard, end in plan.items() if end > watermarks.get(shard, 0)}


class RejectsTable:
    """The leader's handle of `rejects`."""

    def __init__(self, root: QueueRoot) -> None:
        self._root = root
        self._table = TableLog(root.store, REJECTS.name, keep_files=False).open()

    def refresh(self) -> None:
        """See what others have committed."""
        self._table.open()

    @property
    def version(self) -> Version:
        """The newest version seen."""
        return self._table.version

    @property
    def epoch(self) -> Epoch:
        """The newest term that `rejects` records."""
        return order_epoch(self._table.txns.get(ORDER_TXN, 0))

    def begin(self, epoch: Epoch) -> None:
        """Shut out older leaders. The plan of an unfinished batch stays: it is in the txns."""
        info = {"epoch": epoch, "counter": 0, "rows": 0}
        actions: list[Action] = [Txn(ORDER_TXN, order_number(epoch, 0))]
        wider = with_later_columns(self._table.metadata, REJECTS)
        fenced_commit(self._table, actions if wider is None else [*actions, wider], info, epoch)

    def unfinished(self, watermarks: Mapping[ShardName, Stamp]) -> dict[ShardName, Stamp] | None:
        """The cut of a batch that has its rejects here and is not passed in `log`."""
        return unfinished_in(self._table.txns, watermarks) or None

    def write(
        self,
        batch: ProjectedBatch,
        ordered: Ordered,
        topics: Mapping[TopicId, TopicRule],
        now: Micros,
        recorded: Mapping[Key, str | None],
    ) -> list[Add]:
        """Write refused rows and duplicates as a durable file, if any are not `recorded`."""
        rows = self.rows(batch, ordered, topics, now, recorded)
        if rows.num_rows == 0:
            return []
        partition = {"hour": hour_of(now)}
        return [write_data_file(self._root.store, REJECTS.name, rows, partition, REJECTS)]

    def rows(
        self,
        batch: ProjectedBatch,
        ordered: Ordered,
        topics: Mapping[TopicId, TopicRule],
        now: Micros,
        recorded: Mapping[Key, str | None],
    ) -> pa.Table:
        """What `write` writes."""
        if not len(ordered.refused) and not len(ordered.duplicates):
            return REJECTS.file_arrow.empty_table()
        return _rows(self._root, batch, ordered, topics, now, recorded)

    def commit(self, adds: list[Add], ends: Mapping[ShardName, Stamp], number: int) -> None:
        """Record what was written for a batch that has these `ends`."""
        plan = [Txn(PLANS.name(shard), int(end)) for shard, end in ends.items()]
        epoch = order_epoch(number)
        rows = sum(orjson.loads(add.stats or "{}").get("numRecords", 0) for add in adds)
        info = {"epoch": epoch, "counter": number - order_number(epoch, 0), "rows": rows}
        fenced_commit(self._table, [*adds, Txn(ORDER_TXN, number), *plan], info, epoch)

    def recorded(
        self, plan: Mapping[ShardName, Stamp], above: Mapping[ShardName, Stamp]
    ) -> dict[Key, str | None]:
        """The rows of an unfinished cut that stand here already, with the fault of each, if any."""
        found: dict[Key, str | None] = {}
        for add in load_snapshot(self._root.store, REJECTS.name).files.values():
            rows = read_data_file(self._root.store, REJECTS.name, add.path, _RECORDED)
            for row in rows.to_pylist():
                shard = row["shard"]
                if above.get(shard, 0) < row["stamp"] <= plan.get(shard, 0):
                    fault = _fault_in(row["reason"], row.get("detail"))
                    found[shard, row["stamp"], row["row"]] = fault
        return found


def _fault_in(reason: str, detail: str | None) -> str | None:
    """The fault of a row that was put aside, as it passes through Spark."""
    if reason not in with_fate(Fate.PUT_ASIDE):
        return None
    return RowFault(Reason(reason), detail or "").text()


def _rows(
    root: QueueRoot,
    batch: ProjectedBatch,
    ordered: Ordered,
    topics: Mapping[TopicId, TopicRule],
    now: Micros,
    recorded: Mapping[Key, str | None],
) -> pa.Table:
    """Whole rows of `rejects`, values copied from the inbox files."""
    places = np.concatenate([ordered.refused, ordered.duplicates]).astype(np.int64)
    refused = len(ordered.refused)
    none = [None] * refused
    verdicts = pa.table(
        {
            "place": places,
            "reason": [
                *ordered.reasons.tolist(),
                *([Reason.DUPLICATE.value] * (len(places) - refused)),
            ],
            "original_partition": pa.array(
                [*none, *ordered.original_partition.tolist()], pa.int32()
            ),
            "original_offset": pa.array([*none, *ordered.original_offset.tolist()], pa.int64()),
        }
    ).sort_by("place")
    projected = batch.table.select(["shard", "file", "stamp", "row", "topic_id", "fault"]).take(
        verdicts["place"]
    )
    for column in ("shard", "file", "topic_id"):
        at = projected.schema.get_field_index(column)
        projected = projected.set_column(at, column, projected[column].cast(pa.string()))
    keys = zip(*(projected[c].to_pylist() for c in ("shard", "stamp", "row")), strict=True)
    fresh = pa.array([key not in recorded for key in keys], pa.bool_())
    projected, verdicts = projected.filter(fresh), verdicts.filter(fresh)
    names = [topics[t].name if t in topics else None for t in projected["topic_id"].to_pylist()]
    faults = [None if f is None else RowFault.of(f) for f in projected["fault"].to_pylist()]
    whole = projected.drop_columns(["topic_id", "fault"])
    whole = whole.append_column("topic", pa.array(names, pa.string()))
    for column in ("reason", "original_partition", "original_offset"):
        whole = whole.append_column(column, verdicts[column])
    details = pa.array([f.detail if f is not None else None for f in faults], pa.string())
    whole = whole.append_column("detail", details)
    stamped = pa.repeat(pa.scalar(now, pa.timestamp("us", tz="UTC")), whole.num_rows)
    whole = whole.append_column("rejected_at", stamped)
    unread = {p for p, f in zip(whole["file"].to_pylist(), faults, strict=True) if _is_file(f)}
    parts = [
        _completed(root, path, whole.filter(pc.equal(whole["file"], path)), path in unread)
        for path in dict.fromkeys(whole["file"].to_pylist())
    ]
    if not parts:
        return REJECTS.file_arrow.empty_table()
    return pa.concat_tables(parts)


def _is_file(fault: RowFault | None) -> bool:
    return fault is not None and fault.is_of_a_file


def _completed(root: QueueRoot, path: str, rows: pa.Table, unread: bool) -> pa.Table:
    """Rows of one file with what stands there: text that is none escaped, values as they are."""
    names = [n for n in REJECTS.file_arrow.names if n not in rows.column_names]
    values = _bytes_of(root, path, rows, names) if unread else _values_of(root, path, rows, names)
    for name in names:
        rows = rows.append_column(name, values[name])
    return rows.select(REJECTS.file_arrow.names).cast(REJECTS.file_arrow)


def _values_of(root: QueueRoot, path: str, rows: pa.Table, names: list[str]) -> pa.Table:
    kind, shard, file = path.split("/", 2)
    found = read_data_file(root.store, f"{kind}/{shard}", file, names)
    return escaped(found.take(rows["row"]))


def _bytes_of(root: QueueRoot, path: str, rows: pa.Table, names: list[str]) -> pa.Table:
    """The file itself as the value of its first row; nothing else of it is known."""
    data = root.store.get(path)
    values = [data if row == 0 else None for row in rows["row"].to_pylist()]
    columns = {n: pa.nulls(rows.num_rows, REJECTS.arrow.field(n).type) for n in names}
    columns["value"] = pa.array(values, pa.binary())
    columns["value_format"] = pa.repeat(pa.scalar(int(Format.BYTES), pa.int32()), rows.num_rows)
    return pa.table(columns)
