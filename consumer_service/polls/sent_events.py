"""What left to a worker as server-sent events, so that what did not arrive can be given back.

A write that succeeds says nothing: the events may lie in a buffer of a dead connection. The client
says, when it reconnects, which one was the last that it got.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.polls.poll_batch import QueuePollResult

START = "start"
"""Id of the beginning of a stream: whoever sends it has got no record."""


class _Sent(NamedTuple):
    event: str
    delivery: tuple[OwnedPartition, int, tuple[int, int]] | None
    """(partition, epoch, (offset, attempt)); None: marks the beginning of a stream."""


class SentEvents:
    """The newest events of one worker, in the order in which they left. Not thread-safe.

    `most`: what a worker may hold. What did not arrive is not acked, so no more can have been lost.
    """

    def __init__(self, most: int) -> None:
        self._sent: deque[_Sent] = deque(maxlen=most + 1)
        self._news: Callable[[], object] = lambda: None

    def add(self, delivered: QueuePollResult) -> None:
        """These leave now."""
        if not delivered.records:
            return
        self._news = delivered.news
        deliveries = [
            (owned, epoch, attempt)
            for owned, epoch, attempts in delivered.taken
            for attempt in attempts
        ]
        for record, delivery in zip(delivered.records, deliveries, strict=True):
            self._sent.append(_Sent(record["receipt"], delivery))

    def begin(self, last: str | None) -> QueuePollResult:
        """A stream begins, whose client got `last` last; what it did not get, to be taken back.

        Nothing, if that event is not remembered, or the client names none (it may have got all of
        another connection): their visibility timeout brings them again.
        """
        lost: list[tuple[OwnedPartition, int, list[tuple[int, int]]]] = []
        while last is not None and self._sent:
            sent = self._sent[-1]
            if sent.event == last:
                return QueuePollResult(taken=lost[::-1], news=self._news)
            if sent.delivery is not None:
                owned, epoch, attempt = sent.delivery
                lost.append((owned, epoch, [attempt]))
            self._sent.pop()
        self._sent.clear()
        self._sent.append(_Sent(last or START, None))
        return QueuePollResult()
