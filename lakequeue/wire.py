"""The HTTP wire, written once for both sides: media types, names, limits, shapes, encodings.

Requests and small answers are pydantic models. Records pass through in thousands, so they are
plain dicts here, made and read by `key_value_to_json` and `key_value_from_json`; a server
validates each record of a request by hand, to name the record and the field.

Times on the wire are whole microseconds since 1970 UTC; a produced record may also give an
RFC 3339 string. Names end in their unit (`_ms`); the request header `Lakequeue-Host` tells a
member's host name, for people who look for it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field

from lakequeue.errors import InvalidRequest
from lakequeue.records import Format, Record

# -- media types, headers, limits ---------------------------------------------------------------

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
"""One record object a line; the envelope fields then come as query parameters."""
ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
"""Columns: value (required), key, partition, message_id, timestamp, headers."""
SSE: Final = "text/event-stream"
PROBLEM: Final = "application/problem+json"
ENCODINGS: Final = ("gzip", "zstd")

DEFAULT_INGEST_URL: Final = "http://127.0.0.1:8080"
DEFAULT_CONSUMER_URL: Final = "http://127.0.0.1:8081"

HOST_HEADER: Final = "Lakequeue-Host"

MAX_RECORD_BYTES: Final = 1 << 20
MAX_REQUEST_BYTES: Final = 16 << 20
MAX_REQUEST_RECORDS: Final = 10_000
MAX_HEADERS: Final = 64
MAX_MESSAGE_ID_CHARS: Final = 512
DEFAULT_PARTITIONS: Final = 4
MAX_PARTITIONS: Final = 10_000
DEFAULT_DEDUP_WINDOW_MS: Final = 10 * 60_000
MAX_DEDUP_WINDOW_MS: Final = 24 * 3_600_000
MAX_WAIT_MS: Final = 60_000
"""Longest `wait_ms` of a poll and `timeout_ms` of `wait=ordered`."""
DEFAULT_ORDER_TIMEOUT_MS: Final = 10_000

RECORD_FIELDS: Final = frozenset(
    {
        "key",
        "key_base64",
        "value",
        "value_base64",
        "headers",
        "partition",
        "message_id",
        "timestamp",
    }
)
"""What a produced record may have; anything else is refused, so that a typo is not lost data."""

Partitioner = Literal["crc32", "murmur2"]
GroupMode = Literal["stream", "queue"]
From = Literal["earliest", "latest"]
SeekTo = Literal["earliest", "latest", "committed", "offset", "time"]


class _Model(BaseModel):
    """A shape of the wire: unknown fields of a request are refused."""

    model_config = ConfigDict(extra="forbid")


class _Answer(BaseModel):
    """A shape that a server answers with: a newer server may add fields."""

    model_config = ConfigDict(extra="ignore")


# -- topics (8080) ------------------------------------------------------------------------------


class TopicConfig(_Model):
    """`PUT /v1/topics/{topic}`: everything has a default."""

    partitions: int = Field(DEFAULT_PARTITIONS, ge=1, le=MAX_PARTITIONS)
    partitioner: Partitioner = "crc32"
    retention_ms: int | None = Field(None, ge=1)
    ttl_ms: int | None = Field(None, ge=1)
    dedup_window_ms: int = Field(DEFAULT_DEDUP_WINDOW_MS, ge=0, le=MAX_DEDUP_WINDOW_MS)
    max_record_bytes: int | None = Field(None, ge=1)
    value_schema: str | None = None
    dead_letter_topic: str | None = None


class TopicChanges(_Model):
    """`PATCH /v1/topics/{topic}`: only the fields that are set change; partitions only grow."""

    partitions: int | None = Field(None, ge=1, le=MAX_PARTITIONS)
    retention_ms: int | None = Field(None, ge=1)
    ttl_ms: int | None = Field(None, ge=1)
    dedup_window_ms: int | None = Field(None, ge=0, le=MAX_DEDUP_WINDOW_MS)
    max_record_bytes: int | None = Field(None, ge=1)
    value_schema: str | None = None
    dead_letter_topic: str | None = None

    def changes(self) -> dict[str, Any]:
        """The fields that were sent, an explicit null included."""
        return self.model_dump(exclude_unset=True)


class TopicDescription(_Answer):
    """`GET /v1/topics/{topic}`, and the answer to PUT and PATCH."""

    topic: str
    topic_id: str
    version: int
    partitions: int
    partitioner: Partitioner = "crc32"
    retention_ms: int | None = None
    ttl_ms: int | None = None
    dedup_window_ms: int = DEFAULT_DEDUP_WINDOW_MS
    max_record_bytes: int | None = None
    value_schema: str | None = None
    dead_letter_topic: str | None = None


class TopicList(_Answer):
    """`GET /v1/topics`, sorted by name."""

    topics: list[TopicDescription]


# -- produce (8080) -----------------------------------------------------------------------------


class Consumed(_Model):
    """What a produce request was made from; judged by the order job, with the request."""

    group: str
    topic: str
    partition: int
    from_offset: int
    next_offset: int
    epoch: int


class ProduceEnvelope(_Model):
    """`POST /v1/topics/{topic}/records`, apart from the records, which are checked one by one.

    Record i of a request with `sequence` has sequence `sequence + i`; without a `message_id` of
    its own it is deduplicated by `producer_id:sequence`.
    """

    producer_id: str | None = Field(None, min_length=1, max_length=249)
    producer_epoch: int | None = Field(None, ge=0)
    sequence: int | None = Field(None, ge=0)
    after: int | None = Field(None, ge=0)
    """Last stamp that the producer has seen: this request gets a higher one."""
    consumed: Consumed | None = None
    atomic: bool = False


class ProduceQuery(_Model):
    """Query parameters of a produce request."""

    wait: Literal["committed", "ordered"] = "committed"
    timeout_ms: int = Field(DEFAULT_ORDER_TIMEOUT_MS, ge=1, le=MAX_WAIT_MS)


class ProducedRecord(_Answer):
    """Where one record went, in the order of the request."""

    partition: int
    message_id: str | None = None
    offset: int | None = None
    """With `wait=ordered` only."""
    duplicate: bool = False
    """The offset (and partition) are those of the original."""


class ProduceAnswer(_Answer):
    """200 of a produce request: every record is durable. A refused row has `reason` instead."""

    records: list[ProducedRecord]
    stamp: int


def derived_message_id(producer_id: str, sequence: int) -> str:
    """The message id of a record that has none of its own."""
    return f"{producer_id}:{sequence}"


# -- groups (8081) ------------------------------------------------------------------------------


class JoinRequest(_Model):
    """`POST /v1/groups/{group}/members`."""

    topics: list[str] = Field(min_length=1)
    mode: GroupMode = "stream"
    delivery: Literal["at_least_once", "at_most_once"] = "at_least_once"
    from_: From = Field("earliest", alias="from")
    """Where partitions without a position start. New partitions start at earliest, always."""
    session_timeout_ms: int | None = Field(None, ge=1_000, le=300_000)
    max_poll_interval_ms: int | None = Field(None, ge=1_000)

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Assigned(_Answer):
    """One partition of a member. `epoch` is null until its take-over has finished."""

    topic: str
    partition: int
    epoch: int | None = None


class JoinAnswer(_Answer):
    """201: joined. The assignment may still be empty; polls tell it as it changes."""

    member_id: str
    assignment: list[Assigned] = []
    assignment_version: int = 0
    session_timeout_ms: int


class HeartbeatAnswer(_Answer):
    """200 of a heartbeat."""

    assignment: list[Assigned] = []
    assignment_version: int = 0


class PollQuery(_Model):
    """Query parameters of `GET …/records`."""

    max: int = Field(500, ge=1, le=MAX_REQUEST_RECORDS)
    wait_ms: int = Field(20_000, ge=0, le=MAX_WAIT_MS)


class PollAnswer(_Answer):
    """200 of a poll: records in offset order within each partition; empty after `wait_ms`.

    `assignment` is what the member owns at this answer: records of a partition that is not in it
    must not be processed any more.
    """

    records: list[dict[str, Any]]
    assignment: list[Assigned] = []
    assignment_version: int = 0


class CommitPosition(_Model):
    """Commit by position: `offset` is the next one to deliver."""

    topic: str
    partition: int
    offset: int = Field(ge=0)
    epoch: int | None = None
    """Epoch under which the records were delivered; null: the member's current one."""


class Nack(_Model):
    """Queue groups: give a record back, to be delivered again after `delay_ms`."""

    receipt: str
    delay_ms: int = Field(0, ge=0)


class Extend(_Model):
    """Queue groups: keep a record for longer."""

    receipt: str
    visibility_timeout_ms: int = Field(ge=1)


class AckRequest(_Model):
    """`POST …/members/{member}/acks`.

    Stream groups: of several receipts of a partition the highest counts; a record below it that
    is neither committed nor in `acks` is `skipped_records`, unless `commit_through`.
    """

    acks: list[str] = []
    commit_through: bool = False
    commit: list[CommitPosition] = []
    nacks: list[Nack] = []
    extend: list[Extend] = []


class Committed(_Answer):
    """A position that is durable now: `offset` is the next one to deliver."""

    topic: str
    partition: int
    offset: int


class RefusedAck(_Answer):
    """A partition whose epoch has been superseded; nothing of it was committed."""

    topic: str
    partition: int
    epoch: int
    current_epoch: int | None = None


class AckAnswer(_Answer):
    """200: all of it is durable. A 409 problem carries `committed` and `refused` as well."""

    committed: list[Committed] = []
    refused: list[RefusedAck] = []


class PartitionState(_Answer):
    """One row of a group's description."""

    topic: str
    topic_id: str | None = None
    partition: int
    committed_offset: int | None = None
    """Next offset to deliver; null: nothing committed yet."""
    start_offset: int = 0
    """First offset that still exists."""
    end_offset: int
    """Offset that the next record will get."""
    lag: int
    owner: str | None = None
    """Member id."""
    node: str | None = None
    epoch: int | None = None
    lease_expires_ms: int | None = None
    """Milliseconds until the owner's lease ends if nothing renews it."""


class MemberState(_Answer):
    """A live member."""

    member_id: str
    topics: list[str] = []
    node: str | None = None
    host: str | None = None
    partitions: int = 0


class GroupDescription(_Answer):
    """`GET /v1/groups/{group}`."""

    group: str
    mode: GroupMode = "stream"
    generation: int | None = None
    partitions: list[PartitionState]
    members: list[MemberState] = []


class GroupSummary(_Answer):
    """One row of `GET /v1/groups`."""

    group: str
    mode: GroupMode = "stream"
    members: int = 0


class GroupList(_Answer):
    """`GET /v1/groups`, sorted by name."""

    groups: list[GroupSummary]


class SeekRequest(_Model):
    """`POST /v1/groups/{group}/seek`: the group must have no live member.

    `shift` is added to the position that `to` names, and the result is kept within what exists:
    `{"to": "latest", "shift": -10}` is the last ten of each partition,
    `{"to": "committed", "shift": -5}` goes back by five. With `topics` a group that does not
    exist yet is created at those positions.
    """

    to: SeekTo
    offset: int | None = Field(None, ge=0)
    time: int | None = None
    """Microseconds: the first record whose timestamp is not before it."""
    shift: int = 0
    topics: list[str] | None = None
    partition: int | None = Field(None, ge=0)
    dry_run: bool = False


class SeekMove(_Answer):
    """One partition of a seek."""

    topic: str
    partition: int
    from_offset: int | None
    to_offset: int


class SeekAnswer(_Answer):
    """200: with `dry_run`, what would change; else what has changed, durably."""

    executed: bool
    partitions: list[SeekMove]


# -- keys, values, headers ----------------------------------------------------------------------


def to_bytes(given: Any) -> tuple[bytes | None, Format]:
    """Stored form of a Python key or value: bytes, str, None, or anything JSON can hold.

    Raises `InvalidRequest` for a value that JSON cannot hold.
    """
    if given is None:
        return None, Format.BYTES
    if isinstance(given, str):
        return given.encode(), Format.TEXT
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given), Format.BYTES
    try:
        return orjson.dumps(given), Format.JSON
    except (orjson.JSONEncodeError, TypeError) as e:
        raise InvalidRequest(
            f"a {type(given).__name__} cannot be sent: {e}",
            hint="send bytes, text, or what JSON can hold",
        ) from e


def from_bytes(data: bytes | None, fmt: Format | int) -> Any:
    """The Python key or value as it was sent: bytes, str, None, or the parsed JSON."""
    if data is None:
        return None
    if fmt == Format.TEXT:
        return data.decode()
    return orjson.loads(data) if fmt == Format.JSON else data


def key_value_to_json(
    name: Literal["key", "value"], data: bytes | None, fmt: int
) -> dict[str, Any]:
    """`{"key": …}` or `{"key_base64": "…"}`; JSON is passed through byte for byte.

    The result is for `orjson.dumps`: a JSON value is an `orjson.Fragment`.
    """
    if data is None:
        return {name: None}
    if fmt == Format.TEXT:
        return {name: data.decode()}
    if fmt == Format.JSON:
        return {name: orjson.Fragment(data)}
    return {f"{name}_base64": base64.b64encode(data).decode("ascii")}


def key_value_from_json(
    name: Literal["key", "value"], record: Mapping[str, Any]
) -> tuple[bytes | None, Format]:
    """Read `key` or `key_base64` (`value` likewise) of a record of the wire.

    Raises `InvalidRequest` with `field` when both are given or the base64 is damaged.
    """
    encoded = record.get(f"{name}_base64")
    plain = record.get(name)
    if encoded is None:
        return to_bytes(plain)
    if plain is not None:
        raise InvalidRequest(
            f"{name} and {name}_base64 are both given", hint="send one of them", field=name
        )
    return _unbase64(encoded, f"{name}_base64"), Format.BYTES


def _unbase64(encoded: Any, field: str) -> bytes:
    if isinstance(encoded, str):
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            pass
    raise InvalidRequest(f"{field} is not base64", hint="standard alphabet, padded", field=field)


def headers_to_json(headers: Iterable[tuple[str, bytes | None]]) -> list[dict[str, Any]]:
    """Headers in order, each `{"key", "value"}`, or `value_base64` for what is not UTF-8."""
    out: list[dict[str, Any]] = []
    for key, value in headers:
        if value is None:
            out.append({"key": key, "value": None})
            continue
        try:
            out.append({"key": key, "value": value.decode()})
        except UnicodeDecodeError:
            out.append({"key": key, "value_base64": base64.b64encode(value).decode("ascii")})
    return out


def headers_from_json(given: Any) -> list[tuple[str, bytes | None]]:
    """Read headers: an object of texts, or a list as `headers_to_json` makes it.

    Raises `InvalidRequest` with `field` = "headers".
    """
    if given is None:
        return []
    items: Iterable[Any]
    if isinstance(given, dict):
        items = ({"key": k, "value": v} for k, v in given.items())
    elif isinstance(given, list):
        items = given
    else:
        raise _bad_headers()
    out: list[tuple[str, bytes | None]] = []
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("key"), str):
            raise _bad_headers()
        value, encoded = item.get("value"), item.get("value_base64")
        if encoded is not None:
            out.append((item["key"], _unbase64(encoded, "headers")))
        elif value is None or isinstance(value, str):
            out.append((item["key"], None if value is None else value.encode()))
        else:
            raise _bad_headers()
    if len(out) > MAX_HEADERS:
        raise InvalidRequest(
            f"{len(out)} headers, at most {MAX_HEADERS}", hint="send fewer", field="headers"
        )
    return out


def _bad_headers() -> InvalidRequest:
    return InvalidRequest(
        "headers are not valid",
        hint='{"name": "text"}, or [{"key": "name", "value": "text" or "value_base64": "…"}]',
        field="headers",
    )


def timestamp_from_json(given: Any) -> int:
    """Microseconds of a produced `timestamp`: a whole number, or RFC 3339 text with an offset.

    Raises `InvalidRequest` with `field` = "timestamp".
    """
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 1 << 62:
        return given
    if isinstance(given, str):
        try:
            moment = datetime.fromisoformat(given)
        except ValueError:
            moment = None
        if moment is not None and moment.tzinfo is not None:
            return to_micros(moment)
    raise InvalidRequest(
        f"timestamp {given!r} is not valid",
        hint="whole microseconds since 1970, or RFC 3339 such as 2013-01-31T07:00:00Z",
        field="timestamp",
    )


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970 UTC, exactly; a datetime without a zone is taken as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def record_to_json(record: Record, receipt: str, attempt: int = 1) -> dict[str, Any]:
    """A delivered record, for `orjson.dumps`."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        **key_value_to_json("key", record.key, record.key_format),
        **key_value_to_json("value", record.value, record.value_format),
        "headers": headers_to_json(record.headers),
        "timestamp": record.timestamp,
        "message_id": record.message_id,
        "attempt": attempt,
        "receipt": receipt,
    }


def receipt_of(topic_id: str, partition: int, offset: int, epoch: int, attempt: int = 1) -> str:
    """What a consumer acknowledges by; opaque to it."""
    return f"{topic_id}.{partition}.{offset}.{epoch}.{attempt}"


def parse_receipt(receipt: str) -> tuple[str, int, int, int, int]:
    """(topic_id, partition, offset, epoch, attempt) of a receipt; raises `InvalidRequest`."""
    parts = receipt.rsplit(".", 4)
    if len(parts) == 5 and parts[0] and all(p.isascii() and p.isdigit() for p in parts[1:]):
        topic_id, partition, offset, epoch, attempt = parts
        return topic_id, int(partition), int(offset), int(epoch), int(attempt)
    raise InvalidRequest(
        f"receipt {receipt[:80]!r} is not valid",
        hint="send back the receipt of the record as it was delivered",
        field="acks",
    )
