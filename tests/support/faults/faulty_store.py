"""A store whose `put_new` fails on demand: before the file lands, after it, or later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from queue_tables.delta.store import Store

Fault = Callable[[Store, str, bytes], None]
"""Called in place of `put_new`; does to the real store what it likes, and raises."""


class FaultyStore:
    """Passes everything to `inner`, and each `put_new` to the next of `faults`, if any is left."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.faults: list[Fault] = []
        self.get_faults: list[Exception] = []
        self.exists_faults: list[Exception] = []
        self.size_faults: list[Exception] = []
        self.opens = 0

    @property
    def uri(self) -> str:
        return self.inner.uri

    @property
    def local_path(self) -> Path | None:
        return self.inner.local_path

    def get(self, path: str) -> bytes:
        self.opens += 1
        if self.get_faults:
            raise self.get_faults.pop(0)
        return self.inner.get(path)

    def put_new(self, path: str, data: bytes) -> None:
        if self.faults:
            self.faults.pop(0)(self.inner, path, data)
        else:
            self.inner.put_new(path, data)

    def put(self, path: str, data: bytes | pa.Buffer) -> None:
        self.inner.put(path, data)

    def replace(self, path: str, was: bytes, data: bytes) -> bool:
        return self.inner.replace(path, was, data)

    def exists(self, path: str) -> bool:
        if self.exists_faults:
            raise self.exists_faults.pop(0)
        return self.inner.exists(path)

    def names(self, prefix: str) -> list[str]:
        return self.inner.names(prefix)

    def sizes(self, prefix: str) -> dict[str, int]:
        return self.inner.sizes(prefix)

    def delete(self, path: str) -> None:
        self.inner.delete(path)

    def remove_folder(self, path: str) -> None:
        self.inner.remove_folder(path)

    def make_durable(self, path: str) -> None:
        self.inner.make_durable(path)

    def size(self, path: str) -> int:
        if self.size_faults:
            raise self.size_faults.pop(0)
        return self.inner.size(path)

    def open(self, path: str) -> str | pa.BufferReader:
        return self.inner.open(path)
