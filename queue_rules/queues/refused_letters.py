"""Dead letters that could not be sent: why, since when, and when each is tried again. Pure.

Each record has a pause of its own, so one that its dead-letter topic refuses for good holds up no
other. It stays *dying* until somebody acts, which the group's description and a metric show.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

FIRST_PAUSE_S: Final = 1.0
LAST_PAUSE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """The newest failed attempt at one dead letter, and when the first one was."""

    since: int
    """Microseconds, UTC."""
    why: str
    tries: int
    again_at: float
    """Seconds, boot clock."""


class RefusedLetters:
    """Of one partition, by offset. The caller holds the partition's lock."""

    def __init__(self) -> None:
        self._by_offset: dict[int, Refusal] = {}

    def due(self, offsets: Iterable[int], now_s: float) -> list[int]:
        """Those of `offsets` that may be tried now, in their order."""
        known = self._by_offset
        return [at for at in offsets if at not in known or known[at].again_at <= now_s]

    def refused(self, offsets: Iterable[int], why: str, now: int, now_s: float) -> None:
        """They could not be sent."""
        for offset in offsets:
            before = self._by_offset.get(offset)
            tries = 1 if before is None else before.tries + 1
            pause_s = min(LAST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(tries - 1, 30))
            since = now if before is None else before.since
            self._by_offset[offset] = Refusal(since, why, tries, now_s + pause_s)

    def keep_only(self, dying: Iterable[int]) -> None:
        """The others have been sent."""
        if self._by_offset:
            self._by_offset = {at: self._by_offset[at] for at in dying if at in self._by_offset}

    def __len__(self) -> int:
        return len(self._by_offset)

    @property
    def oldest(self) -> Refusal | None:
        """What waits for longest; None: nothing is refused."""
        return min(self._by_offset.values(), key=lambda one: one.since, default=None)

    @property
    def next_s(self) -> float | None:
        """When the next one is tried again, seconds on the boot clock."""
        return min((one.again_at for one in self._by_offset.values()), default=None)
