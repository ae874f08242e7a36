"""Histories: what every process of a test saw, one JSON line an event, for the checker to judge.

An event names its process, its moment (`t_ns`, CLOCK_MONOTONIC: one machine, one clock), its kind
and its outcome. `info` is an unknown outcome and is judged as "maybe". A line is handed to the
kernel before the event counts as done, so a process killed with SIGKILL loses none of them.

Events (`f`):
  send      invoke / ok / fail / info   topic, part, key, value (unique), offset (if waited for)
  receive   ok                          topic, part, offset, key, value, group, epoch (queue
                                        groups: attempt, wall)
  ack       invoke / ok / fail / info   topic, part, offset (the next one to deliver), group, epoch
  nack      invoke / ok / fail / info   as ack, with due (µs, wall clock) when it ended ok
  read      ok                          topic, part, offset, value: the final read of the tables
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

Outcome = Literal["invoke", "ok", "fail", "info"]


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a history; fields that do not apply are left at their defaults."""

    f: str
    type: Outcome
    t_ns: int = 0
    proc: str = ""
    topic: str = ""
    part: int = -1
    offset: int = -1
    key: str | None = None
    value: str | None = None
    group: str | None = None
    epoch: int = -1
    attempt: int = -1
    """Queue groups."""
    wall: int = 0
    """Queue groups: wall clock at a receive, µs."""
    due: int | None = None
    """Queue groups: when a nacked record is due again, µs."""


class Recorder:
    """Appends events of one process to a file."""

    def __init__(self, path: Path, proc: str) -> None:
        self._file = path.open("ab", buffering=0)
        self._proc = proc

    def write(self, events: Iterable[Event]) -> None:
        """Record `events`, stamped with now and this process, in one write."""
        now = time.monotonic_ns()
        lines = []
        for event in events:
            fields = asdict(event) | {"t_ns": event.t_ns or now, "proc": self._proc}
            lines.append(json.dumps({k: v for k, v in fields.items() if v is not None}))
        if lines:
            self._file.write(("\n".join(lines) + "\n").encode())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def load(paths: Iterable[Path]) -> list[Event]:
    """All events of the given files, in the order of time."""
    return sorted((e for path in paths for e in _lines(path)), key=lambda e: e.t_ns)


def _lines(path: Path) -> Iterator[Event]:
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):  # a torn last line was never acted on
            yield Event(**json.loads(line))
