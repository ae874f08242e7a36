"""Moving a group to other positions, on the consumer port."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lakequeue.wire.limits import MAX_NAMED_TOPICS, MAX_PREDICATE_CHARS, MAX_WHOLE
from lakequeue.wire.shapes import AnswerShape, Items, RequestShape
from lakequeue.wire.times import TimeOnTheWire

SeekTo = Literal["earliest", "latest", "committed", "offset", "time"]


class SeekRequest(RequestShape):
    """`POST /v1/groups/{group}/seek`: the group must have no live member.

    `shift` is added to the position that `to` names, and the result is kept within what exists:
    `{"to": "latest", "shift": -10}` is the last ten of each partition,
    `{"to": "committed", "shift": -5}` goes back by five. With `topics` a group that does not
    exist yet is created at those positions.
    """

    to: SeekTo
    offset: int | None = Field(None, ge=0, le=MAX_WHOLE)
    time: TimeOnTheWire | None = None
    """The first record whose timestamp is not before it: microseconds, or RFC 3339 text."""
    shift: int = Field(0, ge=-MAX_WHOLE, le=MAX_WHOLE)
    topics: Items[str] | None = Field(None, min_length=1, max_length=MAX_NAMED_TOPICS)
    partition: int | None = Field(None, ge=0)
    predicate: str | None = Field(None, min_length=1, max_length=MAX_PREDICATE_CHARS)
    """Of a group that is made by this; another one's must be the same."""
    dry_run: bool = False


class SeekMove(AnswerShape):
    """One partition of a seek."""

    topic: str
    partition: int
    from_offset: int | None
    to_offset: int


class SeekAnswer(AnswerShape):
    """200: with `dry_run`, what would change; else what has changed, durably."""

    executed: bool
    partitions: list[SeekMove]
