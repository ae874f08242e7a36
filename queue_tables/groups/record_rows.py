"""`RecordStates` from the rows of journal shards, and to and from `group_offsets`.

By column, not by row: a partition can have a million delayed records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from queue_tables.delta.columns import DEAD_RECORDS, OPEN_RECORDS, RANGES
from queue_tables.groups.offset_ranges import NO_RANGES, Ranges, merged
from queue_tables.groups.offset_rows import OffsetRows
from queue_tables.groups.record_states import (
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
from queue_tables.groups.terminal_states import (
    DEAD,
    NO_DEAD,
    NO_TERMINAL_STATES,
    DeadRecord,
    TerminalStates,
    join_terminal_states,
)

_WHERE: Final = ("group", "topic", "topic_id", "partition", "generation", "epoch", "mode")
_OF_DEAD: Final = ("offset", "end", "attempt", "reason", "dead_letter")
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
    for name in ("member", "reason", "dead_letter"):
        columns[name] = pc.fill_null(rows[name], "").to_numpy(zero_copy_only=False)
    return columns


def _states(
    kinds: npt.NDArray[Any], columns: _Columns, mine: npt.NDArray[np.bool_]
) -> RecordStates:
    settled = _ranges(columns, mine & np.isin(kinds, list(SETTLES)))
    states = RecordStates(settled, NO_ROWS, _ends(kinds, columns, mine))
    for kind, stage in STAGE_OF.items():
        chosen = np.flatnonzero(mine & (kinds == kind))
        if len(chosen):
            states = join_records(states, states_of_rows(_expanded(columns, chosen, stage)))
    return states


def _ranges(columns: _Columns, chosen: npt.NDArray[np.bool_]) -> Ranges:
    ranges = np.stack((columns["offset"][chosen], columns["end"][chosen]), axis=1)
    return merged(ranges.astype(np.int64))


def _ends(
    kinds: npt.NDArray[Any], columns: _Columns, mine: npt.NDArray[np.bool_]
) -> TerminalStates:
    expired = _ranges(columns, mine & (kinds == "expired"))
    died = mine & (kinds == "dead")
    dead = [
        DeadRecord(offset, *rest)
        for first, end, *rest in zip(*(columns[n][died].tolist() for n in _OF_DEAD), strict=True)
        for offset in range(first, end)
    ]
    if not dead and not len(expired):
        return NO_TERMINAL_STATES
    return join_terminal_states(
        TerminalStates.died(dead), TerminalStates.ran_out(*expired.tolist())
    )


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


def states_to_columns(states: Sequence[RecordStates]) -> dict[str, pa.Array]:
    """The columns `seen`, `open`, `dead`, `expired` and `ends_known_from`."""
    return {
        "seen": _ranges_to_arrow([s.seen for s in states]),
        "open": _rows_to_arrow([s.open for s in states], NO_ROWS, OPEN_RECORDS),
        "dead": _rows_to_arrow([s.ends.dead for s in states], NO_DEAD, DEAD_RECORDS),
        "expired": _ranges_to_arrow([s.ends.expired for s in states]),
        "ends_known_from": pa.array([s.ends.known_from for s in states], pa.int64()),
    }


def _ranges_to_arrow(sets: Sequence[Ranges]) -> pa.Array:
    starts = np.cumsum([0, *map(len, sets)])
    ranges = np.concatenate([NO_RANGES, *sets])
    values = pa.StructArray.from_arrays(
        [pa.array(ranges[:, 0].copy()), pa.array(ranges[:, 1].copy())],
        fields=list(RANGES.value_type),
    )
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), values, type=RANGES)


def _rows_to_arrow(sets: Sequence[OffsetRows], none: OffsetRows, kind: pa.ListType) -> pa.Array:
    starts = np.cumsum([0, *map(len, sets)])
    rows = np.concatenate([none, *sets])
    arrays = []
    for field in kind.value_type:
        column = rows[field.name]
        if pa.types.is_string(field.type):
            arrays.append(pa.array(column, pa.string()))
            continue
        nothing = {"first_at": 0, "expires_at": NEVER}.get(field.name)
        mask = None if nothing is None else column == nothing
        plain = pa.array(np.ascontiguousarray(column), mask=mask)
        arrays.append(plain.cast(field.type))
    values = pa.StructArray.from_arrays(arrays, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), values, type=kind)


def states_of_columns(table: pa.Table) -> list[RecordStates]:
    """The states in the columns that `states_to_columns` makes, one for each row."""
    columns = [table[name] for name in ("seen", "open", "dead", "expired")]
    return [_state_of(*row) for row in zip(*columns, strict=True)]


def _state_of(
    seen: pa.ListScalar, open_: pa.ListScalar, dead: pa.ListScalar, expired: pa.ListScalar
) -> RecordStates:
    if _is_empty(seen):
        return NOTHING
    ends = NO_TERMINAL_STATES
    if not _is_empty(dead) or not _is_empty(expired):
        ends = TerminalStates(_rows_of(dead, NO_DEAD, DEAD), _ranges_of(expired))
    return RecordStates(_ranges_of(seen), _rows_of(open_, NO_ROWS, OPEN), ends)


def _is_empty(values: pa.ListScalar) -> bool:
    return not values.is_valid or len(values.values) == 0


def _ranges_of(values: pa.ListScalar) -> Ranges:
    if _is_empty(values):
        return NO_RANGES
    pairs = [values.values.field(name).to_numpy() for name in ("from_offset", "to_offset")]
    return np.stack(pairs, axis=1)


def _rows_of(values: pa.ListScalar, none: OffsetRows, kind: np.dtype[Any]) -> OffsetRows:
    if _is_empty(values):
        return none
    rows = np.empty(len(values.values), kind)
    for field in values.type.value_type:
        column = values.values.field(field.name)
        if pa.types.is_timestamp(field.type):
            nothing = NEVER if field.name == "expires_at" else 0
            column = pc.fill_null(column.cast(pa.int64()), nothing)
        if column.null_count and not pa.types.is_string(field.type):
            raise ValueError(f"a null in {field.name}")
        rows[field.name] = column.to_numpy(zero_copy_only=False)
    return rows
