"""What a producer hears of a request that the order job has judged as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from ingest.expectations import Outcome
from ingest.rows import Request
from lakequeue.errors import ConsumedElsewhere, ProducerFenced
from queue_tables.marks import LogMarks, consumed_mark, producer_mark

PRODUCER_FENCED = "producer_fenced"
CONSUMED_OVERLAP = "consumed_overlap"
"""Reasons in `rejects`."""


def refuse_if_judged_so(request: Request, outcomes: Sequence[Outcome], marks: LogMarks) -> None:
    """Raise `ProducerFenced` or `ConsumedElsewhere` if the request was refused for that.

    `marks` are read for the numbers in the message only: they may have moved on since.
    """
    reasons = {outcome.reason for outcome in outcomes}
    if PRODUCER_FENCED in reasons:
        raise fenced(request, marks)
    if CONSUMED_OVERLAP in reasons and request.consumed is not None:
        said = request.consumed
        name = consumed_mark(said.group, request.consumed_topic_id, said.partition, said.generation)
        current = marks.read().get(name)
        raise ConsumedElsewhere(
            f"group {said.group}, {said.topic}/{said.partition}: offsets {said.from_offset} to "
            f"{said.next_offset - 1} consumed, {current} is next",
            hint="join the group again: it goes on at the right place",
            stored="no",
            from_offset=said.from_offset,
            next_offset=said.next_offset,
            current=current,
        )


def fenced(request: Request, marks: LogMarks) -> ProducerFenced:
    """The error of a producer whose epoch is superseded."""
    current = marks.read().get(producer_mark(request.producer_id or ""))
    return ProducerFenced(
        f"producer {request.producer_id}: epoch {request.producer_epoch} presented, "
        f"{current} current",
        hint="another instance of this producer has begun; stop this one",
        stored="no",
        epoch=request.producer_epoch,
        current=current,
    )
