"""Histories: what every process of a test saw, one JSON line an event, for the checker to judge.

An event names its process, its moment (`t_ns`, CLOCK_MONOTONIC: one machine, one clock), what was
done (`f`), and how it ended (`type`): `invoke`, then `ok`, `fail` or `info`. `info` is an unknown
outcome and is judged as "maybe", as is an invoke that nothing follows. A line is handed to the
kernel before the event counts as done, so a process killed with SIGKILL loses none of them.

| `f` | what | fields beside `t_ns`, `proc`, `type` |
|---|---|---|
| `send` | a record is sent | topic, part, key, value (unique), `dedup_id` (by default the value), `batch` (an atomic request), `not_before` and `expires_at` of the record; `ok`: offset and `delta_version` if it was waited for, `duplicate` |
| `poll` | a fetch | group, poll |
| `receive` | a record is delivered | topic, part, offset, key, value, group, `lease_epoch`, `poll`; queue groups: `deliver_count`, `receipt`, wall, `expires_at` of the lease; in a transaction: batch |
| `commit_offset` | stream groups: a position is committed | topic, part, offset (the next one to deliver), group, `lease_epoch` |
| `ack`, `nack`, `extend` | queue groups: a delivery is settled | topic, part, offset, group, `deliver_count`, wall; `ok`: `not_before` of a nack, `expires_at` of an extend |
| `leave` | a member goes, or is gone without a word | group |
| `seek`, `erase`, `redrive`, `restore` | what an operator does | topic, part, offset, value, group |
| `read` | final read of the tables; proc is the reader | topic, `topic_id`, part, offset, value, `dedup_id`, `delta_version` that brought it |
| `first` | the first offset that retention left of a partition | topic, part, offset |
| `dead`, `expired`, `reject` | final drain of the dead, the expired, the refused | topic, part, offset (of the original), value, group, `deliver_count` |
| `snapshot_read` | a reader looks at a partition | topic, part, `delta_version`, offset (the end), value (a digest of what is there) |
| `replica_read` | final read of a replica | proc, topic, part, offset, value |
| `position` | final read of a group's table | topic, part, offset, group |
| `effect` | final read of a result table | group, topic, part, offset |
| `sink` | a commit of a result table | group, topic, part, offset, until, `delta_version` |
| `commit` | final read of a `_delta_log` | topic (the table), `delta_version`, added (new records), removed (files), batch (its own `txn`) |
| `clock` | a node's wall clock is off, from the invoke to the `ok` | – |
| `crash`, `heal` | the nemesis ends a process; ends a fault | – |
"""  # noqa: E501 -- rows of a table

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

Outcome = Literal["invoke", "ok", "fail", "info"]


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a history; fields that do not apply are left at their defaults."""

    f: str
    type: Outcome = "ok"
    t_ns: int = 0
    proc: str = ""
    topic: str = ""
    part: int = -1
    offset: int = -1
    key: str | None = None
    value: str | None = None
    group: str | None = None
    lease_epoch: int = -1
    deliver_count: int = -1
    """The attempt."""
    receipt: str | None = None
    wall: int = 0
    """Wall clock, µs: what deadlines are compared with."""
    not_before: int | None = None
    """µs, wall clock: due again (nack), or to be delivered at all (send)."""
    expires_at: int | None = None
    """µs, wall clock: end of a lease, or of a record."""
    dedup_id: str | None = None
    duplicate: bool = False
    """The answer said that it was there already."""
    batch: str | None = None
    """An atomic request or transaction."""
    poll: int = -1
    """Number of the fetch within its process."""
    topic_id: str | None = None
    """Incarnation of the topic."""
    delta_version: int = -1
    until: int = -1
    """End of a range that begins at `offset`."""
    added: int = 0
    removed: int = 0


_DEFAULTS = {f.name: f.default for f in fields(Event)}


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
            said = asdict(event) | {"t_ns": event.t_ns or now, "proc": event.proc or self._proc}
            lines.append(json.dumps({k: v for k, v in said.items() if v != _DEFAULTS[k]}))
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
