"""What a node does as a client of the queue: what it is about may be at other nodes.

A service does not know its own client. Whoever makes the process hands one in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from coordination.groups.webhooks import Webhook
from lakequeue.wire import RedriveAnswer, RedriveRequest


class Record(Protocol):
    """A record that was delivered to a worker."""

    @property
    def topic(self) -> str:
        """Its topic."""

    @property
    def partition(self) -> int:
        """Its partition."""

    @property
    def offset(self) -> int:
        """Its offset."""

    @property
    def attempt(self) -> int | None:
        """Which delivery this is."""

    def document(self) -> dict[str, Any]:
        """The record as JSON has it."""

    def ack(self) -> None:
        """It is done with."""

    def nack(self, delay_s: float | None = None) -> None:
        """It is not done with: deliver it again."""


class Worker(Protocol):
    """A worker of a queue group, wherever its partitions are."""

    def poll(self, timeout_s: float, max_records: int) -> Sequence[Record]:
        """What comes within that time."""

    def close(self) -> None:
        """Give back what is not settled, and leave."""


Redrive = Callable[
    [str, RedriveRequest, Sequence[str], str, Callable[[], bool], Callable[[str], bool]],
    RedriveAnswer,
]
"""(topic, what is asked, URLs of ingest nodes, our own URL, whether to stop, whether whoever asks
may send to a topic) → what was done."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Both things that a node does as a client."""

    worker: Callable[[Webhook, str], Worker]
    """A worker for a webhook, which begins at the node of that URL."""
    redrive: Redrive
    """As much of a redrive as one request may take."""
