"""What a service answers to a produce request, as a producer understands it. Pure."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from lakequeue.calling.effects import Reply
from lakequeue.client.producing.record_accumulator import Outgoing, RecordMetadata
from lakequeue.errors import Broken, NotOrdered
from lakequeue.wire import ProduceAnswer, ProducedRecord

M = TypeVar("M", bound=BaseModel)


def metadata_of(topic: str, record: Outgoing, got: ProducedRecord, stamp: int) -> RecordMetadata:
    """Where `record` went."""
    # Without an offset the answer did not wait for the order, where copies are found.
    duplicate = None if got.offset is None else got.duplicate
    return RecordMetadata(
        topic,
        got.partition,
        record.message_id,
        stamp,
        got.offset,
        duplicate,
        got.dead_letter_topic,
    )


def not_ordered(topic: str, got: ProducedRecord) -> NotOrdered:
    """The error of a record that was acknowledged by the node and refused by the order job."""
    return NotOrdered(
        f"{topic}/{got.partition}: not ordered, {got.reason}",
        hint="its topic was deleted; or the others of its atomic request were refused",
        stored="no",
        reason=got.reason,
    )


def read_produced(reply: Reply, count: int) -> ProduceAnswer:
    """The answer to a produce request of `count` records."""
    answer = read_answer(ProduceAnswer, reply)
    if len(answer.records) != count:
        raise Broken(
            f"{count} records were sent, {len(answer.records)} are answered", stored="unknown"
        )
    return answer


def read_answer(model: type[M], reply: Reply) -> M:
    """The answer; raises `Broken` if it is none."""
    try:
        return model.model_validate_json(reply.body)
    except ValidationError as e:
        raise Broken(f"the answer cannot be read: {e}", stored="unknown") from e
