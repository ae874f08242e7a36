"""Figures of several rounds: their spread, their ratio to the machine's speed, their targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, NamedTuple

Round = dict[str, Any]
"""What one round has found."""


class Spread(NamedTuple):
    """The middle of several rounds, and their ends."""

    median: float
    least: float
    most: float

    def shown(self, digits: int = 0) -> str:
        """`123 (118–131)`; without the ends if there was one round."""
        middle, least, most = (f"{value:,.{digits}f}" for value in self)
        return middle if least == most else f"{middle} ({least}–{most})"


def spread(values: Sequence[float]) -> Spread:
    """Of at least one value."""
    return Spread(median(values), min(values), max(values))


@dataclass(frozen=True)
class Figure:
    """One number of a line."""

    of: Callable[[Round], float]
    unit: str
    label: str = ""
    kind: Literal["time", "rate", "size"] = "size"
    digits: int = 0
    at_most: float | None = None
    at_least: float | None = None

    def missed(self, found: Spread) -> bool:
        """Whether the median misses the target."""
        above = self.at_most is not None and found.median > self.at_most
        return above or (self.at_least is not None and found.median < self.at_least)

    def target(self) -> str:
        """In words; empty if there is none."""
        if self.at_most is not None:
            return self._named(f"≤ {self.at_most:,g} {self.unit}")
        if self.at_least is not None:
            return self._named(f"≥ {self.at_least:,g} {self.unit}")
        return ""

    def found(self, found: Spread) -> str:
        """The number with its spread."""
        return self._named(f"{found.shown(self.digits)} {self.unit}")

    def per_loop(self, found: Spread, loop_s: float) -> str:
        """What a machine of any speed can be compared by; see `bench.machine.Speed`."""
        if self.kind == "time":
            seconds = found.median / (1_000 if self.unit == "ms" else 1)
            return self._named(f"{_short(seconds / loop_s)} loops")
        if self.kind == "rate":
            return self._named(
                f"{_short(found.median * loop_s)} {self.unit.removesuffix('/s')} a loop"
            )
        return ""

    def _named(self, text: str) -> str:
        return f"{self.label} {text}".strip()


def _short(value: float) -> str:
    """Two digits, or all before the point."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


class Line(NamedTuple):
    """One line of the table: a measure and its figures."""

    name: str
    figures: tuple[Figure, ...]

    def cells(self, rounds: Sequence[Round], loop_s: float) -> tuple[str, str, str, str]:
        """Name, found, in loops, target."""
        spreads = [spread([figure.of(one) for one in rounds]) for figure in self.figures]
        pairs = list(zip(self.figures, spreads, strict=True))
        target = ", ".join(text for figure in self.figures if (text := figure.target()))
        if any(figure.missed(found) for figure, found in pairs):
            target = f"**missed**: {target}"
        return (
            self.name,
            ", ".join(figure.found(found) for figure, found in pairs),
            ", ".join(text for f, found in pairs if (text := f.per_loop(found, loop_s))) or "–",
            target or "–",
        )


def table(lines: Sequence[Line], rounds: Sequence[Round], loop_s: float) -> list[str]:
    """Markdown."""
    middle = "found" if len(rounds) == 1 else f"median of {len(rounds)} rounds (least–most)"
    head = [f"| measure | {middle} | in loops | target |", "|---|---|---|---|"]
    return head + [f"| {' | '.join(line.cells(rounds, loop_s))} |" for line in lines]


def rows_of(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A plain table in Markdown, and the empty line after it."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]
