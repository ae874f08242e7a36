"""What is told about load, on the consumer-service port."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lakequeue.wire.calls.groups import GroupMode
from lakequeue.wire.limits import MAX_WAIT_MS
from lakequeue.wire.shapes import AnswerShape, RequestShape

Course = Literal["idle", "steady", "catching_up", "falling_behind", "stuck"]
"""How a group's lag goes: nothing comes and nothing waits; it stays; it falls; it rises, or falls
so slowly that it does not matter; it stays above zero and nothing is settled."""
AddWhat = Literal["consumers", "partitions", "keys", "nodes"]


class AdviceQuery(RequestShape):
    """Query parameters of `GET /v1/advice`."""

    over_ms: int = Field(5_000, ge=500, le=MAX_WAIT_MS)
    """How long a range of offsets is judged; without earlier looks the answer takes as long."""


class Trend(AnswerShape):
    """A group on one topic, over the range of offsets."""

    group: str
    topic: str
    mode: GroupMode
    course: Course
    members: int
    partitions: int
    lag: int
    """At the end."""
    lag_per_s: float
    """How fast it rises; negative: it falls."""
    in_per_s: float
    out_per_s: float


class Advice(AnswerShape):
    """Something to add, and why."""

    add: AddWhat
    """keys: nothing can be added, the records have to be spread over more keys."""
    group: str | None = None
    topic: str | None = None
    node: str | None = None
    to: int | None = None
    """How many there should be then."""
    detail: str
    do: str
    """The command or change."""


class AdviceAnswer(AnswerShape):
    """`GET /v1/advice`: first what to do, then what that was read from."""

    over_s: float
    advice: list[Advice]
    trends: list[Trend]
