"""What a service answers to a produce request, as a producer understands it. Pure.

Answers have a record for each that was sent, so they are read by hand; most say no more of it than
its partition, and that is all that is kept then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from lakequeue.calling.effects import Reply
from lakequeue.client.producing.outgoing import RecordMetadata
from lakequeue.errors import Broken, NotOrdered
from lakequeue.wire import ProducedRecord

M = TypeVar("M", bound=BaseModel)
Place = int | ProducedRecord
"""Where a record went: its partition, or all that is said of it if that is more."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What an answer says for all records of a request for one topic."""

    topic: str
    stamp: int

    def metadata(self, place: Place, message_id: str) -> RecordMetadata:
        """Where a record went."""
        if type(place) is int:
            return RecordMetadata(self.topic, place, message_id, self.stamp)
        assert isinstance(place, ProducedRecord)  # noqa: S101 - there is nothing else
        return RecordMetadata(
            self.topic,
            place.partition,
            message_id,
            self.stamp,
            place.offset,
            # Without an offset the answer did not wait for the order, where copies are found.
            None if place.offset is None else place.duplicate,
            place.dead_letter_topic,
        )


@dataclass(frozen=True, slots=True)
class Produced:
    """An answer: where each record went, in the order of the request."""

    places: list[Place]
    stamp: int

    @property
    def is_plain(self) -> bool:
        """Every record went to a partition, and that is all there is to say."""
        return ProducedRecord not in set(map(type, self.places))


def reason_of(place: Place) -> str | None:
    """Why it was not ordered; None if it was, or if that is not known."""
    return None if type(place) is int else place.reason  # type: ignore[union-attr]


def partition_of(place: Place) -> int:
    """The partition that is told."""
    return place if type(place) is int else place.partition  # type: ignore[union-attr]


def not_ordered(topic: str, place: Place) -> NotOrdered:
    """The error of a record that was acknowledged by the node and refused by the order job."""
    reason = reason_of(place)
    return NotOrdered(
        f"{topic}/{partition_of(place)}: not ordered, {reason}",
        hint="its topic was deleted; or the others of its atomic request were refused",
        stored="no",
        reason=reason,
    )


def read_produced(reply: Reply, count: int) -> Produced:
    """The answer to a produce request of `count` records. Raises `Broken`."""
    try:
        answer = orjson.loads(reply.body)
        # Nodes of release 0.1 say all, whatever is asked for.
        places: list[Any] = (
            answer["partitions"]
            if "partitions" in answer
            else [
                said["partition"]
                if len(said) == 2 and "message_id" in said
                else ProducedRecord.model_validate(said)
                for said in answer["records"]
            ]
        )
        stamp, kinds = answer["stamp"], set(map(type, places))
    except (ValueError, KeyError, TypeError) as e:
        raise _unreadable(e) from e
    if type(stamp) is not int or not kinds <= {int, ProducedRecord}:
        raise _unreadable("a number is none")
    if len(places) != count:
        raise Broken(f"{count} records were sent, {len(places)} are answered", stored="unknown")
    return Produced(places, stamp)


def read_answer(model: type[M], reply: Reply) -> M:
    """The answer; raises `Broken` if it is none."""
    try:
        return model.model_validate_json(reply.body)
    except ValidationError as e:
        raise _unreadable(e) from e


def _unreadable(why: object) -> Broken:
    return Broken(f"the answer cannot be read: {why}", stored="unknown")
