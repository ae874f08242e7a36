"""What a producer holds until it is acknowledged: one record accumulator a topic, in the order of
sending.

Rules only; time comes in. A record accumulator gives out one batch at a time, so nothing overtakes
a batch that is being retried. Records are put into batches as they come: to hand a batch out, or to
tell whether one is due, no record is looked at again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from lakequeue.client.producing.outgoing import Life, Outgoing
from lakequeue.client.producing.producer_batch import ProducerBatch
from lakequeue.errors import LakequeueError, Overloaded
from lakequeue.wire import MAX_REQUEST_RECORDS


@dataclass(frozen=True, slots=True)
class Limits:
    """When a batch is closed, and how much may wait.

    A request costs a node and the order job more than the records in it, so a producer that sends
    without a pause should send few and large ones. They grow only while records have to wait.
    """

    batch_size: int = 5_000
    batch_bytes: int = 2 << 20
    linger_s: float = 0.005
    max_buffered_bytes: int = 32 << 20


class RecordAccumulator:
    """The records of one topic that wait to be sent."""

    def __init__(
        self,
        topic: str,
        producer_id: str,
        limits: Limits,
        next_sequence: int = 0,
        run: str | None = None,
    ) -> None:
        """`run` stands in generated ids: what names one life of a producer whose name stays."""
        self.topic = topic
        self.closed = False
        self.flushing = False
        self.telling = threading.Lock()
        """Held while the application is told of its records: parts of a batch end side by side."""
        self.life = (
            Life(producer_id) if run is None else Life(f"{producer_id}:{run}", says_ids=True)
        )
        self._most = min(limits.batch_size, MAX_REQUEST_RECORDS)
        self._most_bytes = limits.batch_bytes
        self._linger_s = limits.linger_s
        self._waiting: deque[ProducerBatch] = deque()
        """The last of them takes the next record, if it has room."""
        self._next_sequence = next_sequence

    def __len__(self) -> int:
        return sum(len(batch.records) for batch in self._waiting)

    @property
    def has_records(self) -> bool:
        """Something waits to be sent."""
        return bool(self._waiting)

    def add(self, record: Outgoing, now: float) -> bool:
        """Queue `record`, which gets its sequence number. True when a waiting sender has a reason
        to look: it is the first, or a batch is full now."""
        record.sequence = self._next_sequence
        record.life = self.life
        self._next_sequence += 1
        size = record.size + 1
        waiting = self._waiting
        if waiting:
            last = waiting[-1]
            if len(last.records) < self._most and last.size + size <= self._most_bytes:
                last.records.append(record)
                last.size += size
                return self._is_full(last)
        waiting.append(ProducerBatch(self.topic, [record], now, size))
        return len(waiting) <= 2 or self._is_full(waiting[-1])

    def _is_full(self, batch: ProducerBatch) -> bool:
        return len(batch.records) >= self._most or batch.size >= self._most_bytes

    def due_in(self, now: float) -> float | None:
        """Seconds until a batch may go; 0 when one may go now; None when nothing waits."""
        waiting = self._waiting
        if not waiting:
            return None
        if self.flushing or self.closed or len(waiting) > 1 or self._is_full(waiting[0]):
            return 0.0
        return max(0.0, waiting[0].opened_at + self._linger_s - now)

    def ready(self, now: float) -> bool:
        """A batch may go, or there will never be another one."""
        return self.due_in(now) == 0.0 or self.closed

    def take(self) -> ProducerBatch:
        """The next batch: consecutive records within the limits, at least one."""
        return self._waiting.popleft()


class Ledger:
    """Every record of a producer from `send` until it is settled, and those that were given up."""

    def __init__(self, limits: Limits) -> None:
        self.most_bytes = limits.max_buffered_bytes
        self._pending: dict[Outgoing, int] = {}
        """Record → its number, in the order of sending."""
        self.opened = 0
        """Number of the newest record."""
        self._failed: deque[Outgoing] = deque()
        self._failed_bytes = 0
        self.bytes = 0
        self.first_error: LakequeueError | None = None

    def __len__(self) -> int:
        return len(self._pending)

    def has_room(self, size: int) -> bool:
        """`size` more bytes are within the bound; an empty ledger takes any one record."""
        return self.bytes + size <= self.most_bytes or not self._pending

    def no_room(self) -> Overloaded:
        """The error of a `send` that waited in vain."""
        return Overloaded(
            f"{self.bytes} bytes wait to be acknowledged, at most {self.most_bytes}",
            hint="send more slowly, or raise max_buffered_bytes",
            stored="no",
        )

    def open(self, record: Outgoing) -> None:
        """`record` is on its way."""
        self.opened += 1
        self._pending[record] = self.opened
        self.bytes += record.size

    def is_settled(self, number: int) -> bool:
        """Every record up to `number` is acknowledged or given up."""
        return next(iter(self._pending.values()), self.opened + 1) > number

    def pending(self, number: int) -> int:
        """How many records up to `number` are still on their way."""
        return sum(n <= number for n in self._pending.values())

    @property
    def on_their_way(self) -> list[Outgoing]:
        """Neither acknowledged nor given up, in the order of sending."""
        return list(self._pending)

    def settle(self, records: Sequence[Outgoing], error: LakequeueError | None) -> None:
        """`records` are acknowledged, or given up with `error`."""
        pending = self._pending
        for record in records:
            del pending[record]
        self.bytes -= sum([record.size for record in records])
        if error is None:
            return
        self.first_error = self.first_error or error
        for record in records:
            record.error = error
            self._failed.append(record)
            self._failed_bytes += record.size
        # Bounded like the buffer: a producer that nobody asks must not grow for ever.
        while self._failed_bytes > self.most_bytes and len(self._failed) > 1:
            self._failed_bytes -= self._failed.popleft().size

    def unacked(self) -> list[Outgoing]:
        """Given up first, then those still on their way, in the order of sending."""
        return [*self._failed, *(record.copy() for record in self._pending)]
