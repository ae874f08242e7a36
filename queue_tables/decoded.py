"""Row groups of data files that were decoded last, shared by all who read them. Thread-safe."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

import pyarrow as pa

Decode = Callable[[str, int], pa.Table]
"""(path, row group) → its rows."""


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
