"""`RecordStates` from the rows of journal shards, and to and from `group_offsets`.

By column, not by row: a partition can have a million parked records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from queue_tables.offset_ranges import merged
from queue_tables.record_states import (
    NEVER,
    NO_ROWS,
    NOTHING,
    OPEN,
    SETTLES,
    STAGE_OF,
    OpenRows,
    RecordStates,
    Stage,
    join_records,
    states_of_rows,
)
from queue_tables.schemas import OPEN_RECORDS, RANGES

_WHERE: Final = ("group", "topic", "topic_id", "partition", "generation", "epoch", "mode")
_TIMES: Final = ("until", "first_at", "expires_at")


class RecordNews(NamedTuple):
    """What rows of one group, partition, generation and epoch say."""

    group: str
    topic: str
    topic_id: str
    partition: int
    generation: int
    epoch: int
    mode: str
    changed_at: int
    states: RecordStates


def record_news(rows: pa.Table) -> Iterator[RecordNews]:
    """The news in journal rows whose kinds are all in `RECORD_KINDS`."""
    if rows.num_rows == 0:
        return
    codes = [rows[name].combine_chunks().dictionary_encode() for name in _WHERE]
    stacked = np.stack([np.asarray(code.indices) for code in codes])
    places, which = np.unique(stacked, axis=1, return_inverse=True)
    which = which.reshape(-1)
    kinds = np.asarray(rows["kind"].to_numpy())
    numbers = _numbers(rows)
    for i, place in enumerate(places.T):
        where: list[Any] = [
            c.dictionary[int(at)].as_py() for c, at in zip(codes, place, strict=True)
        ]
        mine = which == i if len(places.T) > 1 else np.ones(rows.num_rows, bool)
        changed_at = int(numbers["at"][mine].max())
        yield RecordNews._make([*where, changed_at, _states(kinds, numbers, mine)])


_Columns = dict[str, npt.NDArray[Any]]


def _numbers(rows: pa.Table) -> _Columns:
    columns: _Columns = {"offset": rows["offset"].to_numpy()}
    for name in ("at", *_TIMES):
        micros = pc.cast(rows[name], pa.int64())
        columns[name] = pc.fill_null(micros, NEVER if name == "expires_at" else 0).to_numpy()
    for name in ("attempt", "key_hash"):
        columns[name] = pc.fill_null(rows[name], 0).to_numpy()
    ends = pc.coalesce(rows["end_offset"], pc.add(rows["offset"], 1))
    columns["end"] = ends.to_numpy()
    for name in ("member", "reason"):
        columns[name] = pc.fill_null(rows[name], "").to_numpy(zero_copy_only=False)
    return columns


def _states(
    kinds: npt.NDArray[Any], columns: _Columns, mine: npt.NDArray[np.bool_]
) -> RecordStates:
    settled = mine & np.isin(kinds, list(SETTLES))
    ranges = np.stack((columns["offset"][settled], columns["end"][settled]), axis=1)
    states = RecordStates(merged(ranges.astype(np.int64)), NO_ROWS)
    for kind, stage in STAGE_OF.items():
        chosen = np.flatnonzero(mine & (kinds == kind))
        if len(chosen):
            states = join_records(states, states_of_rows(_expanded(columns, chosen, stage)))
    return states


def _expanded(columns: _Columns, chosen: npt.NDArray[np.int64], stage: Stage) -> OpenRows:
    """One row for each offset of the chosen facts."""
    first, end = columns["offset"][chosen], columns["end"][chosen]
    counts = end - first
    rows = np.empty(int(counts.sum()), OPEN)
    begins = np.cumsum(counts) - counts
    rows["offset"] = np.arange(len(rows)) + np.repeat(first - begins, counts)
    rows["stage"] = stage
    for name in ("attempt", "key_hash", "member", "reason", *_TIMES):
        rows[name] = np.repeat(columns[name][chosen], counts)
    return rows


def seen_to_arrow(states: Sequence[RecordStates]) -> pa.Array:
    """The column `seen`."""
    starts = np.cumsum([0, *(len(s.seen) for s in states)])
    ranges = np.concatenate([s.seen for s in (NOTHING, *states)])
    values = pa.StructArray.from_arrays(
        [pa.array(ranges[:, 0].copy()), pa.array(ranges[:, 1].copy())],
        fields=list(RANGES.value_type),
    )
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), values, type=RANGES)


def open_to_arrow(states: Sequence[RecordStates]) -> pa.Array:
    """The column `open`."""
    starts = np.cumsum([0, *(len(s.open) for s in states)])
    rows = np.concatenate([s.open for s in (NOTHING, *states)])
    arrays = []
    for field in OPEN_RECORDS.value_type:
        column = rows[field.name]
        if field.name in ("member", "reason"):
            arrays.append(pa.array(column, pa.string()))
            continue
        nothing = {"first_at": 0, "expires_at": NEVER}.get(field.name)
        mask = None if nothing is None else column == nothing
        plain = pa.array(np.ascontiguousarray(column), mask=mask)
        arrays.append(plain.cast(field.type))
    values = pa.StructArray.from_arrays(arrays, fields=list(OPEN_RECORDS.value_type))
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), values, type=OPEN_RECORDS)


def states_of_columns(seen: pa.ChunkedArray, open_: pa.ChunkedArray) -> list[RecordStates]:
    """The states in the columns `seen` and `open`, one for each row."""
    return [_state_of(ranges, records) for ranges, records in zip(seen, open_, strict=True)]


def _state_of(ranges: pa.ListScalar, records: pa.ListScalar) -> RecordStates:
    if not ranges.is_valid or len(ranges.values) == 0:
        return NOTHING
    pairs = [ranges.values.field(name).to_numpy() for name in ("from_offset", "to_offset")]
    if not records.is_valid or len(records.values) == 0:
        return RecordStates(np.stack(pairs, axis=1), NO_ROWS)
    rows = np.empty(len(records.values), OPEN)
    for field in OPEN_RECORDS.value_type:
        column = records.values.field(field.name)
        if pa.types.is_timestamp(field.type):
            nothing = NEVER if field.name == "expires_at" else 0
            column = pc.fill_null(column.cast(pa.int64()), nothing)
        rows[field.name] = column.to_numpy(zero_copy_only=False)
    return RecordStates(np.stack(pairs, axis=1), rows)
