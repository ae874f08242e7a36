"""Acks and the poll that brings them along, by one request."""

from __future__ import annotations

from pydantic import Field

from lakequeue.wire.calls.groups import (
    AckRequest,
    PollAnswer,
    RefusedReceipt,
    Settled,
)
from lakequeue.wire.limits import MAX_REQUEST_RECORDS, MAX_WAIT_MS


class WorkRequest(AckRequest):
    """`POST …/members/{member}/records`: what became of the last records, and more of them.

    For queue groups. The acks are durable before the answer leaves.
    """

    max: int = Field(500, ge=1, le=MAX_REQUEST_RECORDS)
    wait_ms: int = Field(20_000, ge=0, le=MAX_WAIT_MS)
    after: int | None = Field(None, ge=0)
    """As in the query of a poll."""


class WorkAnswer(PollAnswer):
    """200: every receipt of the request is settled durably, but for those in `refused`."""

    settled: list[Settled] = Field(default_factory=list)
    """What nacks and extensions have brought about. Of acks there is nothing to say."""
    refused: list[RefusedReceipt] = Field(default_factory=list)
    """Receipts that are not good: nothing was done for them."""
