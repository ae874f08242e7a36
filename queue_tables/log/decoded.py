"""Row groups of data files that were decoded last, shared by all who read them. Thread-safe."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future

import numpy as np
import pyarrow as pa

from lakequeue.errors import CorruptTable
from queue_tables.log.contested import REPAIR
from queue_tables.log.files import Decode, LogFiles
from queue_tables.log.index import PartitionKey, Resolve, Span
from queue_tables.log.record_bytes import bytes_of, bytes_up_to
from queue_tables.log.row_groups import INDEX_COLUMNS


class Pieces:
    """Decoded row groups, the last used kept; each is decoded by one of those who want it."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, int], Future[pa.Table]] = OrderedDict()
        self._bytes = 0

    def get(self, path: str, row_group: int, decode: Decode) -> pa.Table:
        """The rows of a row group; raises what `decode` raises."""
        place = (path, row_group)
        with self._lock:
            piece = self._held.get(place)
            mine = piece is None
            if piece is None:
                piece = self._held[place] = Future()
            self._held.move_to_end(place)
        if mine:
            try:
                table = decode(path, row_group)
            except BaseException as error:
                with self._lock:
                    del self._held[place]
                piece.set_exception(error)
                raise
            piece.set_result(table)
            self._trim(table.nbytes)
        return piece.result()

    def forget(self, path: str) -> None:
        """The file has left the log, or other rows of it count now."""
        with self._lock:
            for place in [p for p, piece in self._held.items() if p[0] == path and piece.done()]:
                piece = self._held.pop(place)
                self._bytes -= 0 if piece.exception() else piece.result().nbytes

    def _trim(self, more: int) -> None:
        with self._lock:
            self._bytes += more
            for place in list(self._held):
                if self._bytes <= self._most or len(self._held) == 1:
                    break
                oldest = self._held[place]
                if oldest.done():
                    self._bytes -= oldest.result().nbytes
                    del self._held[place]


def decoding(files: LogFiles, pieces: Pieces, columns: Sequence[str]) -> Resolve:
    """Finds the spans of a file by the rows that are read next: they are decoded once."""

    def resolve(path: str) -> list[tuple[PartitionKey, Span]]:
        found = files.spans(path, pieces.get, columns)
        if any(files.mixed_up(path, span.row_group) for _, span in found):
            pieces.forget(path)  # they were not in order yet
        return found

    return resolve if set(INDEX_COLUMNS) <= set(columns) else files.spans


def of_span(piece: pa.Table, span: Span) -> pa.Table:
    """The rows of a span in its row group. Raises `CorruptTable` if they are others."""
    rows = piece.slice(span.start, span.end - span.start)
    if rows.num_rows == span.last - span.first + 1:
        offsets = rows.column("offset").to_numpy()
        if offsets[0] == span.first and offsets[-1] == span.last:
            return rows
    # What is not there would be skipped as a gap.
    raise CorruptTable(
        f"log file {span.path} does not hold the offsets {span.first} to {span.last} that its"
        " footer and index columns say",
        hint=REPAIR,
    )


def prefix_of(rows: pa.Table, size: int, least: int) -> tuple[pa.Table, int]:
    """The first rows, of `size` bytes at most, but `least` rows; and their bytes."""
    whole = bytes_of(rows)
    if whole <= size:
        return rows, whole
    sizes = bytes_up_to(rows)
    fitting = max(int(np.searchsorted(sizes, size, side="right")), min(least, rows.num_rows))
    return rows.slice(0, fitting), int(sizes[fitting - 1]) if fitting else 0
