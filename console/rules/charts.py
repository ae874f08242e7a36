"""A chart as inline SVG with a text that says the same. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 320, 64
_GAP = 3.0
"""If points are so many times further apart than usual, the line is broken there."""


@dataclass(frozen=True, slots=True)
class Chart:
    """What a template draws."""

    name: str
    unit: str
    now: str
    most: str
    lines: tuple[str, ...]
    """`points` of polylines."""
    areas: tuple[str, ...]
    text: str
    """For whoever does not see it."""


def chart(
    name: str, unit: str, points: Sequence[tuple[float, float | None]], since: float, until: float
) -> Chart:
    """`points`: (time, value); None breaks the line."""
    known = [value for _, value in points if value is not None]
    top = max(known, default=0.0)
    scale = top or 1.0
    span = max(1.0, until - since)
    parts: list[list[tuple[float, float]]] = [[]]
    usual = _usual(points)
    last = None
    for at, value in points:
        if value is None or (last is not None and at - last > _GAP * usual):
            parts.append([])
        if value is not None:
            x = (at - since) / span * WIDTH
            parts[-1].append((x, HEIGHT - 2 - value / scale * (HEIGHT - 6)))
            last = at
    drawn = [
        part if len(part) > 1 else [*part, (part[0][0] + 1.5, part[0][1])] for part in parts if part
    ]
    now = known[-1] if known and points[-1][1] is not None else None
    return Chart(
        name,
        unit,
        "–" if now is None else short(now),
        short(top),
        tuple(" ".join(f"{x:.1f},{y:.1f}" for x, y in part) for part in drawn),
        tuple(
            f"{part[0][0]:.1f},{HEIGHT} "
            + " ".join(f"{x:.1f},{y:.1f}" for x, y in part)
            + f" {part[-1][0]:.1f},{HEIGHT}"
            for part in drawn
        ),
        _text(name, unit, known, now),
    )


def _usual(points: Sequence[tuple[float, float | None]]) -> float:
    apart = sorted(b[0] - a[0] for a, b in pairwise(points))
    return apart[len(apart) // 2] if apart else 1.0


def _text(name: str, unit: str, known: Sequence[float], now: float | None) -> str:
    if not known:
        return f"{name}: nothing is known of the last hour yet"
    middle = sum(known) / len(known)
    said = "not known now" if now is None else f"now {short(now)}"
    return f"{name}: {said}, on average {short(middle)}, at most {short(max(known))} {unit}"


def short(value: float | None) -> str:
    """A number in few characters: 950, 1.2 k, 34 M."""
    if value is None:
        return "–"
    for limit, divisor, suffix in (
        (1e4, 1, ""),
        (1e6, 1e3, " k"),
        (1e9, 1e6, " M"),
        (1e12, 1e9, " G"),
    ):
        if abs(value) < limit:
            number = value / divisor
            digits = 1 if abs(number) < 100 and not float(number).is_integer() else 0
            return f"{number:.{digits}f}{suffix}"
    return f"{value:.2g}"
