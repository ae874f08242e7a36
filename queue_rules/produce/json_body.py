"""Produce requests in JSON: parsed, checked, and turned into columns. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson
from pydantic import ValidationError

from lakequeue import wire
from lakequeue.errors import (
    InvalidRequest,
    LakequeueError,
    MalformedBody,
)
from lakequeue.records import checked_name
from lakequeue.wire.shapes import one_unknown_name
from queue_rules.produce.exact_json import loads
from queue_rules.produce.record_count import has_more
from queue_rules.produce.rows import Request, Rows, no_record
from queue_rules.produce.validation import Limits, at_record, columns_of, too_many
from queue_tables.schema.marks import NO_TOPIC

_MAX_SEQUENCE = (1 << 63) - 1
_NOTHING_SAID: Final = wire.ProduceEnvelope()
"""Nobody changes it."""
_FEW_NAMES: Final = len(wire.ProduceEnvelope.model_fields)


def json_request_of(body: bytes, topic_id: str, limits: Limits) -> Request:
    records, envelope = _whole(body, limits.max_records)
    if not records and envelope.consumed is not None:
        # Nothing came of what was consumed: that has to count all the same.
        return request_from(NO_TOPIC, envelope, no_record())
    return request_from(topic_id, envelope, checked_columns(records, envelope, limits))


def _whole(body: bytes, most: int) -> tuple[list[Any], wire.ProduceEnvelope]:
    """The records of a JSON body, not looked at yet, and the envelope."""
    if has_more(body, most, at=2):
        raise too_many(most + 1, most)
    try:
        whole = loads(body)
    except orjson.JSONDecodeError as e:
        raise MalformedBody(
            f"the body is not JSON: {e}", hint='send {"records": [{"value": …}]}', stored="no"
        ) from None
    if type(whole) is not dict or type(whole.get("records")) is not list:
        raise MalformedBody(
            "the body has no list of records",
            hint='send {"records": [{"value": …}]}',
            stored="no",
            field="records",
        )
    records: list[Any] = whole.pop("records")
    envelope = envelope_of(whole, strict=True)
    if len(records) > most:
        raise too_many(len(records), most)
    return records, envelope


@dataclass(frozen=True, slots=True)
class Parts:
    """A request with records of several topics: one part a topic, all of one envelope."""

    topics: list[str]
    requests: list[Request]
    numbers: list[int]
    """Where in the request the records stood, one part after the other."""


def parts_of(body: bytes, limits_of: Callable[[str], tuple[str, Limits]], most: int) -> Parts:
    """Parse and check a JSON request whose records each name their `topic`.

    `limits_of`: topic → its id and limits. Raises as `request_of` does, and what `limits_of` does.
    """

    records, envelope = _whole(body, most)
    if envelope.sequence is not None:
        raise InvalidRequest(
            "sequence is given for records of several topics",
            hint="sequences run per topic: give message_id instead",
            field="sequence",
            stored="no",
        )
    if not records:
        if envelope.consumed is None:
            raise InvalidRequest(
                "the request has no records",
                hint="send at least one",
                field="records",
                stored="no",
            )
        bare = request_from(NO_TOPIC, envelope, no_record())
        return Parts([envelope.consumed.topic], [bare], [0])
    mine: dict[str, list[Any]] = {}
    numbers: dict[str, list[int]] = {}
    for i, record in enumerate(records):
        topic = record.pop("topic", None) if type(record) is dict else None
        if type(topic) is not str:
            raise at_record(InvalidRequest("topic is missing", hint="name it", field="topic"), i)
        mine.setdefault(topic, []).append(record)
        numbers.setdefault(topic, []).append(i)
    requests = []
    for topic, some in mine.items():
        try:
            topic_id, limits = limits_of(topic)
        except LakequeueError as e:
            raise at_record(e, numbers[topic][0]) from None
        rows = columns_of(some, limits, numbers=numbers[topic])
        requests.append(request_from(topic_id, envelope, rows))
    return Parts(list(mine), requests, [n for some in numbers.values() for n in some])


def checked_columns(records: Any, envelope: wire.ProduceEnvelope, limits: Limits) -> Rows:
    numbered = envelope.producer_id is not None and envelope.sequence is not None
    return columns_of(
        records,
        limits,
        message_id_prefix=envelope.producer_id if numbered else None,
        first_sequence=envelope.sequence or 0,
    )


def envelope_of(given: dict[str, Any], *, strict: bool) -> wire.ProduceEnvelope:
    if not given:
        return _NOTHING_SAID
    if len(given) > _FEW_NAMES:
        given = one_unknown_name(wire.ProduceEnvelope, given)
    if "consumed" in given:
        given["consumed"] = one_unknown_name(wire.Consumed, given["consumed"])
    try:
        envelope = wire.ProduceEnvelope.model_validate(given, strict=strict)
    except ValidationError as e:
        raise invalid(e) from None
    for name in ("sequence", "producer_epoch"):
        if getattr(envelope, name) is not None and envelope.producer_id is None:
            raise InvalidRequest(
                f"{name} is given without producer_id",
                hint="give both, or neither",
                field="producer_id",
                stored="no",
            )
    if envelope.producer_epoch is not None:
        checked_name(envelope.producer_id or "", "producer")
    consumed = envelope.consumed
    if consumed is not None and consumed.next_offset <= consumed.from_offset:
        raise InvalidRequest(
            f"consumed: next_offset {consumed.next_offset} is not above from_offset "
            f"{consumed.from_offset}",
            hint="next_offset is that of the last record consumed, plus 1",
            field="consumed.next_offset",
            stored="no",
        )
    return envelope


def request_from(topic_id: str, envelope: wire.ProduceEnvelope, rows: Rows) -> Request:
    sequence = envelope.sequence
    if sequence is not None and sequence + len(rows) > _MAX_SEQUENCE:
        raise InvalidRequest(
            f"sequence {sequence} + {len(rows)} records is beyond 2^63 - 1",
            hint="take a new producer_id",
            field="sequence",
            stored="no",
        )
    return Request(
        topic_id=topic_id,
        rows=rows,
        producer_id=envelope.producer_id,
        producer_epoch=envelope.producer_epoch,
        sequence=sequence,
        after=envelope.after or 0,
        # What came of consumed records counts with them, or not at all.
        atomic=envelope.atomic or envelope.consumed is not None,
        consumed=envelope.consumed,
    )


def invalid(error: ValidationError) -> InvalidRequest:
    """The first fault that pydantic found, as ours."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"])[:100] or "body"
    return InvalidRequest(
        f"{field}: {first['msg']}", hint="see /openapi.json", field=field, stored="no"
    )
