"""A wall clock that a test sets."""

from __future__ import annotations

from dataclasses import dataclass

HOUR = 3_600 * 1_000_000
"""In microseconds."""


@dataclass
class Wall:
    """Goes on by `step` at each look; microseconds since 1970 UTC."""

    now: int
    step: int = 1

    def __call__(self) -> int:
        self.now += self.step
        return self.now
