"""The rows of `rejects`: what is said of a row that gets no offset, and what stands in its file.

No row stops it: one that cannot be written as it is, is kept in another form (`kept_forms`), and
its detail says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from jobs.ordering.numbering import Ordered, TopicRule
from jobs.ordering.order_piece import control_rows
from jobs.rows.blame import is_of_the_rows, said_of
from jobs.rows.halving import Units, find_guilty
from jobs.rows.kept_forms import MOST_BYTES, forms_of
from jobs.rows.projected_rows import ProjectedBatch
from jobs.rows.row_faults import RowFault
from lakequeue.clock import Micros, hour_of
from lakequeue.records import Format, TopicId
from queue_tables.delta.store import Store
from queue_tables.files.parquet import Rendered, read_data_file, rendered
from queue_tables.log.writer import SourceFiles
from queue_tables.schema.reasons import KEPT_OTHERWISE, Reason
from queue_tables.schema.record_rules import escaped
from queue_tables.schema.schemas import REJECTS

log = structlog.get_logger("order")

Key = tuple[str, int, int]
"""(shard, stamp, row)"""
_FILE_BYTES = 64 << 20
"""Of keys and values in one file: what is written of a batch is in memory together."""
_WITHOUT = frozenset({"file", "unread"})
"""Columns of what is told that stand in no table."""


def told_of(
    batch: ProjectedBatch,
    ordered: Ordered,
    topics: Mapping[TopicId, TopicRule],
    now: Micros,
    recorded: Mapping[Key, str | None],
) -> pa.Table:
    """What is said of refused rows and duplicates that are not `recorded`; nothing of what they
    hold."""
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
    if recorded:
        keys = zip(*(projected[c].to_pylist() for c in ("shard", "stamp", "row")), strict=True)
        fresh = pa.array([key not in recorded for key in keys], pa.bool_())
        projected, verdicts = projected.filter(fresh), verdicts.filter(fresh)
    names = [topics[t].name if t in topics else None for t in projected["topic_id"].to_pylist()]
    faults = [None if f is None else RowFault.of(f) for f in projected["fault"].to_pylist()]
    told = projected.drop_columns(["topic_id", "fault"])
    told = told.append_column("topic", pa.array(names, pa.string()))
    for column in ("reason", "original_partition", "original_offset"):
        told = told.append_column(column, verdicts[column])
    details = pa.array([f.detail if f is not None else None for f in faults], pa.string())
    told = told.append_column("detail", details)
    stamped = pa.repeat(pa.scalar(now, pa.timestamp("us", tz="UTC")), told.num_rows)
    told = told.append_column("rejected_at", stamped)
    unread = pa.array([f is not None and f.is_of_a_file for f in faults], pa.bool_())
    return told.append_column("unread", unread).combine_chunks()


class RejectRows:
    """Makes files of what is told of a batch's rows, and of what they hold."""

    def __init__(self, store: Store, sources: SourceFiles, now: Micros) -> None:
        self._store, self._sources, self._now = store, sources, now
        self._partition = {"hour": hour_of(now)}

    def files_of(
        self,
        batch: ProjectedBatch,
        ordered: Ordered,
        topics: Mapping[TopicId, TopicRule],
        recorded: Mapping[Key, str | None],
    ) -> list[Rendered]:
        """The files of a batch. Most have none, and a row of none would cost as much as one."""
        if not (len(ordered.refused) or len(ordered.duplicates)):
            return []
        return self.files(told_of(batch, ordered, topics, self._now, recorded))

    def files(self, told: pa.Table) -> list[Rendered]:
        """The files, not stored yet. Raises what no row is to blame for, and storage errors."""
        if not told.num_rows:
            return []
        try:
            return self._rendered(self._whole(told))
        except Exception as error:
            if not is_of_the_rows(error):
                raise
            log.warning("rejects.failed", rows=told.num_rows, error=said_of(error))
        return self._rendered(self._in_some_form(told))

    def _rendered(self, rows: pa.Table) -> list[Rendered]:
        return [self._one(part) for part in _parts(rows)]

    def _one(self, rows: pa.Table) -> Rendered:
        return rendered(rows, self._partition, REJECTS)

    # -- as they are ------------------------------------------------------------------------------

    def _whole(self, told: pa.Table) -> pa.Table:
        """Whole rows: text that is none escaped, values as they are."""
        files = told["file"].combine_chunks().dictionary_encode()
        codes = np.asarray(files.indices)
        parts = [
            self._of_file(path, told.take(pa.array(np.flatnonzero(codes == code))))
            for code, path in enumerate(files.dictionary.to_pylist())
        ]
        return pa.concat_tables(parts)

    def _of_file(self, path: str, told: pa.Table) -> pa.Table:
        names = [n for n in REJECTS.file_arrow.names if n not in told.column_names]
        if told["unread"][0].as_py():
            held = self._file_as_value(path, told, names)
        else:
            held = escaped(self._read(path, names).take(told["row"]))
            largest = int(_bytes_of(held).max())
            if largest > MOST_BYTES:
                raise OverflowError(f"a row has {largest} bytes, of {MOST_BYTES}")
        return _joined(told, held)

    def _file_as_value(self, path: str, told: pa.Table, names: list[str]) -> pa.Table:
        """The file itself as the value of its first row; nothing else of it is known."""
        data = self._store.get(path)
        values = [data if row == 0 else None for row in told["row"].to_pylist()]
        return _values(names, values)

    # -- in another form --------------------------------------------------------------------------

    def _in_some_form(self, told: pa.Table) -> pa.Table:
        """The same rows; those that cannot be written as they are in a form that can be."""

        def fails(units: Units) -> Exception | None:
            some = told.take(pa.array(units))
            try:
                self._one(self._whole(some))
            except Exception as error:
                if not is_of_the_rows(error):
                    raise
                return error
            return None

        guilty = find_guilty(told.num_rows, fails)
        if sum(len(one.units) for one in guilty) == told.num_rows:
            self._try_control()
        whole = np.setdiff1d(np.arange(told.num_rows), [n for g in guilty for n in g.units])
        parts = [self._whole(told.take(pa.array(whole)))] if len(whole) else []
        parts += [
            self._reduced(told.slice(row, 1), one.error)
            for one in guilty
            for row in one.units.tolist()
        ]
        why = [said_of(one.error) for one in guilty[:1]]
        log.error("rejects.reduced", rows=told.num_rows - len(whole), error=why)
        return pa.concat_tables(parts)

    def _try_control(self) -> None:
        """The same with a sound row of our own: where it fails, rows are not to blame."""
        rows, sources = control_rows(self._now, self._store)
        told = {name: [rows[name][0].as_py()] for name in ("shard", "file", "stamp", "row")}
        told |= {"topic": ["control"], "reason": [Reason.DUPLICATE.value], "unread": [False]}
        told |= {"original_partition": [0], "original_offset": [0], "detail": [None]}
        control = RejectRows(self._store, sources, self._now)
        control._one(control._whole(pa.table({**told, "rejected_at": [self._now]})))

    def _reduced(self, told: pa.Table, why: Exception) -> pa.Table:
        """One row in the first form that can be written. Raises `why` if none can."""
        names = [n for n in REJECTS.file_arrow.names if n not in told.column_names]
        for form in forms_of(self._raw(told)):
            said = f"{KEPT_OTHERWISE}{form.said}, since it cannot be written: {said_of(why)}"
            before = told["detail"][0].as_py()
            detail = pa.array([f"{said}; {before}" if before else said], pa.string())
            at = told.schema.get_field_index("detail")
            row = _joined(told.set_column(at, "detail", detail), _values(names, [form.value]))
            try:
                self._one(row)
            except Exception as error:
                if not is_of_the_rows(error):
                    raise
                continue
            return row
        raise why

    def _raw(self, told: pa.Table) -> pa.Table | None:
        """The row as it stands in its file; of a file that is none, its bytes as the value."""
        path = told["file"][0].as_py()
        try:
            if told["unread"][0].as_py():
                return self._file_as_value(path, told, ["key", "value", "value_format", "headers"])
            return self._read(path, None).take(told["row"])
        except Exception as error:
            if not is_of_the_rows(error):
                raise
            return None

    def _read(self, path: str, names: list[str] | None) -> pa.Table:
        """Rows of an inbox file. One that nobody has read is not kept: there may be many."""
        held = self._sources.held(path)
        if held is not None:
            return held if names is None else held.select(names)
        kind, shard, file = path.split("/", 2)
        return read_data_file(self._store, f"{kind}/{shard}", file, names)


def _joined(told: pa.Table, held: pa.Table) -> pa.Table:
    columns = {name: told[name] for name in told.column_names if name not in _WITHOUT}
    columns |= {name: held[name] for name in held.column_names}
    names = REJECTS.file_arrow.names
    return pa.table([columns[name] for name in names], names).cast(REJECTS.file_arrow)


def _values(names: list[str], values: list[bytes | None]) -> pa.Table:
    """Rows of which only the value is known."""
    columns = {n: pa.nulls(len(values), REJECTS.arrow.field(n).type) for n in names}
    columns["value"] = pa.array(values, pa.binary())
    columns["value_format"] = pa.repeat(pa.scalar(int(Format.BYTES), pa.int32()), len(values))
    return pa.table(columns)


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows in pieces of about `_FILE_BYTES`; a larger row is alone."""
    ends = np.cumsum(_bytes_of(rows)) // _FILE_BYTES
    cuts = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), rows.num_rows]
    for begin, end in pairwise(cuts):
        yield rows.slice(begin, end - begin)


def _bytes_of(rows: pa.Table) -> npt.NDArray[np.int64]:
    """Of key and value of each row."""
    total = np.zeros(rows.num_rows, np.int64)
    for name in ("key", "value"):
        total += np.asarray(pc.fill_null(pc.binary_length(rows[name]), 0))
    return total
