"""How long to wait before a child that ended is started again: a rule without I/O."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Backoff:
    """Doubling waits, which start over after the child has run for `stable_s`."""

    first_s: float = 0.5
    longest_s: float = 30.0
    stable_s: float = 30.0
    _failures: int = 0

    @property
    def failures(self) -> int:
        """How many times in a row the child ended before it was stable."""
        return self._failures

    def delay_s(self, ran_s: float) -> float:
        """The wait before the next start of a child that has just ended after `ran_s` seconds."""
        if ran_s >= self.stable_s:
            self._failures = 0
        delay = min(self.longest_s, self.first_s * 2.0 ** min(self._failures, 64))
        self._failures += 1
        return delay
