"""Records whose values their topic does not take, and that go to its dead letters instead. Pure.

They stay in their request, and one commit has all of it. So a record is durable in one of both
topics, and what is sent twice is one dead letter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import orjson

from lakequeue.clock import Micros
from lakequeue.errors import LakequeueError
from lakequeue.partitioner import PARTITIONERS
from lakequeue.wire import DEAD_LETTER_HEADERS, MAX_HEADERS, DeadLetterHeader, headers_to_json
from queue_rules.produce.rows import NO_PARTITION, Headers, Request, Rows
from queue_rules.produce.validation import Limits, at_record, too_large
from queue_tables.schema.topic_rules import Topic

WRONG_VALUE: Final = "wrong_value"
"""The reason of such a dead letter."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FAULT_CHARS: Final = 500


class Parted(NamedTuple):
    """A request, one part a topic, with those of dead letters behind the others."""

    parts: list[Request]
    topics: list[Topic]
    numbers: Sequence[int]
    """Where in the request the records of the parts stood, one part after the other."""


def parted(
    parts: Sequence[Request],
    topics: Sequence[Topic],
    numbers: Sequence[int],
    now: Micros,
    letters_of: Callable[[Topic], Topic],
    limits_of: Callable[[Topic], Limits],
) -> Parted:
    """Part off what is dead. `letters_of`: the topic for the dead letters of a topic.

    Raises `TooLarge` for a record that is too large for that.
    """
    if not any(part.rows.dead for part in parts):
        return Parted(list(parts), list(topics), numbers)
    kept: list[tuple[Request, Topic, list[int]]] = []
    dead: list[tuple[Request, Topic, list[int]]] = []
    first = 0
    for part, topic in zip(parts, topics, strict=True):
        mine = numbers[first : first + len(part.rows)]
        first += len(part.rows)
        faults = part.rows.dead or {}
        rest = [i for i in range(len(part.rows)) if i not in faults]
        if faults:
            letters = letters_of(topic)
            limits = limits_of(letters)
            rows = _letters(part.rows, faults, topic, limits, mine, now)
            of = _request(part, letters.topic_id, rows)
            of.dead_letter_topic = letters.topic
            dead.append((of, letters, [mine[i] for i in faults]))
        if rest:
            rows = taken(part.rows, rest) if faults else part.rows
            kept.append((_request(part, part.topic_id, rows), topic, [mine[i] for i in rest]))
    every = kept + dead
    return Parted(
        [part for part, _, _ in every],
        [topic for _, topic, _ in every],
        [number for _, _, some in every for number in some],
    )


def taken(rows: Rows, places: Sequence[int]) -> Rows:
    """Some of the rows; those of a numbered request keep their numbers."""
    return Rows(
        [rows.keys[i] for i in places],
        [rows.key_formats[i] for i in places],
        [rows.values[i] for i in places],
        [rows.value_formats[i] for i in places],
        None if rows.headers is None else [rows.headers[i] for i in places],
        [rows.partitions[i] for i in places],
        [rows.timestamps[i] for i in places],
        [rows.message_ids[i] for i in places],
        None if rows.timings is None else [rows.timings[i] for i in places],
        sizes=[rows.sizes[i] for i in places],
        places=list(places),
    )


def letter_headers(
    own: Headers, topic: str, partition: int | None, fault: str, now: Micros
) -> Headers:
    """The headers of a dead letter: the record's own, as far as there is room, and why it died."""
    said = [
        (DeadLetterHeader.TOPIC, topic),
        (DeadLetterHeader.ATTEMPTS, "0"),
        (DeadLetterHeader.REASON, WRONG_VALUE),
        (DeadLetterHeader.FAULT, fault[:_FAULT_CHARS]),
        (DeadLetterHeader.FIRST_AT, ""),
        (DeadLetterHeader.LAST_AT, (_EPOCH + timedelta(microseconds=now)).isoformat()),
    ]
    if partition is not None:
        said.append((DeadLetterHeader.PARTITION, str(partition)))
    own = [(name, value) for name, value in own if name not in DEAD_LETTER_HEADERS]
    room = MAX_HEADERS - len(said) - 1
    if len(own) > room:
        more = orjson.dumps(headers_to_json(own[room:])).decode()
        own, said = own[:room], [*said, (DeadLetterHeader.MORE, more)]
    return [*own, *((name, text.encode(errors="replace")) for name, text in said)]


def letter_id(topic_id: str, message_id: str | None, value: bytes | None) -> str | None:
    """Message id of a dead letter: the same if a record is sent again.

    Several topics may have one topic for dead letters, and the same ids. And an id that comes again
    with another value is another letter: nothing was ordered under it.
    """
    if message_id is None:
        return None
    told = b"\0".join((topic_id.encode(), message_id.encode(errors="replace"), value or b""))
    return f"value:{hashlib.sha256(told).hexdigest()}"


def _letters(
    rows: Rows,
    faults: Mapping[int, str],
    topic: Topic,
    limits: Limits,
    numbers: Sequence[int],
    now: Micros,
) -> Rows:
    found = taken(rows, list(faults))
    rule, own = PARTITIONERS[limits.partitioner], found.headers
    found.timings = None
    found.faulty = len(faults)
    found.headers = []
    for i, (place, fault) in enumerate(faults.items()):
        if found.sizes[i] > limits.max_record_bytes:
            error: LakequeueError = too_large(found.sizes[i], limits.max_record_bytes)
            raise at_record(error, numbers[place])
        partition = None if found.partitions[i] == NO_PARTITION else found.partitions[i]
        found.headers.append(
            letter_headers([] if own is None else own[i], topic.topic, partition, fault, now)
        )
        key = found.keys[i]
        found.partitions[i] = NO_PARTITION if key is None else rule(key, limits.partitions)
        found.message_ids[i] = letter_id(topic.topic_id, found.message_ids[i], found.values[i])
    return found


def _request(part: Request, topic_id: str, rows: Rows) -> Request:
    """A part with other rows, of the same envelope."""
    return Request(
        topic_id,
        rows,
        part.producer_id,
        part.producer_epoch,
        None if topic_id != part.topic_id else part.sequence,
        part.after,
        part.atomic,
        part.consumed,
    )
