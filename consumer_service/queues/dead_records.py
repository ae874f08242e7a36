"""What a dead letter says. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from consumer_service.queues.attempts import Attempt
from lakequeue.wire import (
    DEAD_LETTER_HEADERS,
    MAX_HEADERS,
    DeadLetterHeader,
    dead_letter_id,
    headers_to_json,
    key_value_to_json,
)


def dead_letter_of(
    row: dict[str, Any], group: str, one: Attempt, generation: int = 0
) -> dict[str, Any]:
    """The record of the wire for a row of `log` and its last attempt. Pure."""
    said = [
        (DeadLetterHeader.GROUP, group),
        (DeadLetterHeader.TOPIC, row["topic"]),
        (DeadLetterHeader.PARTITION, str(row["partition"])),
        (DeadLetterHeader.OFFSET, str(row["offset"])),
        (DeadLetterHeader.ATTEMPTS, str(one.attempt)),
        (DeadLetterHeader.REASON, one.reason),
        (DeadLetterHeader.FIRST_AT, _time(one.first_at)),
        (DeadLetterHeader.LAST_AT, _time(one.deadline)),
    ]
    own = [
        (h["key"], h["value"]) for h in row["headers"] or () if h["key"] not in DEAD_LETTER_HEADERS
    ]
    room = MAX_HEADERS - len(said) - 1
    if len(own) > room:
        more = orjson.dumps(headers_to_json(own[room:])).decode()
        own, said = own[:room], [*said, (DeadLetterHeader.MORE, more)]
    return {
        **key_value_to_json("key", row["key"], row["key_format"] or 0),
        **key_value_to_json("value", row["value"], row["value_format"] or 0),
        "headers": headers_to_json([*own, *((name, text.encode()) for name, text in said)]),
        "timestamp": row["timestamp"],
        "message_id": dead_letter_id(
            group, row["topic_id"], row["partition"], row["offset"], generation
        ),
    }


def _time(micros: int) -> str:
    return "" if micros == 0 else datetime.fromtimestamp(micros / 1e6, UTC).isoformat()
