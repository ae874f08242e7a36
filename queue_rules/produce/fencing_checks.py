"""What is judged of a request as a whole: before it is stored, and by the order job after it."""

from __future__ import annotations

from collections.abc import Sequence

from lakequeue.errors import ConsumedElsewhere, InvalidRequest, ProducerFenced
from lakequeue.wire import Consumed
from queue_rules.produce.outcomes import Outcome
from queue_rules.produce.rows import Request
from queue_tables.schema.marks import ReadsMarks, consumed_mark, offset_mark, producer_mark
from queue_tables.schema.reasons import Reason
from queue_tables.schema.topic_rules import Topic


def check_consumed(said: Consumed, source: Topic, marks: ReadsMarks) -> None:
    """Raise `ConsumedElsewhere` or `InvalidRequest` unless the records exist in this very topic.

    The mark would move beyond what there is, and the group would skip what comes there later.
    """
    source.place(said.partition, field="consumed.partition")
    if said.topic_id not in {None, source.topic_id}:
        raise ConsumedElsewhere(
            f"group {said.group}: the records are of topic {said.topic_id}, and {said.topic} is "
            f"{source.topic_id} now: it was created anew",
            hint="join the group again: it begins with the new topic",
            stored="no",
            from_offset=said.from_offset,
            next_offset=said.next_offset,
        )
    name = offset_mark(source.topic_id, said.partition)
    end = marks.read(name).get(name, 0)
    if said.next_offset > end:
        raise InvalidRequest(
            f"consumed: next_offset {said.next_offset} is beyond the end of "
            f"{said.topic}/{said.partition}, {end}",
            hint="next_offset is that of the last record consumed, plus 1; was the topic created "
            "anew? then join the group again",
            field="consumed.next_offset",
            stored="no",
        )


def refuse_if_judged_so(request: Request, outcomes: Sequence[Outcome], marks: ReadsMarks) -> None:
    """Raise `ProducerFenced` or `ConsumedElsewhere` if the request was refused for that.

    `marks` are read for the numbers in the message only: they may have moved on since.
    """
    reasons = {outcome.reason for outcome in outcomes}
    if Reason.PRODUCER_FENCED in reasons:
        raise fenced(request, marks)
    if Reason.CONSUMED_OVERLAP in reasons and request.consumed is not None:
        said = request.consumed
        name = consumed_mark(said.group, request.consumed_topic_id, said.partition, said.generation)
        current = marks.read(name).get(name)
        raise ConsumedElsewhere(
            f"group {said.group}, {said.topic}/{said.partition}: offsets {said.from_offset} to "
            f"{said.next_offset - 1} consumed, {current} is next",
            hint="join the group again: it goes on at the right place",
            stored="no",
            from_offset=said.from_offset,
            next_offset=said.next_offset,
            current=current,
        )


def fenced(request: Request, marks: ReadsMarks) -> ProducerFenced:
    """The error of a producer whose epoch is superseded."""
    name = producer_mark(request.producer_id or "")
    current = marks.read(name).get(name)
    return ProducerFenced(
        f"producer {request.producer_id}: epoch {request.producer_epoch} presented, "
        f"{current} current",
        hint="another instance of this producer has begun; stop this one",
        stored="no",
        epoch=request.producer_epoch,
        current=current,
    )
