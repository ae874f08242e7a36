"""What is judged of a request as a whole, in cut order: producer epochs and `consumed`. Pure.

A request of a fenceable producer is refused when a newer epoch of that producer came before it. A
request with `consumed` is taken only if it goes on exactly where the last one stopped: so of two
consumers that transform the same records one counts, without any window. Both go by the marks in
`log` (`queue_tables.schema.marks`) and by the requests before it in the batch, and move them with
it.

Requests that are judged are few (hundreds a batch), so they are gone through one by one; the rows
of all others are never looked at here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from queue_tables.schema.marks import (
    NO_TOPIC,
    consumed_mark,
    generation_mark,
    producer_mark,
    sequence_mark,
)
from queue_tables.schema.reasons import Reason

Reasons = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class TransactionalRequest:
    """A request that is judged: rows `first` to `first + rows - 1` of the batch."""

    first: int
    rows: int
    topic_id: str
    producer: str | None
    epoch: int | None
    next_sequence: int | None
    consumed: Mapping[str, Any] | None

    @property
    def span(self) -> slice:
        """Its rows."""
        return slice(self.first, self.first + self.rows)

    @property
    def is_record(self) -> bool:
        """False: its one row is no record, and only carries marks."""
        return self.topic_id != NO_TOPIC

    @property
    def begins(self) -> bool:
        """It takes an epoch for its producer, which must be new."""
        return not self.is_record and self.consumed is None


@dataclass(slots=True)
class Marks:
    """The marks as they stand after the requests judged so far."""

    before: Mapping[str, int]
    moved: dict[str, int] = field(default_factory=dict)
    """Those that this batch moves."""

    def get(self, name: str) -> int | None:
        """The mark of that name."""
        return self.moved.get(name, self.before.get(name))

    def raise_to(self, name: str, value: int) -> None:
        """Move a mark forwards."""
        known = self.get(name)
        if known is None or known < value:
            self.moved[name] = value


def judge_epochs(requests: list[TransactionalRequest], reasons: Reasons, marks: Marks) -> None:
    """Refuse the rows of requests of a superseded epoch; move the epochs.

    A request that is refused for another reason moves the epoch all the same: its producer lives.
    """
    for request in requests:
        if request.epoch is None:
            continue
        name = producer_mark(request.producer or "")
        newest = marks.get(name)
        if newest is not None and request.epoch < newest + request.begins:
            reasons[request.span] = Reason.PRODUCER_FENCED.code
        else:
            marks.raise_to(name, request.epoch)


def judge_consumed(requests: list[TransactionalRequest], reasons: Reasons, marks: Marks) -> None:
    """Refuse the rows of requests that do not go on where the last stopped.

    Nor does one of before a seek, once one of after it was taken. A request that is refused already
    moves nothing.
    """
    for request in requests:
        consumed = request.consumed
        if consumed is None or reasons[request.span].any():
            continue
        place = consumed["group"], consumed["topic_id"], consumed["partition"]
        generation = consumed.get("generation", 0)
        newest = marks.get(generation_mark(*place)) or 0
        name = consumed_mark(*place, generation)
        at = marks.get(name)
        if generation < newest or (at is not None and at != consumed["from_offset"]):
            reasons[request.span] = Reason.CONSUMED_OVERLAP.code
            continue
        marks.moved[name] = consumed["next_offset"]
        if generation > newest:
            marks.moved[generation_mark(*place)] = generation


def move_sequences(requests: list[TransactionalRequest], reasons: Reasons, marks: Marks) -> None:
    """Note how far each fenceable producer has come: requests of which a row was not refused."""
    for request in requests:
        sequence = request.next_sequence
        if sequence is not None and request.is_record and not reasons[request.span].all():
            marks.raise_to(sequence_mark(request.topic_id, request.producer or ""), sequence)
