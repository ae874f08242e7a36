"""Producing, on the ingest port."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lakequeue.wire.limits import DEFAULT_ORDER_TIMEOUT_MS, MAX_WAIT_MS
from lakequeue.wire.shapes import AnswerShape, RequestShape


class Consumed(RequestShape):
    """What a produce request was made from; judged by the order job, with the request."""

    group: str
    topic: str
    partition: int
    from_offset: int
    next_offset: int
    epoch: int


class ProduceEnvelope(RequestShape):
    """`POST /v1/topics/{topic}/records`, apart from the records, which are checked one by one.

    Record i of a request with `sequence` has sequence `sequence + i`; without a `message_id` of
    its own it is deduplicated by `producer_id:sequence`.
    """

    producer_id: str | None = Field(None, min_length=1, max_length=249)
    producer_epoch: int | None = Field(None, ge=0)
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
    """The offset (and partition) are those of the original."""


class ProduceAnswer(AnswerShape):
    """200 of a produce request: every record is durable. A refused row has `reason` instead."""

    records: list[ProducedRecord]
    stamp: int


def derived_message_id(producer_id: str, sequence: int) -> str:
    """The message id of a record that has none of its own."""
    return f"{producer_id}:{sequence}"
