"""Writes records of foreign files of `log` anew: sorted, each offset once, in bounded memory.

What is held: of each partition the ranges of offsets that are there, of one foreign file a few
numbers a row, and of the records themselves a row group that is read and `_CHUNK_BYTES` to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from queue_tables.delta.actions import Add
from queue_tables.delta.table import TableLog
from queue_tables.files.deletion_vectors import deleted_rows
from queue_tables.files.parquet import DataFile
from queue_tables.log.writer import write_log_file
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import offset_mark

I64 = npt.NDArray[np.int64]
Key = tuple[str, int]
"""(topic id, partition)"""
_CHUNK_BYTES = 64 << 20
"""Decoded bytes of a file that is written."""
_PLACE = ["topic", "topic_id", "partition", "offset"]
_NONE = np.empty(0, np.int64)


def normal_log_files(
    root: QueueRoot, log: TableLog, foreign: Sequence[Add], stay: Iterable[Add]
) -> list[Add]:
    """The files, durable, that no commit names yet: the records of `foreign` that the order leader
    has numbered and that stand in no file of `stay`."""
    known = Offsets()
    for add in stay:
        with DataFile(root.store, log.path, add.path) as file:
            places = _places_in(root, log, add, file)
            for key, at in places.by_partition():
                known.add(key, places.offset[at])
    written: list[Add] = []
    for add in foreign:
        with DataFile(root.store, log.path, add.path) as file:
            order = _wanted(_places_in(root, log, add, file), known, log.txns)
            most = max(1, _CHUNK_BYTES // file.row_bytes)
            for begin in range(0, len(order), most):
                rows = _picked(file, order[begin : begin + most])
                hour = add.partition_values["hour"] or ""
                written.append(write_log_file(root.store, rows, hour))
    return written


@dataclass
class Offsets:
    """Which offsets are known, as ranges: a partition without gaps is one."""

    _ranges: dict[Key, tuple[I64, I64]] = field(default_factory=dict)
    """Begins and ends (one past the last), rising, apart from each other."""

    def add(self, key: Key, offsets: I64) -> None:
        """These are known from now on."""
        ordered = np.unique(offsets)
        if not len(ordered):
            return
        cuts = np.flatnonzero(np.diff(ordered) > 1)
        begins = np.concatenate([ordered[:1], ordered[cuts + 1]])
        ends = np.concatenate([ordered[cuts], ordered[-1:]]) + 1
        before, until = self._ranges.get(key, (_NONE, _NONE))
        begins, ends = np.concatenate([before, begins]), np.concatenate([until, ends])
        by_begin = np.argsort(begins, kind="stable")
        begins, ends = begins[by_begin], np.maximum.accumulate(ends[by_begin])
        apart = begins[1:] > ends[:-1]
        self._ranges[key] = (
            begins[np.concatenate([[True], apart])],
            ends[np.concatenate([apart, [True]])],
        )

    def among(self, key: Key, offsets: I64) -> npt.NDArray[np.bool_]:
        """Which of `offsets` are known."""
        begins, ends = self._ranges.get(key, (_NONE, _NONE))
        if not len(begins):
            return np.zeros(len(offsets), bool)
        at = np.searchsorted(begins, offsets, "right") - 1
        found: npt.NDArray[np.bool_] = (at >= 0) & (offsets < ends[np.maximum(at, 0)])
        return found


@dataclass
class _Places:
    """Where the records of a file belong; rows that say no place, or are deleted, are left out."""

    names: list[tuple[str, str]]
    """(topic, topic id)"""
    name: I64
    """Of each row, a position in `names`."""
    partition: I64
    offset: I64
    row: I64
    """Its position in the file."""

    def by_partition(self) -> Iterator[tuple[Key, I64]]:
        """Each partition, with the positions of its rows here."""
        order = np.lexsort((self.partition, self.name))
        name, partition = self.name[order], self.partition[order]
        borders = np.flatnonzero((np.diff(name) != 0) | (np.diff(partition) != 0)) + 1
        for part in np.split(order, borders) if len(order) else ():
            first = part[0]
            yield (self.names[int(self.name[first])][1], int(self.partition[first])), part


def _places_in(root: QueueRoot, log: TableLog, add: Add, file: DataFile) -> _Places:
    numbers: dict[tuple[str, str], int] = {}
    parts: list[tuple[I64, I64, I64, I64]] = []
    for group, begin in enumerate(file.begins[:-1]):
        rows = file.rows(group, _PLACE)
        valid = np.ones(rows.num_rows, bool)
        for column in _PLACE[1:]:
            valid &= np.asarray(rows[column].is_valid())
        at = np.flatnonzero(valid)
        rows = rows.take(pa.array(at))
        topic = pc.fill_null(rows["topic"], "")
        raw = [_codes(column) for column in (topic, rows["topic_id"])]
        pairs = np.stack([codes for _, codes in raw], axis=1)
        seen, mine = np.unique(pairs, axis=0, return_inverse=True)
        words = [(raw[0][0][one], raw[1][0][other]) for one, other in seen.tolist()]
        here = np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int64)
        parts.append(
            (
                here[mine.reshape(-1)] if len(here) else _NONE,
                rows["partition"].to_numpy().astype(np.int64),
                rows["offset"].to_numpy().astype(np.int64),
                at + begin,
            )
        )
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)] or [_NONE] * 4
    places = _Places(list(numbers), *columns)
    if add.deletion_vector is not None:
        gone = deleted_rows(root.store, log.path, add.deletion_vector)
        keep = ~np.isin(places.row, gone)
        kept = [column[keep] for column in columns]
        places = _Places(places.names, *kept)
    return places


def _codes(column: pa.ChunkedArray) -> tuple[list[str], I64]:
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    words = encoded.dictionary.cast(pa.binary()).to_pylist()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return [word.decode(errors="surrogateescape") for word in words], codes


def _wanted(places: _Places, known: Offsets, marks: Mapping[str, int]) -> I64:
    """Rows of the file that are to be written, in the order of the log; they are known then."""
    keep = np.zeros(len(places.row), bool)
    for key, at in places.by_partition():
        offsets = places.offset[at]
        end = marks.get(offset_mark(*key), 0)
        new = (offsets >= 0) & (offsets < end) & ~known.among(key, offsets)
        _, first = np.unique(offsets[new], return_index=True)
        keep[at[new][first]] = True
        known.add(key, offsets[new])
    chosen = np.flatnonzero(keep)
    by_name = sorted(range(len(places.names)), key=places.names.__getitem__)
    rank = np.empty(len(by_name), np.int64)
    rank[by_name] = np.arange(len(by_name))
    order = np.lexsort((places.offset[chosen], places.partition[chosen], rank[places.name[chosen]]))
    ordered: I64 = places.row[chosen[order]]
    return ordered


def _picked(file: DataFile, positions: I64) -> pa.Table:
    """These rows, in this order; a row group is held no longer than it is looked at."""
    group = np.searchsorted(np.asarray(file.begins), positions, "right") - 1
    parts, sources = [], []
    for number in np.unique(group).tolist():
        mine = np.flatnonzero(group == number)
        rows = file.rows(number).take(pa.array(positions[mine] - file.begins[number]))
        parts.append(rows.combine_chunks())
        sources.append(mine)
    back = np.argsort(np.concatenate(sources), kind="stable")
    return pa.concat_tables(parts).take(pa.array(back)).combine_chunks()
