"""What a producer holds until it is acknowledged: one record accumulator a topic, in the order of
sending.

Rules only; time comes in. a record accumulator gives out one batch at a time, so nothing overtakes
a batch that is being retried.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import orjson

from lakequeue.client.producing.record_options import HeadersIn
from lakequeue.errors import InvalidRequest, LakequeueError, Overloaded, TooLarge
from lakequeue.tracing.context import TraceContext
from lakequeue.wire import (
    MAX_REQUEST_BYTES,
    MAX_REQUEST_RECORDS,
    derived_message_id,
    headers_to_json,
    key_value_to_json,
    to_bytes,
)

_ENVELOPE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where an acknowledged record went."""

    topic: str
    partition: int
    message_id: str
    stamp: int
    offset: int | None = None
    """Known with `acks="ordered"`."""
    duplicate: bool | None = None
    """True: it was there already, and partition and offset are the original's. False: it was not.

    Known where the answer waits for the order: `acks="ordered"`, `fence=True`, `atomic`,
    `transform`. None: with `acks="committed"` nobody has compared it yet. `lakequeue rejects list
    --reason duplicate` tells later."""
    dead_letter_topic: str | None = None
    """The value is not of the topic's schema, and the record went to the dead letters of its topic
    (`value_policy`): partition and offset are those there."""


Delivered = RecordMetadata
"""The old name, until 0.3."""


class Handle(Protocol):
    """What `send` returns: a future of the blocking or of the async kind."""

    def done(self) -> bool:
        """Settled, or cancelled."""

    def set_result(self, result: RecordMetadata, /) -> None:
        """Acknowledged."""

    def set_exception(self, exception: LakequeueError, /) -> None:
        """Given up."""


@dataclass(slots=True)
class Outgoing:
    """A record on its way, encoded: changing the value after `send` has no effect."""

    topic: str
    key: Any
    value: Any
    headers: HeadersIn
    partition: int | None
    timestamp: datetime | int | None
    message_id: str
    timing: Mapping[str, int] | None = None
    """`deliver_at`, `delay_ms`, `ttl_ms` of the wire, as far as given."""
    encoded: bytes = b""
    own_id: bool = False
    """The message id stands in `encoded`."""
    says_id: bool = False
    """The service would derive another id from producer and sequence: it is sent."""
    chosen: int | None = None
    """The partition that was chosen for a record without one and without a key."""
    sequence: int = 0
    added_at: float = 0.0
    handle: Handle | None = None
    error: LakequeueError | None = None
    """Why it was given up; None while it is on its way."""
    trace: TraceContext | None = None
    """Of the span in which it was made, if the program traces."""

    def encode(self, own_message_id: bool, own_topic: bool = False) -> bytes:
        """The record's JSON; raises `InvalidRequest` for what JSON cannot hold."""
        body: dict[str, Any] = {"topic": self.topic} if own_topic else {}
        if self.key is not None:
            body |= key_value_to_json("key", *to_bytes(self.key))
        body |= key_value_to_json("value", *to_bytes(self.value))
        if self.headers:
            body["headers"] = headers_to_json(header_pairs(self.headers))
        if self.partition is not None:
            body["partition"] = self.partition
        if self.timestamp is not None:
            body["timestamp"] = self.timestamp
        if self.timing:
            body |= self.timing
        if own_message_id:
            body["message_id"] = self.message_id
        return orjson.dumps(body)

    def on_the_wire(self, with_id: bool) -> bytes:
        """`encoded`, with what was found out since."""
        more: dict[str, Any] = {}
        if (with_id or self.says_id) and not self.own_id:
            more["message_id"] = self.message_id
        if self.chosen is not None:
            more["partition"] = self.chosen
        return self.encoded[:-1] + b"," + orjson.dumps(more)[1:] if more else self.encoded


def header_pairs(given: HeadersIn) -> list[tuple[str, bytes | None]]:
    """Headers as stored; raises `InvalidRequest` for values that are neither text nor bytes."""
    pairs = given.items() if isinstance(given, Mapping) else (given or ())
    out: list[tuple[str, bytes | None]] = []
    key: Any
    value: Any
    for key, value in pairs:
        if not isinstance(key, str) or not isinstance(value, str | bytes | None):
            raise InvalidRequest(
                f"header {key!r} is a {type(value).__name__}",
                hint="names are text, values text or bytes",
                field="headers",
            )
        out.append((key, value.encode() if isinstance(value, str) else value))
    return out


def body_of(head: dict[str, Any], encoded: Sequence[bytes]) -> bytes:
    """A produce request: the envelope `head` (not empty), and the encoded records."""
    return orjson.dumps(head)[:-1] + b',"records":[' + b",".join(encoded) + b"]}"


@dataclass(slots=True)
class ProducerBatch:
    """Records of one topic, in the order of sending: what one request carries."""

    topic: str
    records: list[Outgoing]
    route: str = ""
    """What the node is chosen by; the topic, if it is empty."""

    def body(self, producer_id: str, after: int | None, epoch: int | None = None) -> bytes:
        """The request. Equal for every retry but for `after`, which may only have risen."""
        head: dict[str, Any] = {"producer_id": producer_id}
        # A part of a batch that goes to several nodes has gaps: its records name their ids.
        whole = self.records[-1].sequence - self.records[0].sequence + 1 == len(self.records)
        if whole:
            head["sequence"] = self.records[0].sequence
        if epoch is not None:
            head["producer_epoch"] = epoch
        if after is not None:
            head["after"] = after
        return body_of(head, [r.on_the_wire(with_id=not whole) for r in self.records])

    def without(self, index: int) -> list[ProducerBatch]:
        """What is before and after record `index`, which is at fault."""
        parts = (self.records[:index], self.records[index + 1 :])
        return [ProducerBatch(self.topic, part, self.route) for part in parts if part]

    def halves(self) -> list[ProducerBatch]:
        """Two smaller batches, in order."""
        middle = len(self.records) // 2
        return [
            ProducerBatch(self.topic, self.records[:middle], self.route),
            ProducerBatch(self.topic, self.records[middle:], self.route),
        ]


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
        self._id_prefix = producer_id if run is None else f"{producer_id}:{run}"
        self._says_id = run is not None
        self._limits = limits
        self._waiting: deque[Outgoing] = deque()
        self._waiting_bytes = 0
        self._next_sequence = next_sequence

    def __len__(self) -> int:
        return len(self._waiting)

    def make(
        self,
        value: Any,
        key: Any,
        headers: HeadersIn,
        partition: int | None,
        timestamp: datetime | int | None,
        message_id: str | None,
        timing: Mapping[str, int] | None = None,
    ) -> Outgoing:
        """The record, encoded; it takes its sequence number only when it is added."""
        record = Outgoing(
            self.topic, key, value, headers, partition, timestamp, message_id or "", timing
        )
        record.own_id = message_id is not None
        record.encoded = record.encode(record.own_id)
        if len(record.encoded) > MAX_REQUEST_BYTES - _ENVELOPE_BYTES:
            raise TooLarge(
                f"the record has {len(record.encoded)} bytes as JSON, a request at most "
                f"{MAX_REQUEST_BYTES}",
                hint="store it elsewhere and send its address",
            )
        return record

    def add(self, record: Outgoing, now: float) -> bool:
        """Queue `record`. True when a waiting sender has a reason to look: first, or batch full."""
        record.sequence = self._next_sequence
        record.message_id = record.message_id or derived_message_id(
            self._id_prefix, record.sequence
        )
        record.says_id = self._says_id
        record.added_at = now
        self._next_sequence += 1
        self._waiting.append(record)
        self._waiting_bytes += len(record.encoded)
        return len(self._waiting) == 1 or self._full()

    def _full(self) -> bool:
        return (
            len(self._waiting) >= self._limits.batch_size
            or self._waiting_bytes >= self._limits.batch_bytes
        )

    def due_in(self, now: float) -> float | None:
        """Seconds until a batch may go; 0 when one may go now; None when nothing waits."""
        if not self._waiting:
            return None
        if self.flushing or self.closed or self._full():
            return 0.0
        return max(0.0, self._waiting[0].added_at + self._limits.linger_s - now)

    def ready(self, now: float) -> bool:
        """A batch may go, or there will never be another one."""
        return self.due_in(now) == 0.0 or self.closed

    def take(self) -> ProducerBatch:
        """The next batch: consecutive records within the limits, at least one."""
        records: list[Outgoing] = []
        size = 0
        most = min(self._limits.batch_size, MAX_REQUEST_RECORDS)
        while self._waiting and len(records) < most:
            size += len(self._waiting[0].encoded) + 1
            if records and size > self._limits.batch_bytes:
                break
            records.append(self._waiting.popleft())
        self._waiting_bytes -= sum(len(r.encoded) for r in records)
        return ProducerBatch(self.topic, records)


class Ledger:
    """Every record of a producer from `send` until it is settled, and those that were given up."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._pending: dict[int, Outgoing] = {}
        self._failed: deque[Outgoing] = deque()
        self._failed_bytes = 0
        self.bytes = 0
        self.first_error: LakequeueError | None = None

    def __len__(self) -> int:
        return len(self._pending)

    def has_room(self, size: int) -> bool:
        """`size` more bytes are within the bound; an empty ledger takes any one record."""
        return not self._pending or self.bytes + size <= self._limits.max_buffered_bytes

    def no_room(self) -> Overloaded:
        """The error of a `send` that waited in vain."""
        return Overloaded(
            f"{self.bytes} bytes wait to be acknowledged, at most "
            f"{self._limits.max_buffered_bytes}",
            hint="send more slowly, or raise max_buffered_bytes",
            stored="no",
        )

    def open(self, record: Outgoing) -> None:
        """`record` is on its way."""
        self._pending[id(record)] = record
        self.bytes += len(record.encoded)

    def settle(self, record: Outgoing, error: LakequeueError | None) -> None:
        """`record` is acknowledged, or given up with `error`."""
        del self._pending[id(record)]
        self.bytes -= len(record.encoded)
        record.error = error
        if error is None:
            return
        self.first_error = self.first_error or error
        self._failed.append(record)
        self._failed_bytes += len(record.encoded)
        # Bounded like the buffer: a producer that nobody asks must not grow for ever.
        while self._failed_bytes > self._limits.max_buffered_bytes and len(self._failed) > 1:
            self._failed_bytes -= len(self._failed.popleft().encoded)

    def unacked(self) -> list[Outgoing]:
        """Given up first, then those still on their way, in the order of sending."""
        return [*self._failed, *self._pending.values()]
