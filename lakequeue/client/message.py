"""A record as a consumer hands it to the application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakequeue.client.record import Record
from lakequeue.wire import parse_receipt


class Message(Record):
    """One delivered record. Acknowledge it with `ack()` when its effects are done."""

    __slots__ = ("_ack", "epoch", "term")

    def __init__(
        self,
        raw: dict[str, Any],
        epoch: int | None,
        term: int,
        ack: Callable[[Message, bool], None],
    ) -> None:
        super().__init__(raw)
        self.epoch = epoch
        """Epoch of the lease that it was delivered under."""
        self.term = term
        """Counts how often this consumer has joined."""
        self._ack = ack

    @property
    def topic_id(self) -> str:
        """Id of this incarnation of the topic."""
        return parse_receipt(self.receipt)[0]

    @property
    def attempt(self) -> int:
        """1 at the first delivery (queue groups count on)."""
        return int(self._raw.get("attempt", 1))

    @property
    def receipt(self) -> str:
        """What the service knows this delivery by."""
        return str(self._raw["receipt"])

    def ack(self, *, commit_through: bool = False) -> None:
        """Done with it: it, and what is before it, is not delivered to this group again.

        Sent in the background; `Consumer.commit()` waits until it is durable. Raises
        `SkippedRecords` when an earlier record of the partition is not acknowledged, unless
        `commit_through`.
        """
        self._ack(self, commit_through)
