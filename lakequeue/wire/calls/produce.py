"""Producing, on the ingest port."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lakequeue.wire.limits import DEFAULT_ORDER_TIMEOUT_MS, MAX_WAIT_MS, MAX_WHOLE
from lakequeue.wire.shapes import AnswerShape, RequestShape, SendShape


class Consumed(SendShape):
    """What a produce request was made from; judged by the order job, with the request.

    The records `from_offset` … `next_offset - 1` of a partition, delivered to `group` under the
    lease `epoch`. `generation` is that of the group's position, as the service tells it.
    """

    group: str
    topic: str
    topic_id: str | None = Field(None, min_length=1, max_length=64)
    """As the receipts say it. A topic of that name that was created anew since is another one."""
    partition: int = Field(ge=0)
    from_offset: int = Field(ge=0, le=MAX_WHOLE)
    next_offset: int = Field(ge=1, le=MAX_WHOLE)
    epoch: int = Field(0, ge=0, le=MAX_WHOLE)
    generation: int = Field(0, ge=0, le=MAX_WHOLE)


class ProduceEnvelope(SendShape):
    """`POST /v1/topics/{topic}/records`, apart from the records, which are checked one by one.

    Record i of a request with `sequence` has sequence `sequence + i`; without a `message_id` of
    its own it is deduplicated by `producer_id:sequence`.
    """

    producer_id: str | None = Field(None, min_length=1, max_length=249)
    producer_epoch: int | None = Field(None, ge=1, le=MAX_WHOLE)
    """Given: the producer is fenceable, and the answer waits until the records are ordered."""
    sequence: int | None = Field(None, ge=0)
    after: int | None = Field(None, ge=0)
    """Last stamp that the producer has seen: this request gets a higher one."""
    consumed: Consumed | None = None
    atomic: bool = False


class ProduceQuery(RequestShape):
    """Query parameters of a produce request."""

    wait: Literal["committed", "ordered"] = "committed"
    timeout_ms: int = Field(DEFAULT_ORDER_TIMEOUT_MS, ge=1, le=MAX_WAIT_MS)


class ProducedRecord(AnswerShape):
    """Where one record went, in the order of the request."""

    partition: int
    message_id: str | None = None
    offset: int | None = None
    """With `wait=ordered` only."""
    duplicate: bool = False
    """The offset (and partition) are those of the original. Without an offset nothing is known."""
    reason: str | None = None
    """Why it was not ordered (topic_gone, …); it has no offset then."""
    dead_letter_topic: str | None = None
    """Its value is not of the topic's schema, and it went there (`value_policy`): partition, offset
    and message id are those of the dead letter."""


class ProduceAnswer(AnswerShape):
    """200 of a produce request: every record is durable. A refused row has `reason` instead."""

    records: list[ProducedRecord]
    stamp: int


class MinimalProduceAnswer(AnswerShape):
    """The same for `Prefer: return=minimal`, where there is nothing else to say of any record."""

    partitions: list[int]
    """Of each record, in the order of the request."""
    stamp: int


class EpochAnswer(AnswerShape):
    """201 of `POST /v1/producers/{producer_id}/epochs`: older epochs can order nothing more.

    `next_sequences`: topic → 1 + the highest sequence ordered of this producer; what it has sent
    before and is not below this will never be ordered.
    """

    producer_id: str
    epoch: int
    next_sequences: dict[str, int] = Field(default_factory=dict)
    stamp: int


def derived_message_id(producer_id: str, sequence: int) -> str:
    """The message id of a record that has none of its own."""
    return f"{producer_id}:{sequence}"
