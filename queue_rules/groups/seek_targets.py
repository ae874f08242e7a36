"""Where a seek moves a partition. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from lakequeue.errors import InvalidRequest, UnknownGroup
from lakequeue.records import TopicId, TopicPartition
from lakequeue.wire import SeekRequest
from queue_tables.schema.topic_rules import Topic


@dataclass(frozen=True, slots=True)
class Bounds:
    """What exists of a partition."""

    start: int
    end: int


def target_of(
    request: SeekRequest, committed: int | None, bounds: Bounds, by_time: int | None
) -> int:
    """Where a partition moves to, kept within `bounds`. Pure.

    `by_time` is the first offset that is not before `request.time`, None if there is none.
    """
    match request.to:
        case "earliest":
            wanted = bounds.start
        case "latest":
            wanted = bounds.end
        case "committed":
            wanted = bounds.start if committed is None else committed
        case "offset":
            wanted = request.offset or 0
        case "time":
            wanted = bounds.end if by_time is None else by_time
    return max(bounds.start, min(bounds.end, wanted + request.shift))


def topics_of(
    group: str,
    request: SeekRequest,
    known: Collection[TopicId],
    topics: Iterable[Topic],
    named: Callable[[str], Topic],
) -> list[Topic]:
    """The topics of a seek: those it names, else those of `known`, which the group has.

    Raises `UnknownGroup` if there is none, and what `named` raises.
    """
    if request.topics is not None:
        if not request.topics:
            raise InvalidRequest(
                "topics is empty", hint="name some, or leave it out", field="topics"
            )
        return [named(name) for name in request.topics]
    some = [topic for topic in topics if topic.topic_id in known]
    if not some:
        raise UnknownGroup(
            f"group {group!r} has no position on any topic",
            hint="name topics, to create the group at a position",
        )
    return some


def chosen_of(topics: Sequence[Topic], partition: int | None) -> dict[TopicPartition, Topic]:
    """The partitions that are meant: that one of each topic which has it; None: all."""
    chosen = {
        topic.place(number): topic
        for topic in topics
        for number in range(topic.partitions)
        if partition in {None, number}
    }
    if not chosen:
        largest = max(topics, key=lambda topic: topic.partitions)
        largest.place(partition or 0)
    return chosen


def check_request(request: SeekRequest) -> None:
    """Raise `InvalidRequest` when fields do not go together. Pure."""
    for to, value in (("offset", request.offset), ("time", request.time)):
        if (request.to == to) != (value is not None):
            raise InvalidRequest(
                f'"{to}" goes with "to": "{to}", and with nothing else',
                hint=f'give both, or choose another "to" and leave "{to}" out',
                field=to,
            )
