"""How far apart batches begin: close while little comes in, farther apart while much does. Pure.

A batch costs Spark and the driver some 15 ms of processor time, however many records it has. While
few records come, a core has that to spare, and they are soon in `log`. While so many come that
processors are busy with records, the same cost is taken from them.
"""

from __future__ import annotations

from dataclasses import dataclass

MUCH_A_S = 40_000_000
"""Above this rate batches get larger: bytes a second, counted as in `began`. It is 20,000 records
of 1 kB, or 36,000 of 100 bytes: a fifth to a third of a core, of the order job alone."""
RECORD_BYTES = 1_000
"""What a record costs beside its bytes, in bytes."""


@dataclass
class BatchPace:
    """When the next batch may begin. Times in seconds, of one clock."""

    least_s: float
    """Two batches begin at least this far apart."""
    most_s: float
    """And this far, if much comes in."""
    most_bytes: int
    """Limit of record bytes in one batch."""
    _next_at: float = 0.0

    def began(self, now: float, rows: int, record_bytes: int, pending_rows: int = 0) -> None:
        """A batch of so many records begins; so many more are waiting already."""
        apart_s = (record_bytes + rows * RECORD_BYTES) / MUCH_A_S
        if pending_rows > rows or record_bytes * 2 > self.most_bytes:
            # What waits is more than a batch may have: waiting would not make it larger.
            apart_s = 0.0
        self._next_at = now + max(self.least_s, min(self.most_s, apart_s))

    def left_s(self, now: float) -> float:
        """How long no batch may begin; 0 if one may."""
        return max(0.0, self._next_at - now)
