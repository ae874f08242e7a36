"""Storage that fails and clocks that jump, in running processes, as a file says at each moment.

The file (`SICK_FILE` names it) is JSON; without one everything is well. Who reads it: every process
that was started with `patching.environ("sickness", …)`.

| member | what |
|---|---|
| `full` | share of writes that find no space left |
| `failing` | share of writes that fail before anything has happened |
| `applied` | share of commits that land, and are answered by an error |
| `unreadable` | share of reads that fail: of objects, of what there is of them, of listings |
| `unreadable_within_ms` | such a read hangs for a random time up to this, and fails then |
| `tables` | first parts of the paths that reads fail of; all without it |
| `slow_lists_ms` | how long a listing takes |
| `slow_syncs_ms` | how long names stay visible and not yet durable |
| `only` | names of nodes (`--node`) that it is about; all without it |
| `clock_s` | name of a node → how many seconds its wall clock is off |
"""

from __future__ import annotations

import errno
import json
import os
import random
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.support.faults.patching import Patch

SICK_FILE = "QUEUE_TEST_SICK_FILE"
IN_THE_MIDDLE_S = 0.05
"""A process hears of a change at once, but for what it is in the middle of: that takes less."""


class _Chart:
    """What ails this process now: whatever it does after the file was written knows it."""

    def __init__(self) -> None:
        self._path = Path(os.environ[SICK_FILE])
        self._seen: tuple[int, ...] = ()
        self._said: dict[str, Any] = {}

    def said(self) -> dict[str, Any]:
        try:
            file = self._path.stat()
        except FileNotFoundError:
            self._seen = ()
            return {}
        seen = (file.st_ino, file.st_mtime_ns, file.st_size)
        if seen != self._seen:
            # Of a file that is half written the next look knows more.
            with suppress(ValueError, FileNotFoundError):
                self._said = json.loads(self._path.read_text())
                self._seen = seen
        return self._said

    @staticmethod
    def node() -> str:
        """This process's `--node`; "" in a process that has none."""
        arguments = sys.argv
        return arguments[arguments.index("--node") + 1] if "--node" in arguments else ""

    def strikes(self, what: str) -> bool:
        said = self.said()
        mine = "only" not in said or self.node() in said["only"]
        return mine and random.random() < said.get(what, 0.0)


def _sick_store(store: ModuleType) -> None:
    chart = _Chart()
    write, put_new, names = store._write_synced, store.LocalStore.put_new, store.LocalStore.names
    sync = store._fsync_dir

    def write_synced(path: Path, data: Any, *mode: Any) -> None:
        if chart.strikes("full"):
            # What a full disk leaves: a part of it.
            path.write_bytes(bytes(memoryview(data))[:10])
            raise OSError(errno.ENOSPC, "no space left (made by a test)", str(path))
        if chart.strikes("failing"):
            raise OSError(errno.EIO, "input/output error (made by a test)", str(path))
        write(path, data, *mode)

    def put(self: Any, path: str, data: bytes) -> None:
        put_new(self, path, data)
        if chart.strikes("applied"):
            raise store.StorageUnavailable(f"no answer for {path} (made by a test)")

    def listed(self: Any, prefix: str) -> list[str]:
        wait_s = chart.said().get("slow_lists_ms", 0) / 1_000
        if wait_s:
            threading.Event().wait(wait_s)
        return names(self, prefix)  # type: ignore[no-any-return]

    def fsync_dir(path: Path) -> None:
        wait_s = chart.said().get("slow_syncs_ms", 0) / 1_000
        if wait_s:
            threading.Event().wait(wait_s)
        sync(path)

    vars(store)["_write_synced"] = write_synced
    vars(store)["_fsync_dir"] = fsync_dir
    store.LocalStore.put_new = put
    store.LocalStore.names = listed


_READS = ("get", "open", "exists", "size", "sizes", "names")


def _sick_reads(store: ModuleType) -> None:
    chart = _Chart()

    def sick(read: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        def or_fail(self: Any, path: str) -> Any:
            tables = chart.said().get("tables")
            of_it = tables is None or path.partition("/")[0] in tables
            if of_it and chart.strikes("unreadable"):
                within_s = chart.said().get("unreadable_within_ms", 0) / 1_000
                threading.Event().wait(random.random() * within_s)
                raise store.StorageUnavailable(f"{path} cannot be read (made by a test)")
            return read(self, path)

        return or_fail

    for name in _READS:
        setattr(store.LocalStore, name, sick(getattr(store.LocalStore, name)))


def _sick_clock(clock: ModuleType) -> None:
    chart = _Chart()
    right = clock.wall_micros

    def wall_micros() -> int:
        off_s = chart.said().get("clock_s", {}).get(chart.node(), 0.0)
        return int(right() + off_s * 1_000_000)

    vars(clock)["wall_micros"] = wall_micros
    clock.HybridClock.__init__.__defaults__ = (wall_micros, 0)


PATCHES: dict[str, Sequence[tuple[str, Patch]]] = {
    "sickness": [
        ("queue_tables.delta.store", _sick_store),
        ("queue_tables.delta.store", _sick_reads),
        ("lakequeue.clock", _sick_clock),
    ],
}
