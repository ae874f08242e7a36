"""Which rows of a journal shard can be folded. Pure.

A shard can hold rows that no release of ours writes: from a foreign writer, or a damaged file. One
of them must not stop the fold, or a take-over, of all groups. Each row is checked against what a
fact is; what is no fact is *set aside*: it counts for nothing, and the rows around it are folded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, reduce
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.records import ShardName
from lakequeue.wire.limits import MAX_PARTITIONS, MAX_WHOLE
from queue_tables.delta.stamps import LAST_STAMP
from queue_tables.groups.facts import Kind
from queue_tables.groups.record_states import RECORD_KINDS, STAGE_OF
from queue_tables.schema.odd_bytes import text_of, texts_of

MOST_RUN: Final = 1_000_000
"""Offsets that one fact opens or says to be dead, at most: each takes memory by itself."""
_MOST_ATTEMPTS: Final = 1 << 30
_NAME: Final = re.compile(rb"[A-Za-z0-9._-]{1,249}\Z")
_NEED_OFFSET: Final = (*RECORD_KINDS, "committed")
_TAKE_MEMORY: Final = (*STAGE_OF, "dead")
_KINDS: Final = {kind.value.encode() for kind in Kind}
_FREE_TEXTS: Final = ("member", "reason", "dead_letter")
"""Nothing is decided by them: odd bytes are escaped, and the fact counts."""

Mask = Any
"""One boolean for each row; true: the row is odd."""


class SetAside(NamedTuple):
    """A row that is not folded."""

    shard: ShardName
    stamp: int | None
    row: int | None
    """Number of the row in its commit."""
    reason: str


def sound_facts(table: pa.Table, shard: ShardName) -> tuple[pa.Table, list[SetAside]]:
    """The rows of `table` (columns of a journal shard) that are facts, and the others."""
    odd = [(name, mask) for name, mask in _odd(table) if pc.any(mask).as_py()]
    if not odd:
        return _readable(table), []
    bad = reduce(pc.or_, (mask for _, mask in odd))
    aside = []
    for at in np.flatnonzero(bad.to_numpy(zero_copy_only=False)).tolist():
        names = [name for name, mask in odd if mask[at].as_py()]
        aside.append(set_aside_of(table, at, shard, f"no fact has this {' or '.join(names)}"))
    return _readable(table.filter(pc.invert(bad))), aside


def set_aside_of(table: pa.Table, at: int, shard: ShardName, reason: str) -> SetAside:
    """The row at `at`, with the reason and what can be said of it."""
    stamp, row = (
        table[name][at].as_py() if name in table.column_names else None for name in ("stamp", "row")
    )
    kind, group, topic = (texts_of(table[name].slice(at, 1))[0] for name in _WHAT)
    what = f"kind {kind!r:.40}, group {group!r:.260}, topic {topic!r:.260}"
    return SetAside(shard, stamp, row, f"{reason}: {what}")


_WHAT: Final = ("kind", "group", "topic")


@cache
def _set_of(kinds: tuple[str, ...]) -> pa.Array:
    """As Arrow wants a set to look in; not made at import, for Arrow's first array loads pandas."""
    return pa.array([kind.encode() for kind in kinds], pa.binary())


def _odd(table: pa.Table) -> Iterator[tuple[str, Mask]]:
    """For each rule that is broken the column that it is about, and the rows that break it.

    Whether any row breaks it is asked first: that is cheap, and mostly none does.
    """
    for name, is_good in _TEXT_RULES.items():
        if (mask := _odd_texts(table[name], is_good)) is not None:
            yield name, mask
    for name, (high, missing) in _NUMBER_RULES.items():
        if name not in table.column_names:
            continue  # as a node writes it: the shard adds the stamp
        if (mask := _outside(table[name].combine_chunks(), high, missing=missing)) is not None:
            yield name, mask
    yield from _odd_runs(table)


def _odd_runs(table: pa.Table) -> Iterator[tuple[str, Mask]]:
    kinds, offset, end = (table[name].combine_chunks() for name in ("kind", "offset", "end_offset"))
    if offset.null_count:
        needs = pc.is_in(kinds.cast(pa.binary()), _set_of(_NEED_OFFSET))
        yield "offset", pc.and_(needs, pc.is_null(offset))
    if end.null_count == len(end):
        return
    length = pc.subtract(end, pc.fill_null(offset, 0))
    bounds = pc.min_max(length)
    if bounds["min"].as_py() < 1:
        yield "end_offset", pc.fill_null(pc.less(length, 1), False)
    if bounds["max"].as_py() > MOST_RUN:
        each = pc.is_in(kinds.cast(pa.binary()), _set_of(_TAKE_MEMORY))
        yield "end_offset", pc.and_(each, pc.fill_null(pc.greater(length, MOST_RUN), False))


def _outside(column: pa.Array, high: int, *, missing: bool) -> Mask | None:
    """Rows below 0 or above `high`; `missing`: null is odd as well."""
    bounds = pc.min_max(column)
    low, top = bounds["min"].as_py(), bounds["max"].as_py()
    if not (missing and column.null_count) and (low is None or (low >= 0 and top <= high)):
        return None
    odd = pc.less(column, 0)
    if high < 1 << (column.type.bit_width - 1):
        odd = pc.or_(odd, pc.greater(column, high))
    return pc.fill_null(odd, missing)


def _odd_texts(column: pa.ChunkedArray, is_good: Callable[[bytes | None], bool]) -> Mask | None:
    """Judged once for each distinct value: there are few."""
    encoded = column.combine_chunks().cast(pa.binary()).dictionary_encode()
    odd = [at for at, data in enumerate(encoded.dictionary.to_pylist()) if not is_good(data)]
    null_is_odd = bool(encoded.indices.null_count) and not is_good(None)
    if not odd and not null_is_odd:
        return None
    mask = pc.is_in(encoded.indices, pa.array(odd, encoded.indices.type))
    return pc.or_(mask, pc.is_null(encoded.indices)) if null_is_odd else mask


def _is_name(data: bytes | None) -> bool:
    return data is not None and _NAME.match(data) is not None


def _is_options(data: bytes | None) -> bool:
    if not data:
        return True
    try:
        return isinstance(orjson.loads(data), dict)
    except orjson.JSONDecodeError:
        return False


_TEXT_RULES: Final[Mapping[str, Callable[[bytes | None], bool]]] = {
    "kind": lambda data: data in _KINDS,
    "group": _is_name,
    "topic": lambda data: not data or _is_name(data),
    "topic_id": _is_name,
    "mode": lambda data: data in {b"stream", b"queue"},
    "options": _is_options,
}
_NUMBER_RULES: Final = {
    "partition": (MAX_PARTITIONS - 1, True),
    "generation": (MAX_WHOLE, True),
    "epoch": (MAX_WHOLE, True),
    "offset": (MAX_WHOLE, False),
    "end_offset": (MAX_WHOLE, False),
    "attempt": (_MOST_ATTEMPTS, False),
    "stamp": (LAST_STAMP, False),
}
"""Highest good value, and whether there must be one; the lowest is 0."""


def _readable(table: pa.Table) -> pa.Table:
    if table["topic"].null_count:
        at = table.schema.get_field_index("topic")
        table = table.set_column(at, "topic", pc.fill_null(table["topic"], ""))
    for name in _FREE_TEXTS:
        column = table[name]
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            texts = [
                None if data is None else text_of(data)
                for data in column.cast(pa.binary()).to_pylist()
            ]
            at = table.schema.get_field_index(name)
            table = table.set_column(at, table.schema.field(at), pa.array(texts, pa.string()))
    return table
