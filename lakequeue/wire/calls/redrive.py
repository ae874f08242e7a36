"""Dead records back to where they died, by HTTP: as much as one request may take."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakequeue.wire.limits import MAX_HEADERS, MAX_PARTITIONS, MAX_REQUEST_RECORDS, MAX_WAIT_MS
from lakequeue.wire.shapes import AnswerShape, Items, RequestShape, at_most
from lakequeue.wire.times import TimeOnTheWire


class RedriveRequest(RequestShape):
    """`POST /v1/topics/{topic}/redrive`, of a dead-letter topic. Ask again while there is more."""

    headers: Annotated[dict[str, str] | None, at_most(MAX_HEADERS)] = None
    """Only records with each of these: `lakequeue-reason`, or one of their own."""
    since: TimeOnTheWire | None = None
    """Only records whose own time is not before this: microseconds, or RFC 3339 text."""
    until: TimeOnTheWire | None = None
    """Only records with a timestamp before this."""
    to: str | None = None
    """Send them to this topic, by their keys, instead of where they died."""
    max: int = Field(1_000, ge=1, le=MAX_REQUEST_RECORDS)
    """Look at so many records at most."""
    wait_ms: int = Field(20_000, ge=0, le=MAX_WAIT_MS)
    """Begin nothing more after so long."""
    end_offsets: Items[int] | None = Field(None, max_length=MAX_PARTITIONS)
    """Of the answer before: what has come to the partitions since is left alone. Null: begin."""


class RedriveAnswer(AnswerShape):
    """200: what became of the records looked at. It counts, each once."""

    redriven: int
    kept: int
    """Not chosen: put behind the others. What is behind the last chosen one is not looked at."""
    without_topic: int
    """No topic to go back to: put behind the others."""
    homeless: int
    """The same count: its name in release 0.1."""
    more: bool
    """The end is not reached: ask again, with these `end_offsets`."""
    end_offsets: list[int]
    """Of each partition: one past the last record that the redrive chose when it began."""
