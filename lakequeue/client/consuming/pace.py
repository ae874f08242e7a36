"""How far a worker fetches ahead: what it works through in a moment. Pure.

What one worker has fetched ahead, others wait for. So it starts with one record, fetches more only
when the application turns out to be quick, and nothing behind a record whose work takes longer.
"""

from __future__ import annotations

from typing import Final

AHEAD_S: Final = 0.5
"""Work that may lie ahead."""
_WEIGHT: Final = 0.5
"""Of the newest record in the mean."""


class Pace:
    """Seconds that the application works on a record. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._mean_s: float | None = None
        self._handed_at: float | None = None

    def asked(self, now: float) -> None:
        """The application asks for a record: it is done with the one before."""
        if self._handed_at is None:
            return
        took_s = now - self._handed_at
        self._handed_at = None
        mean_s = took_s if self._mean_s is None else self._mean_s
        self._mean_s = _WEIGHT * took_s + (1 - _WEIGHT) * mean_s

    def handed(self, now: float) -> None:
        """It has got one."""
        self._handed_at = now

    def most_ahead(self, limit: int, now: float) -> int:
        """Records to have ready, at most. 0: another worker may have what comes next."""
        # Whoever asks for a record has no work: that one is not ahead.
        least = 1 if self._handed_at is None else 0
        if self._mean_s is None:
            return least
        mean_s = self._mean_s
        if self._handed_at is not None:
            # It is still at work: so it takes as long, at least.
            mean_s = max(mean_s, _WEIGHT * (now - self._handed_at))
        return max(least, min(limit, int(AHEAD_S / mean_s) if mean_s > 0 else limit))
