"""What `make failover` measures and shows: pauses per partition, and who took over."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

_LINE_EVERY_S = 5.0


@dataclass
class Strike:
    """One death, and what came of it. Seconds from the kill on."""

    what: str
    victim: str
    limit_s: float
    """Longest pause of a partition that is allowed; for an ingest node: of an acknowledgement."""
    by: str | None = None
    took_s: float | None = None
    """Until somebody else had taken over."""
    stopped_s: float | None = None
    """Longest time for which a partition delivered nothing."""
    ack_s: float | None = None
    """Longest time that a producer waited for an acknowledgement."""

    @property
    def measured_s(self) -> float | None:
        """What the limit is about."""
        return self.ack_s if self.victim.startswith("ingest") else self.stopped_s

    @property
    def in_time(self) -> bool:
        """Within the limit."""
        return self.measured_s is not None and self.measured_s <= self.limit_s

    @property
    def cells(self) -> tuple[str, ...]:
        """A row of the table."""

        def seconds(value: float | None) -> str:
            return "…" if value is None else f"{value:.1f} s"

        return (
            f"{self.what} ({self.victim})",
            self.by or "…",
            seconds(self.took_s),
            seconds(self.stopped_s),
            seconds(self.ack_s),
            f"{self.limit_s:g} s",
        )

    @property
    def line(self) -> str:
        """The same as a sentence."""
        what, by, took, stopped, ack, limit = self.cells
        return (
            f"{what}: {by} took over after {took}; longest pause of a partition {stopped}, "
            f"of an acknowledgement {ack} (limit {limit}: {'kept' if self.in_time else 'MISSED'})"
        )


@dataclass
class Pauses:
    """Reads the clients' histories as they grow. Times are those of the events, one clock."""

    folder: Path
    longest_s: float = 0.0
    """Between two deliveries of one partition, since `begin`."""
    longest_ack_s: float = 0.0
    sent: int = 0
    received: int = 0
    _at: dict[Path, int] = field(default_factory=dict)
    _last: dict[int, int] = field(default_factory=dict)
    _open: dict[str, int] = field(default_factory=dict)
    _anew: set[int] = field(default_factory=set)

    def begin(self) -> None:
        """Measure from here on."""
        self.read()
        self.longest_s = self.longest_ack_s = 0.0
        now = time.monotonic_ns()
        # What was on its way before counts from now: else a pause before the kill would.
        self._last = dict.fromkeys(self._last, now)
        self._open = dict.fromkeys(self._open, now)

    def all_anew(self) -> None:
        """`all_moved` is about deliveries from now on."""
        self._anew.clear()

    def all_moved(self, partitions: int) -> bool:
        """Whether every partition has delivered since `all_anew`."""
        return len(self._anew) == partitions

    def read(self) -> None:
        """Take in what was written since the last time."""
        for path in self.folder.glob("*.jsonl"):
            with path.open("rb") as file:
                file.seek(self._at.get(path, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._at[path] = self._at.get(path, 0) + len(whole)
            for line in whole.splitlines():
                self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        at = int(event["t_ns"])
        if event["f"] == "receive":
            part = int(event["part"])
            self.received += 1
            self.longest_s = max(self.longest_s, (at - self._last.get(part, at)) / 1e9)
            self._last[part] = max(at, self._last.get(part, at))
            self._anew.add(part)
        elif event["f"] == "send" and event.get("type") == "invoke":
            self._open[event["value"]] = at
        elif event["f"] == "send":
            self.sent += 1
            waited = (at - self._open.pop(event["value"], at)) / 1e9
            self.longest_ack_s = max(self.longest_ack_s, waited)


class View:
    """A live table on a terminal; a line now and then elsewhere."""

    def __init__(self) -> None:
        self._console = Console()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._next_line = 0.0

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, pauses: Pauses, strikes: list[Strike]) -> None:
        """Draw the newest state."""
        counts = f"{pauses.sent:,} acknowledged, {pauses.received:,} delivered"
        if self._console.is_terminal:
            table = Table("killed", "taken over by", "after", "paused", "ack waited", "limit")
            for strike in strikes:
                table.add_row(*strike.cells)
            self._live.update(Group(Text(counts), table), refresh=True)
        elif time.monotonic() > self._next_line:
            self._next_line = time.monotonic() + _LINE_EVERY_S
            killed = f"; killed: {strikes[-1].cells[0]}" if strikes else ""
            self._console.print(f"{counts}{killed}", highlight=False)
