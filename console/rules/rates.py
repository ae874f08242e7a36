"""From counters that only rise to rates: what came in, was ordered and went out. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

KEPT_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Point:
    """How things went up to one moment."""

    at: float
    """Unix time."""
    rates: Mapping[str, float | None]
    """Records a second, by name; None: not known."""
    levels: Mapping[str, float | None]
    """Records that wait, by name."""


class Lags:
    """The lag of each group over the last hour, a point every half minute."""

    EVERY_S = 30.0

    def __init__(self) -> None:
        self._points: dict[str, deque[tuple[float, float | None]]] = {}
        self._at = 0.0

    def add(self, at: float, lags: Mapping[str, float]) -> None:
        """`lags`: of every group there is; those that are gone are forgotten."""
        if at - self._at < self.EVERY_S:
            return
        self._at = at
        for gone in self._points.keys() - lags.keys():
            del self._points[gone]
        for group, lag in lags.items():
            points = self._points.setdefault(group, deque(maxlen=int(KEPT_S / self.EVERY_S)))
            points.append((at, lag))

    def of(self, group: str) -> list[tuple[float, float | None]]:
        """(time, lag) of one group."""
        return list(self._points.get(group, ()))


class History:
    """The points of the last hour. Counters come by process: one that starts again begins at 0."""

    def __init__(self, every_s: float = 5.0) -> None:
        self.points: deque[Point] = deque(maxlen=int(KEPT_S / every_s))
        self._last: tuple[float, Mapping[str, Mapping[str, float]]] | None = None

    def add(
        self,
        at: float,
        counters: Mapping[str, Mapping[str, float]],
        levels: Mapping[str, float | None],
    ) -> None:
        """`counters`: by name, of each process by its address."""
        if self._last is not None and at - self._last[0] < 0.5:
            return
        if self._last is not None:
            before, seconds = self._last[1], at - self._last[0]
            rates = {
                name: _rate(before.get(name, {}), counters[name], seconds) for name in counters
            }
            self.points.append(Point(at, rates, dict(levels)))
        self._last = (at, {name: dict(each) for name, each in counters.items()})

    def since(self, at: float) -> list[Point]:
        """The points from then on."""
        return [point for point in self.points if point.at >= at]

    @property
    def newest(self) -> Point | None:
        """The last one."""
        return self.points[-1] if self.points else None


def _rate(before: Mapping[str, float], now: Mapping[str, float], seconds: float) -> float | None:
    """None: no process could be asked both times."""
    moved = [*_moved(before, now)]
    return sum(moved) / seconds if moved and seconds > 0 else None


def _moved(before: Mapping[str, float], now: Mapping[str, float]) -> Iterator[float]:
    for process, count in now.items():
        if process in before:
            was = before[process]
            yield count - was if count >= was else count
