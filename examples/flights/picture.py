"""The picture of a run: how far the records had come at each moment, and who consumed. Pure.

An SVG file, which every browser shows; nothing has to be installed for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, LEFT, RIGHT = 960, 90, 150
TOP, HEIGHT, GAP, BELOW = 80, 260, 70, 150
_COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2")


@dataclass(frozen=True, slots=True)
class Sample:
    """What was counted at one moment."""

    at_s: float
    produced: int
    ordered: int
    delivered: int
    consumers: Mapping[str, int]
    """Consumer → records that it has got so far."""


@dataclass(slots=True)
class Story:
    """A run as it is told: samples, and what happened when."""

    samples: list[Sample] = field(default_factory=list)
    events: list[tuple[float, str]] = field(default_factory=list)


def draw(story: Story, records: int, verdict: str) -> str:
    """The picture: records over time above, records of each consumer below."""
    end_s = max([sample.at_s for sample in story.samples], default=0.0) or 1.0
    x = _Scale(end_s, LEFT, WIDTH - LEFT - RIGHT)
    names = sorted({name for sample in story.samples for name in sample.consumers})
    most = max([n for s in story.samples for n in s.consumers.values()], default=0) or 1
    below = TOP + HEIGHT + GAP
    height = below + BELOW + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(LEFT, 24, f"{records:,} departures through the queue in {end_s:.0f} s", size=16),
        *_axes(TOP, HEIGHT, records, "records"),
        *_axes(below, BELOW, most, "got by each"),
        _text(LEFT, height - 14, verdict),
    ]
    for number, (at_s, what) in enumerate(story.events):
        parts.append(_line(x(at_s), TOP - 8, x(at_s), below + BELOW, "#999", dashed=True))
        # One above the other: a short run has them close together.
        parts.append(_text(x(at_s) + 4, TOP - 12 - 14 * (number % 2), what, size=12))
    y = _Scale(records, TOP + HEIGHT, -HEIGHT)
    for number, name in enumerate(("produced", "ordered", "delivered")):
        points = [(x(s.at_s), y(getattr(s, name))) for s in story.samples]
        parts += _curve(points, name, _COLOURS[number], TOP + 16 * (number + 1))
    y = _Scale(most, below + BELOW, -BELOW)
    for number, name in enumerate(names):
        points = [(x(s.at_s), y(s.consumers[name])) for s in story.samples if name in s.consumers]
        colour = _COLOURS[number % len(_COLOURS)]
        parts += _curve(points, f"consumer {name}", colour, below + 16 * (number + 1))
    parts += [
        _text(x(end_s * n / 4), below + BELOW + 18, f"{end_s * n / 4:.0f} s") for n in range(5)
    ]
    return "\n".join([*parts, "</svg>", ""])


class _Scale:
    """From a value to a place."""

    def __init__(self, most: float, start: float, length: float) -> None:
        self._most, self._start, self._length = most, start, length

    def __call__(self, value: float) -> float:
        return self._start + self._length * min(value / self._most, 1.0)


def _axes(top: float, height: float, most: int, what: str) -> list[str]:
    found = [_text(8, top - 12, what, size=12)]
    for part in (0, 1, 2):
        at = top + height - height * part / 2
        found.append(_line(LEFT, at, WIDTH - RIGHT, at, "#ddd"))
        found.append(_text(8, at + 4, f"{most * part // 2:,}", size=12))
    return found


def _curve(
    points: Sequence[tuple[float, float]], name: str, colour: str, label_y: float
) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        f'<rect x="{WIDTH - RIGHT + 12}" y="{label_y - 9}" '
        f'width="10" height="10" fill="{colour}"/>',
        _text(WIDTH - RIGHT + 28, label_y, name),
    ]


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dash}/>'
    )


def _text(x: float, y: float, text: str, size: int = 13) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="#222">{escape(text)}</text>'
