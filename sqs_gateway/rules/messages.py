"""A message of SQS as a record of the queue, and a record as a message. Pure."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from typing import Any, Final

import orjson

from lakequeue.wire import DeadLetterHeader, dumps_exactly
from sqs_gateway.rules import digests
from sqs_gateway.rules.characters import allowed
from sqs_gateway.rules.errors import INVALID_CONTENTS, INVALID_PARAMETER, SqsError, invalid, missing
from sqs_gateway.rules.message_attributes import (
    OUR_HEADERS,
    TRACE_HEADER,
    Attribute,
    attributes_of,
    system_attributes_of,
)
from sqs_gateway.rules.shapes import Input

TYPES: Final = "sqs-types"
"""Header: JSON of the types of attributes that are not `String`."""
TRACE: Final = "sqs-trace"
DEDUPLICATION: Final = "sqs-deduplication-id"
_GRAPHIC: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_SEQUENCE_DIGITS: Final = 20
_NOT_FOR_THIS_TYPE: Final = "The request include parameter that is not valid for this queue type."


@dataclass(frozen=True, slots=True)
class Rules:
    """What a queue asks of its messages."""

    name: str
    topic_id: str
    fifo: bool
    delay_s: int
    most_bytes: int
    by_content: bool = False
    per_group: bool = False
    """Deduplication ids are compared within a message group only."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that may be sent."""

    body: str
    message_id: str
    key: str | None
    delay_s: float
    size: int
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    system: Mapping[str, Attribute] = field(default_factory=dict)
    deduplication: str | None = None

    @property
    def headers(self) -> list[tuple[str, str | bytes | None]]:
        """Those of its record."""
        found: list[tuple[str, str | bytes | None]] = [
            (name, one.value) for name, one in self.attributes.items()
        ]
        types = {name: one.type for name, one in self.attributes.items() if one.type != "String"}
        if types:
            found.append((TYPES, orjson.dumps(types)))
        found += [(TRACE, one.value) for one in self.system.values()]
        if self.deduplication is not None:
            found.append((DEDUPLICATION, self.deduplication))
        return found

    def answer(self, offset: int | None) -> dict[str, str]:
        """What the sender is told; `offset` of a record of a FIFO queue."""
        told = {"MessageId": self.message_id, "MD5OfMessageBody": digests.of_body(self.body)}
        for name, given in (
            ("MD5OfMessageAttributes", self.attributes),
            ("MD5OfMessageSystemAttributes", self.system),
        ):
            md5 = digests.of_attributes(given)
            if md5 is not None:
                told[name] = md5
        if offset is not None:
            told["SequenceNumber"] = sequence_number(offset)
        return told


def sent_of(given: Input, queue: Rules) -> Sent:
    """The message of a request. Raises `SqsError`."""
    body = given.get("MessageBody")
    if not body:
        raise missing("MessageBody")
    if not allowed(body):
        raise SqsError(
            INVALID_CONTENTS,
            "Invalid binary character was found in the message body, the set of allowed characters"
            " is #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF",
        )
    attributes = attributes_of(given.get("MessageAttributes") or {})
    system = system_attributes_of(given.get("MessageSystemAttributes") or {})
    size = len(body.encode()) + sum(one.size(name) for name, one in attributes.items())
    if size > queue.most_bytes:
        raise SqsError(
            INVALID_PARAMETER,
            "One or more parameters are invalid. Reason: Message must be shorter than"
            f" {queue.most_bytes} bytes.",
        )
    group = named(given, "MessageGroupId")
    deduplication = named(given, "MessageDeduplicationId")
    delay = given.get("DelaySeconds")
    if not queue.fifo:
        if deduplication is not None:
            raise invalid("MessageDeduplicationId", deduplication, _NOT_FOR_THIS_TYPE)
        return Sent(
            body,
            str(uuid.uuid4()),
            group,
            queue.delay_s if delay is None else delay,
            size,
            attributes,
            system,
        )
    if delay:
        raise invalid("DelaySeconds", delay, _NOT_FOR_THIS_TYPE)
    if group is None:
        raise missing("MessageGroupId")
    if deduplication is None:
        if not queue.by_content:
            raise SqsError(
                INVALID_PARAMETER,
                "The queue should either have ContentBasedDeduplication enabled or"
                " MessageDeduplicationId provided explicitly",
            )
        deduplication = sha256(body.encode()).hexdigest()
    message_id = fifo_id(queue, group, deduplication)
    return Sent(body, message_id, group, queue.delay_s, size, attributes, system, deduplication)


def named(given: Input, name: str) -> str | None:
    """An id that a client has chosen. Raises `SqsError`."""
    text: str | None = given.get(name)
    if text is None:
        return None
    good = all(c in _GRAPHIC or (c.isascii() and c.isalnum()) for c in text)
    if not 1 <= len(text) <= 128 or not good:
        raise invalid(
            name,
            text,
            f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length.",
        )
    return text


def fifo_id(queue: Rules, group: str, deduplication: str) -> str:
    """The id of a message of a FIFO queue: that of another with the same deduplication id.

    The queue drops a record whose id it had within the topic's window, and so the copy is answered
    with the id of the first.
    """
    scope = f"{len(group)}:{group}/" if queue.per_group else ""
    return _uuid(f"{queue.topic_id}/{scope}{deduplication}")


def _uuid(text: str) -> str:
    return str(uuid.UUID(bytes=blake2b(text.encode(), digest_size=16).digest(), version=4))


def sequence_number(offset: int) -> str:
    """Of a record: it rises within a message group, as all of it is in one partition."""
    return str(offset).zfill(_SEQUENCE_DIGITS)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a receive asks for beside the message."""

    system: Callable[[str], bool]
    attributes: Callable[[str], bool]


def message_id_of(record: Mapping[str, Any], headers: Mapping[str, str | bytes]) -> str:
    """A record's message id, or a UUID that is made from it if it is none.

    A dead message has that of the message which has died.
    """
    given = record.get("message_id")
    if DeadLetterHeader.MESSAGE_ID in headers:
        given = _text(headers[DeadLetterHeader.MESSAGE_ID])
    place = f"{record.get('topic')}/{record.get('partition')}/{record.get('offset')}"
    if isinstance(given, str) and len(given) == 36:
        try:
            return str(uuid.UUID(given))
        except ValueError:
            pass
    return _uuid(given or place)


def body_of(record: Mapping[str, Any]) -> str:
    """Text as it is, other JSON as its text, bytes as base64."""
    encoded = record.get("value_base64")
    if isinstance(encoded, str):
        return encoded
    value = record.get("value")
    if isinstance(value, str):
        return value
    return "" if value is None else dumps_exactly(value).decode()


def received(
    record: Mapping[str, Any],
    handle: str,
    wanted: Wanted,
    *,
    fifo: bool,
    account: str,
    now_ms: int,
    arn: Callable[[str], str],
) -> dict[str, Any]:
    """A record as a receive answers it."""
    body = body_of(record)
    headers = _headers(record)
    message: dict[str, Any] = {
        "MessageId": message_id_of(record, headers),
        "ReceiptHandle": handle,
        "MD5OfBody": digests.of_body(body),
        "Body": body,
    }
    system = _system(record, headers, fifo=fifo, account=account, now_ms=now_ms, arn=arn)
    if asked := {name: value for name, value in system.items() if wanted.system(name)}:
        message["Attributes"] = asked
    attributes = {
        name: one for name, one in attributes_in(headers).items() if wanted.attributes(name)
    }
    md5 = digests.of_attributes(attributes)
    if md5 is not None:
        message["MessageAttributes"] = {name: one.wire() for name, one in attributes.items()}
        message["MD5OfMessageAttributes"] = md5
    return message


def _headers(record: Mapping[str, Any]) -> dict[str, str | bytes]:
    found: dict[str, str | bytes] = {}
    for one in record.get("headers") or ():
        if one.get("value_base64") is not None:
            found[one["key"]] = base64.b64decode(one["value_base64"])
        elif one.get("value") is not None:
            found[one["key"]] = one["value"]
    return found


def attributes_in(headers: Mapping[str, str | bytes]) -> dict[str, Attribute]:
    """Headers as message attributes; those of our own are none, and empty ones cannot be."""
    types: Any = None
    if TYPES in headers:
        try:
            types = orjson.loads(headers[TYPES])
        except orjson.JSONDecodeError:
            types = None
    found: dict[str, Attribute] = {}
    for name, value in headers.items():
        if not value or not name or name.startswith(OUR_HEADERS):
            continue
        kind = types.get(name) if isinstance(types, dict) else None
        if not isinstance(kind, str) or not kind.startswith(("String", "Number", "Binary")):
            kind = "Binary" if isinstance(value, bytes) else "String"
        if kind.startswith("Binary"):
            value = value if isinstance(value, bytes) else value.encode()
        elif isinstance(value, bytes):
            kind = "Binary"
        found[name] = Attribute(kind, value)
    return found


def _system(
    record: Mapping[str, Any],
    headers: Mapping[str, str | bytes],
    *,
    fifo: bool,
    account: str,
    now_ms: int,
    arn: Callable[[str], str],
) -> dict[str, str]:
    # Of a dead message, over all queues that it was received from.
    before = _text(headers.get(DeadLetterHeader.ATTEMPTS, "0"))
    attempt = int(record.get("attempt") or 1)
    attempt += int(before) if before.isascii() and before.isdigit() and len(before) < 10 else 0
    first_us = record.get("first_delivered_at")
    found = {
        "SenderId": account,
        "SentTimestamp": str(int(record.get("timestamp") or 0) // 1_000),
        "ApproximateReceiveCount": str(attempt),
        "ApproximateFirstReceiveTimestamp": str(int(first_us) // 1_000 if first_us else now_ms),
    }
    key = record.get("key", record.get("key_base64"))
    if key is not None:
        found["MessageGroupId"] = key if isinstance(key, str) else dumps_exactly(key).decode()
    if fifo:
        found["SequenceNumber"] = sequence_number(int(record.get("offset") or 0))
        found.setdefault("MessageGroupId", "")
        found["MessageDeduplicationId"] = _text(
            headers.get(DEDUPLICATION, str(record.get("message_id") or ""))
        )
    if TRACE in headers:
        found[TRACE_HEADER] = _text(headers[TRACE])
    if DeadLetterHeader.TOPIC in headers:
        found["DeadLetterQueueSourceArn"] = arn(_text(headers[DeadLetterHeader.TOPIC]))
    return found


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
