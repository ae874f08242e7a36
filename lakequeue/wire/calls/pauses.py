"""Pausing and resuming groups."""

from __future__ import annotations

from pydantic import Field

from lakequeue.wire.limits import MAX_PARTITIONS
from lakequeue.wire.shapes import AnswerShape, Items, RequestShape


class PauseRequest(RequestShape):
    """`POST /v1/groups/{group}/pause` and `/resume`.

    Without a topic the whole group, with all topics and partitions that it will ever have; with a
    topic all of that; with partitions these. The newest word about a partition counts, whatever
    it was a part of.
    """

    topic: str | None = None
    partitions: Items[int] | None = Field(None, min_length=1, max_length=MAX_PARTITIONS)


class PauseRule(AnswerShape):
    """A topic or partition that is not as the whole of the group or topic is."""

    topic: str
    partition: int | None = None
    """Null: all of the topic."""
    paused: bool


class PauseAnswer(AnswerShape):
    """200 of a pause: nothing more of it leaves any node. Of a resume: it is delivered again."""

    group: str
    paused: bool
    """The group as a whole."""
    rules: list[PauseRule] = Field(default_factory=list)
