"""What both producers have in common: their options, and the core that they drive."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from lakequeue.calling.credentials import Credentials
from lakequeue.calling.nodes import Nodes
from lakequeue.client.producing.record_accumulator import HeadersIn, Limits, Outgoing
from lakequeue.client.producing.sender import Acks, OnAck, OnError, Sender
from lakequeue.errors import InvalidRequest, OrderTimeout


class ProducerOptions(TypedDict, total=False):
    """Options of both producers."""

    acks: Acks
    """"committed" (default): durable; partition and stamp are known. "ordered": offset too."""
    linger_ms: float
    """How long a batch waits for more records; 5."""
    batch_size: int
    """Most records in one request; 500."""
    batch_bytes: int
    """Most bytes in one request; 4 MiB."""
    producer_id: str
    """Stands in the log, as `producer_id`, and begins the message ids that records get: those of
    one run are never taken for copies of another's. Random by default. What is to be there once
    over a restart needs a `message_id` of your own, or `fence`."""
    fence: bool
    """One instance of `producer_id` at a time: starting this one shuts older ones out, wherever
    they are, and it goes on where they stopped (`next_sequence`). Needs a `producer_id` that stays
    the same, named after the producer's task; answers come when the records are ordered."""
    delivery_timeout_s: float
    """A record that is not acknowledged by then is given up; 120."""
    max_buffered_bytes: int
    """`send` waits while so much is on its way; 32 MiB."""
    max_block_s: float
    """Longest such wait, then `Overloaded`; 60."""
    find_nodes: bool
    """Ask the given nodes which others there are, and send each partition's records through one of
    them; True. False: only the given ones, where the others cannot be reached from here."""
    credentials: Credentials | str | None
    """An API key or token, or `Credentials`; by default what the environment says."""
    on_ack: OnAck | None
    """Called as (record, delivered), where the sending is done: keep it short."""
    on_error: OnError | None
    """Called as (record, error) for each record given up."""


class ProducerBase(ABC):
    """What both producers have in common."""

    def __init__(self, urls: str | Sequence[str], options: ProducerOptions) -> None:
        fence = options.get("fence", False)
        if fence and not options.get("producer_id"):
            raise InvalidRequest(
                "fence needs a producer_id",
                hint="a name that stays the same when the program starts again",
                field="producer_id",
            )
        named = options.get("producer_id")
        self._max_block_s = options.get("max_block_s", 60.0)
        self._core = Sender(
            Nodes(urls, finds=options.get("find_nodes", True)),
            named or uuid.uuid4().hex,
            options.get("acks", "committed"),
            Limits(
                options.get("batch_size", 500),
                options.get("batch_bytes", 4 << 20),
                options.get("linger_ms", 5.0) / 1000,
                options.get("max_buffered_bytes", 32 << 20),
            ),
            options.get("delivery_timeout_s", 120.0),
            time.monotonic,
            self._ring,
            options.get("on_ack"),
            options.get("on_error"),
            fence,
            uuid.uuid4().hex[:16] if named else None,
        )

    @abstractmethod
    def _ring(self) -> None:
        """Wake whoever waits for a change."""

    @property
    def producer_id(self) -> str:
        """What generated message ids begin with; in the log, `producer_id`."""
        return self._core.producer_id

    @property
    def epoch(self) -> int | None:
        """Of a fenceable producer that has begun."""
        return self._core.epoch

    def next_sequence(self, topic: str) -> int:
        """Of a fenceable producer, at `init`: 1 + the highest sequence ordered in that topic.

        The first record sent to the topic gets it. Records that earlier instances sent have counted
        up from 0: those below it are in the log, but for those that were given up (`on_error`,
        `unacked`) while later ones got through; the others are not and never will be. Records of
        runs without `fence` are not counted, and not in the way.
        """
        return self._core.next_sequences.get(topic, 0)

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: HeadersIn,
        partition: int | None,
        timestamp: datetime | int | None,
        message_id: str,
        timing: Mapping[str, int] | None,
    ) -> Outgoing:
        """A record for `produce_whole`: checked, encoded, and not sent."""
        record = self._core.prepare(
            topic, value, key, headers, partition, timestamp, message_id, timing
        )
        record.encoded = record.encode(own_message_id=True, own_topic=True)
        return record

    @property
    def last_stamp(self) -> int | None:
        """Stamp of the newest acknowledged record: later records get a higher one."""
        return self._core.last_stamp

    def unacked(self) -> list[Outgoing]:
        """Records that were given up, then those still on their way, with all that was sent."""
        with self._core.lock:
            return self._core.ledger.unacked()

    def _not_flushed(self) -> OrderTimeout:
        return OrderTimeout(
            f"{len(self._core.ledger)} records are not acknowledged yet",
            hint="wait longer, or see unacked()",
            stored="unknown",
        )
