"""A record as a consumer hands it to the application."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from lakequeue.client.record import Record
from lakequeue.errors import InvalidRequest
from lakequeue.tracing.spans import processing
from lakequeue.wire import (
    MAX_NACK_REASON,
    MAX_SPAN_MS,
    dumps_exactly,
    parse_queue_receipt,
    parse_receipt,
)


class Message(Record):
    """One delivered record. Acknowledge it with `ack()` when its effects are done."""

    __slots__ = ("_ack", "_settle", "_value_type", "epoch", "membership", "nack_reason")
    _shown: ClassVar = "Message"

    def __init__(
        self,
        raw: dict[str, Any],
        epoch: int | None,
        term: int,
        ack: Callable[[Message, bool], None] | None,
        settle: Callable[[Any, Message, int | None], None] | None = None,
    ) -> None:
        self._raw = raw  # a call of the base would cost as much as all of this
        self.epoch = epoch
        """Epoch of the lease that it was delivered under."""
        self.membership = term
        """Counts how often this consumer has joined."""
        self._ack = ack
        self._settle = settle
        self._value_type: TypeAdapter[Any] | None = None
        self.nack_reason: str | None = None
        """What `nack` was given as the reason."""

    @property
    def value(self) -> Any:
        """As it was sent: str, bytes, parsed JSON, or None.

        With `value_type` of the consumer it is an object of that type; None stays None. Raises
        `InvalidRequest` if the record does not fit; `json()` has what was sent.
        """
        plain = self._value()
        if self._value_type is None or plain is None:
            return plain
        try:
            return _as(self._value_type, plain)
        except ValidationError as e:
            raise InvalidRequest(
                f"{self.topic}/{self.partition}@{self.offset} does not fit the value_type: {e}",
                hint="message.json() has what was sent; nack it, or ack it to pass it",
                field="value",
            ) from e

    def fields(self) -> Any:
        """The value for a table.

        Returns:
            Of a model or dataclass its fields, as JSON has them; else `value`.
        """
        value = self.value
        if self._value_type is None or value is None:
            return value
        return self._value_type.dump_python(value, mode="json")

    def typed(self, value_type: TypeAdapter[Any]) -> Message:
        """Have `value` make objects of a type.

        Args:
            value_type: Adapter of pydantic for the type.

        Returns:
            This message.
        """
        self._value_type = value_type
        return self

    @property
    def topic_id(self) -> str:
        """Id of this incarnation of the topic."""
        if self._settle is not None:
            return parse_queue_receipt(self.receipt).topic_id
        return parse_receipt(self.receipt)[0]

    @property
    def attempt(self) -> int:
        """1 at the first delivery (queue groups count on)."""
        return int(self._raw.get("attempt", 1))

    @property
    def deadline(self) -> int | None:
        """Queue groups: until when it was kept for us at its delivery; microseconds, UTC."""
        return self._raw.get("deadline")

    @property
    def receipt(self) -> str:
        """What the service knows this delivery by."""
        return str(self._raw["receipt"])

    @property
    def is_settled_alone(self) -> bool:
        """Queue groups: each record has an ack of its own. An ack of a stream is a position."""
        return self._settle is not None

    def processing(self) -> AbstractContextManager[None]:
        """A `with` block for the work on this message: a span, if the program traces.

        The span is linked with the one that the record was made in. Where the program is in no span
        yet, it goes on in the trace of the record.

        Returns:
            The context manager.
        """
        return processing(self.trace, self.topic)

    def ack(self, *, commit_through: bool = False) -> None:
        """Done with it: it is not delivered to this group again.

        In a stream group, nor is what stands before it in its partition. The ack is sent in the
        background; `Consumer.commit()` waits until it is durable.

        Args:
            commit_through: Stream groups: acknowledge all before it in its partition as well.

        Raises:
            SkippedRecords: Stream groups: an earlier record of the partition is not acknowledged.
        """
        if self._settle is not None:
            self._settle("ack", self, None)
        elif self._ack is not None:
            self._ack(self, commit_through)

    def nack(self, delay_s: float | None = None, *, reason: str | None = None) -> None:
        """Queue groups: not done; deliver it again after `delay_s`, or as the retry policy says.

        After the last attempt it goes to the dead-letter topic instead.

        Args:
            delay_s: Seconds until it may come again, in place of the group's back-off.
            reason: Kept as the header `lakequeue-nack-reason` of the dead letter; what is beyond
                1,000 characters is cut.

        Raises:
            InvalidRequest: The group is a stream group, or `delay_s` is not valid.
        """
        self.nack_reason = None if reason is None else reason[:MAX_NACK_REASON]
        self._settling("nack")("nack", self, milliseconds_of(delay_s, "delay_s"))

    def extend(self, seconds: float) -> None:
        """Queue groups: keep it longer than the automatic renewal does.

        Args:
            seconds: How long from now. Nothing changes if it is kept longer anyway.

        Raises:
            InvalidRequest: The group is a stream group, or `seconds` is not valid.
        """
        self._settling("extend")("extend", self, milliseconds_of(seconds, "seconds"))

    def _settling(self, verb: str) -> Callable[[Any, Message, int | None], None]:
        if self._settle is None:
            raise InvalidRequest(
                f"{verb} is for queue groups, and this is a stream group",
                hint='make the consumer with mode="queue"',
            )
        return self._settle


def _as(value_type: TypeAdapter[Any], plain: Any) -> Any:
    if not isinstance(plain, str | bytes):
        return value_type.validate_json(dumps_exactly(plain))
    try:
        return value_type.validate_python(plain)
    except ValidationError:
        return value_type.validate_json(plain)  # JSON that was sent as text


def milliseconds_of(seconds: float | None, field: str) -> int | None:
    """Whole milliseconds, rounded up; raises `InvalidRequest` for a negative or absurd time."""
    if seconds is None:
        return None
    if not 0 <= seconds * 1_000 <= MAX_SPAN_MS:
        raise InvalidRequest(
            f"{field}={seconds} is not valid",
            hint=f"seconds, 0 to {MAX_SPAN_MS // 1_000}",
            field=field,
        )
    return math.ceil(seconds * 1_000)
