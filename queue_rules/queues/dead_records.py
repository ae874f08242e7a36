"""What a dead letter says, and which topic it goes to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from lakequeue.wire import (
    DEAD_LETTER_HEADERS,
    MAX_DEDUP_WINDOW_MS,
    MAX_HEADERS,
    UNDECODABLE,
    DeadLetterHeader,
    dead_letter_id,
    default_dead_letters,
    headers_to_json,
    put_key_value,
)
from queue_rules.queues.attempts import Attempt
from queue_tables.schema.topic_rules import Topic

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_TIME: Final = -2_208_988_800_000_000
_END_TIME: Final = 7_258_118_400_000_000
"""1900 and 2200, in µs: a produced record has a time between them."""


def dead_letter_of(
    record: Mapping[str, Any], topic_id: str, group: str, one: Attempt, generation: int = 0
) -> dict[str, Any]:
    """The record of the wire for a record as browsing shows it, and its last attempt.

    One that cannot be read is a letter with its bytes, as far as they can be had, which says why.
    """
    said = [
        (DeadLetterHeader.GROUP, group),
        (DeadLetterHeader.TOPIC, record["topic"]),
        (DeadLetterHeader.PARTITION, str(record["partition"])),
        (DeadLetterHeader.OFFSET, str(record["offset"])),
        (DeadLetterHeader.ATTEMPTS, str(one.attempt)),
        (DeadLetterHeader.REASON, one.reason),
        (DeadLetterHeader.FIRST_AT, _time(one.first_at)),
        (DeadLetterHeader.LAST_AT, _time(one.deadline)),
    ]
    if message_id := _message_id(record):
        said.append((DeadLetterHeader.MESSAGE_ID, message_id))
    if one.nack_reason:
        said.append((DeadLetterHeader.NACK_REASON, one.nack_reason))
    if UNDECODABLE in record:
        said.append((DeadLetterHeader.UNDECODABLE, record[UNDECODABLE]))
    micros = record["timestamp"]
    # As text: a number before 1973 would be taken for seconds or milliseconds.
    timestamp = _text_of(micros) if _FIRST_TIME <= micros < _END_TIME else None
    if timestamp is None:
        said.append((DeadLetterHeader.TIMESTAMP, str(micros)))
    own = [h for h in record["headers"] if h["key"] not in DEAD_LETTER_HEADERS]
    room = MAX_HEADERS - len(said) - 1
    if len(own) > room:
        more = orjson.dumps(own[room:]).decode()
        own, said = own[:room], [*said, (DeadLetterHeader.MORE, more)]
    return {
        **{name: value for name, value in record.items() if name in _CONTENT},
        "headers": [*own, *headers_to_json((name, text.encode()) for name, text in said)],
        "timestamp": timestamp,
        "message_id": dead_letter_id(
            group, topic_id, record["partition"], record["offset"], generation
        ),
    }


_CONTENT: Final = frozenset({"key", "key_base64", "value", "value_base64"})


_LONGEST_ID: Final = 512
"""Bytes: longer headers of a dead letter count as its own, and it might have no room for them."""


def _message_id(record: Mapping[str, Any]) -> str:
    """That of the first record; empty if there is none, or if it is too long."""
    before = (h.get("value") for h in record["headers"] if h["key"] == DeadLetterHeader.MESSAGE_ID)
    found = next(before, None) or record.get("message_id") or ""
    return found if len(found.encode()) <= _LONGEST_ID else ""


def as_bytes(letter: Mapping[str, Any]) -> dict[str, Any]:
    """The same letter with key and value as bytes: what a topic takes that refuses its JSON."""
    raw = {name: value for name, value in letter.items() if name not in _CONTENT}
    for name in ("key", "value"):
        data = letter.get(name)
        if data is None:
            raw |= {n: letter[n] for n in (name, f"{name}_base64") if n in letter}
        elif isinstance(data, str):
            put_key_value(raw, "key" if name == "key" else "value", data.encode(), 0)
        else:
            put_key_value(raw, "key" if name == "key" else "value", orjson.dumps(data), 0)
    return raw


def _time(micros: int) -> str:
    """RFC 3339; empty for none, the number itself where a datetime cannot hold it."""
    if micros == 0:
        return ""
    try:
        return _text_of(micros)
    except OverflowError:
        return f"{micros} µs"


def _text_of(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat()


def dead_letters_of(options: Mapping[str, Any], topic: str, source: Topic | None) -> str:
    """What the group says, else the topic, else its default. `source`: the topic, if it exists."""
    named = options.get("dead_letter_topic")
    if named is not None:
        return str(named)
    return default_dead_letters(topic) if source is None else source.dead_letters


def new_dead_letters(source: Topic | None) -> dict[str, Any]:
    """The settings of a dead-letter topic that has to be made.

    Ids are remembered for as long as can be, and bigger records fit: headers are added.
    """
    config: dict[str, Any] = {"dedup_window_ms": MAX_DEDUP_WINDOW_MS}
    return config if source is None else config | {"partitions": source.partitions}
