"""Judges the rows of inbox files before anything is done with them, and makes those up that fail.

The rules of single columns are `queue_tables.schema.record_rules`; here are those that need the
file, the commit or the request of a row. A row that is not sound goes on with values that nothing
can trip over, and its fault beside them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.errors import InvalidName
from lakequeue.records import checked_name
from queue_tables.schema.marks import NO_TOPIC
from queue_tables.schema.record_rules import Fault, Faults, faults_of, whole_text
from queue_tables.schema.schemas import INBOX

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_OF_THE_REQUEST: Final = ("producer_id", "producer_epoch", "consumed")
"""Columns by which a request is judged as a whole; its rows must agree."""
_JUDGING: Final = frozenset({*_OF_THE_REQUEST, "topic_id", "sequence", "request", "atomic"})
_MAX_LONG: Final = (1 << 63) - 1


class Files(NamedTuple):
    """Where files begin in the rows, how many rows each has, and the stamps it may have."""

    begins: I64
    counts: I64
    after: I64
    stamp: I64

    def of_rows(self, values: I64) -> I64:
        """A value of each file, for each of its rows."""
        return np.repeat(values, self.counts)


class Sound(NamedTuple):
    """Rows that nothing trips over."""

    rows: pa.Table
    stamps: I64
    positions: npt.NDArray[np.int32]
    """Of each row in its file."""
    faults: Faults


def sound_rows(rows: pa.Table, files: Files) -> Sound:
    """Judge `rows`, the projected columns of the inbox, and headers."""
    positions = np.arange(rows.num_rows) - files.of_rows(files.begins)
    faults = faults_of(rows, INBOX)
    stamps = _stamps(rows, files, faults)
    if rows["row"].null_count or (rows["row"].to_numpy() != positions).any():
        _note_positions(rows["row"], positions, faults)
    judge_requests(rows, files, faults)
    if faults:
        rows = _made_up(rows)
    return Sound(rows, stamps, positions.astype(np.int32), faults)


def _stamps(rows: pa.Table, files: Files, faults: Faults) -> I64:
    """Each row's stamp. All rows of a file have one, that of its commit or of a bulk file in it.

    A stamp that is above its commit's would raise the watermark over commits to come.
    """
    given = pc.fill_null(rows["stamp"], 0).to_numpy()
    inside = (given > files.of_rows(files.after)) & (given <= files.of_rows(files.stamp))
    firsts = files.stamp.copy()
    whole = np.flatnonzero(files.counts > 0)
    begins = files.begins[whole]
    firsts[whole] = np.where(inside[begins], given[begins], files.stamp[whole])
    right = files.of_rows(firsts)
    for row in np.flatnonzero(~inside | (given != right)).tolist():
        faults[row] = Fault("stamp", f"is {rows['stamp'][row].as_py()}, in a file of {right[row]}")
    return np.asarray(right)


def _note_positions(numbers: pa.ChunkedArray, positions: I64, faults: Faults) -> None:
    given = pc.fill_null(numbers, -1).to_numpy()
    for row in np.flatnonzero(given != positions).tolist():
        why = f"is {numbers[row].as_py()}, and {positions[row]} by its place in the file"
        faults.setdefault(row, Fault("row", why))


def request_spans(rows: pa.Table, files: Files) -> list[tuple[int, int]]:
    """[start, end) of each request, in files that have any that is judged; else []."""
    count = rows.num_rows
    if rows["producer_epoch"].null_count == rows["consumed"].null_count == count:
        return []
    starts = _changes(rows["request"])
    starts[files.begins[files.counts > 0]] = True
    at = np.flatnonzero(starts)
    return list(zip(at.tolist(), [*at[1:].tolist(), count], strict=True))


def judge_requests(rows: pa.Table, files: Files, faults: Faults) -> None:
    """A request that is judged as a whole is sound as a whole, or none of its rows is."""
    spans = request_spans(rows, files)
    if not spans:
        return
    differs = np.zeros(rows.num_rows, bool)
    for name in _OF_THE_REQUEST:
        differs |= _changes(rows[name])
    has = np.asarray(pc.or_(rows["producer_epoch"].is_valid(), rows["consumed"].is_valid()))
    for start, end in spans:
        if not has[start:end].any():
            continue
        fault = next(
            (faults[r] for r in range(start, end) if r in faults and faults[r].column in _JUDGING),
            None,
        )
        if fault is None and differs[start + 1 : end].any():
            fault = Fault("request", "has rows that differ in producer, epoch or consumed")
        fault = fault or _request_fault(rows, start, end)
        if fault is not None:
            for row in range(start, end):
                faults.setdefault(row, fault)


def _request_fault(rows: pa.Table, start: int, end: int) -> Fault | None:
    if not rows["producer_epoch"][start].is_valid:
        return None
    producer, last = rows["producer_id"][start], rows["sequence"][end - 1]
    try:
        checked_name(producer.as_py() or "", "producer")
    except InvalidName as error:
        return Fault("producer_id", f"has an epoch, and is no name: {error.detail}")
    if last.is_valid and last.as_py() >= _MAX_LONG:
        return Fault("sequence", f"is {last.as_py()}, and would run over")
    return None


def _changes(column: pa.ChunkedArray) -> Mask:
    """Rows that differ from the one above."""
    codes = pc.fill_null(column.combine_chunks().dictionary_encode().indices, -1).to_numpy()
    changes = np.ones(len(codes), bool)
    changes[1:] = codes[1:] != codes[:-1]
    return changes


def _made_up(rows: pa.Table) -> pa.Table:
    """No text but UTF-8, no null and no negative number where none may be."""
    columns = {name: rows[name] for name in rows.schema.names if name != "headers"}
    for name, column in columns.items():
        if pa.types.is_string(column.type):
            columns[name] = whole_text(column)
    columns["topic_id"] = pc.fill_null(columns["topic_id"], NO_TOPIC)
    for name in ("partition", "bytes"):
        known = pc.fill_null(columns[name], 0)
        columns[name] = pc.if_else(pc.less(known, 0), pa.scalar(0, known.type), known)
    return pa.table(columns)
