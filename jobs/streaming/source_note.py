"""What a source's process tells of itself: a small local file, which the driver reads when asked.

The source plans batches in a process of its own, so what it asks of the storage, and what it sees
waiting, is known there alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from lakequeue.clock import boot_seconds
from lakequeue.records import ShardName
from queue_tables.delta.storage_meter import METER, Usage

EVERY_S = 1.0
_NONE: Mapping[ShardName, str] = MappingProxyType({})


@dataclass(frozen=True)
class SourceStatus:
    """One note."""

    pending: int = 0
    """Records seen and not admitted to a batch."""
    usage: Usage = field(default_factory=Usage)
    stuck: dict[str, str] = field(default_factory=dict)
    """Shards that cannot be read, and why: all others go on."""


class SourceNote:
    """The file of one start of a query. Written by the source, read by the driver."""

    def __init__(
        self, folder: Path, query: str, attempt: int, clock: Callable[[], float] = boot_seconds
    ) -> None:
        self._path = folder / f"{query}-{attempt}-source.json"
        self._clock = clock
        self._written_at = float("-inf")

    def write(self, pending: int, stuck: Mapping[ShardName, str] = _NONE) -> None:
        """Tell of now; not more often than every `EVERY_S`."""
        now = self._clock()
        if now - self._written_at < EVERY_S:
            return
        self._written_at = now
        temp = self._path.with_suffix(".tmp")
        temp.write_text(
            json.dumps(
                asdict(
                    SourceStatus(
                        pending, METER.snapshot(), {str(shard): why for shard, why in stuck.items()}
                    )
                )
            )
        )
        temp.rename(self._path)

    def read(self) -> SourceStatus:
        """The newest note; zeros before the first."""
        try:
            body = json.loads(self._path.read_text())
        except FileNotFoundError:
            return SourceStatus()
        return SourceStatus(body["pending"], Usage(**body["usage"]), body["stuck"])


class SourceNotes:
    """The notes of all starts of a query, as its driver reads them, one start after the other.

    A new start counts from 0; what is told goes on, as a counter must.
    """

    def __init__(self, folder: Path, query: str) -> None:
        self._folder = folder
        self._query = query
        self._before = Usage()
        self._note = SourceNote(folder, query, 0)

    def begin(self, attempt: int) -> None:
        """A start of this number; the one before has ended."""
        if attempt:
            self._before = self._before.plus(self._note.read().usage)
        self._note = SourceNote(self._folder, self._query, attempt)

    def read(self) -> SourceStatus:
        """What waits now, and what was asked of the storage in all starts."""
        newest = self._note.read()
        return replace(newest, usage=self._before.plus(newest.usage))
