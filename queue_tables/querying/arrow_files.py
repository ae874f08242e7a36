"""Files of an object store for Arrow, which reads ahead in threads of its own.

To read is to call Python there, and a process that ends meanwhile (DuckDB has its `LIMIT 2`)
crashes: Arrow's threads find no interpreter any more. So when Python is about to end, calls under
way are waited for, and every further one is refused, which ends what Arrow has planned.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

_QUIET_S = 0.05
"""No call for so long, while each is refused: there is nothing more to come."""
_MOST_S = 30.0
"""How long the end of the process waits: as long as a read may take."""


def files_of(uri: str, sizes: Mapping[str, int]) -> PyFileSystem:
    """Files of the table at `uri`, as delta-rs reaches them; `sizes`: path → bytes."""
    return PyFileSystem(_Files(uri, known_sizes=dict(sizes)))


class Gate:
    """Counts the calls under way; closed, it lets none through. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way = 0
        self._closed = False
        self._newest: float | None = None

    @contextmanager
    def passed(self) -> Iterator[None]:
        """One call. Raises `OSError` when it is closed."""
        with self._changed:
            self._newest = time.monotonic()
            if self._closed:
                raise OSError("the process ends, and reads nothing more")
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._newest = time.monotonic()
                self._changed.notify_all()

    def close(self) -> None:
        """Let nothing through any more, and return when nothing tries to."""
        deadline = time.monotonic() + _MOST_S
        with self._changed:
            self._closed = True
            while self._newest is not None and (now := time.monotonic()) < deadline:
                if not self._under_way and now - self._newest >= _QUIET_S:
                    return
                self._changed.wait(_QUIET_S)


_GATE = Gate()
atexit.register(_GATE.close)


class _Files(DeltaStorageHandler):
    def open_input_file(self, path: str) -> pa.PythonFile:
        with _GATE.passed():
            return pa.PythonFile(_File(self._handler.open_input_file(path)), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)


class _File:
    """A file of delta-rs as `pyarrow.PythonFile` calls it."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, size: int) -> Any:
        with _GATE.passed():
            return self._file.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
