"""What the demo shows while it runs: progress, and partitions with offsets, lag and owners."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from lakequeue.wire import GroupDescription


@dataclass(frozen=True, slots=True)
class Counts:
    """How far the records have come: none is delivered that is not ordered and produced."""

    produced: int = 0
    ordered: int = 0
    delivered: int = 0

    @classmethod
    def of(cls, acknowledged: int, ordered: int, received: int) -> Counts:
        """From counts that were taken one after the other, while records went on.

        A record is ordered before its producer has read the answer, and a consumer may get it
        before its partition is asked for its end. It was produced, and ordered, all the same.
        """
        ordered = max(ordered, received)
        return cls(max(acknowledged, ordered), ordered, received)


class Screen:
    """A live view on a terminal; a line every few seconds elsewhere."""

    _LINE_EVERY_S = 5.0

    def __init__(self, records: int) -> None:
        self._console = Console()
        self._records = records
        self._bars = Progress(
            TextColumn("{task.description:>10}"), BarColumn(50), MofNCompleteColumn()
        )
        self._tasks = {
            name: self._bars.add_task(name, total=records)
            for name in ("produced", "ordered", "delivered")
        }
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._last_line = 0.0

    def __enter__(self) -> Screen:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)
        sys.stdout.flush()

    def show(self, counts: Counts, group: GroupDescription | None) -> None:
        """Draw the newest state."""
        if self._console.is_terminal:
            for name, task in self._tasks.items():
                self._bars.update(task, completed=getattr(counts, name))
            self._live.update(Group(self._bars, _partitions(group)), refresh=True)
        elif time.monotonic() - self._last_line > self._LINE_EVERY_S:
            self._last_line = time.monotonic()
            self.say(
                f"produced {counts.produced:,}  ordered {counts.ordered:,}  "
                f"delivered {counts.delivered:,}  of {self._records:,}"
            )


def _partitions(group: GroupDescription | None) -> Table:
    table = Table("partition", "committed", "end", "lag", "epoch", "owner")
    for p in group.partitions if group else ():
        cells = (p.partition, p.committed_offset, p.end_offset, p.lag, p.epoch, p.owner)
        table.add_row(*("-" if cell is None else str(cell) for cell in cells))
    return table
