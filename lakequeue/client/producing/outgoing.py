"""A record on its way, and where an acknowledged one went.

What every record pays for is done here by hand: no dictionary, no model, no text that may never be
asked for. A message id is made of its parts when somebody reads it.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Protocol

import orjson

from lakequeue.calling import forks
from lakequeue.client.producing.record_options import HeadersIn
from lakequeue.errors import InvalidRequest, LakequeueError, TooLarge
from lakequeue.records import Format
from lakequeue.tracing.context import TraceContext
from lakequeue.wire import (
    MAX_MESSAGE_ID_CHARS,
    MAX_REQUEST_BYTES,
    derived_message_id,
    dumps_exactly,
    format_in_fact,
    headers_to_json,
    to_bytes,
)

_LARGEST: Final = MAX_REQUEST_BYTES - 4096
_SURELY_FITS: Final = _LARGEST // 6 - 1024
"""A text becomes six times as large as JSON, at most."""
_BYTES, _TEXT, _JSON = int(Format.BYTES), int(Format.TEXT), int(Format.JSON)
NO_DATA: Final = 3
"""In `kind`, in place of a format: None."""
KEY, PLACED, OWN_ID, MORE = 2, 1 << 4, 1 << 5, 1 << 6
"""Bits of `kind`, above the two of the value: two of the key, a partition, an own message id, and
anything else."""
_INT_32: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where an acknowledged record went."""

    topic: str
    """Topic that it was sent to."""
    partition: int
    """Partition that it is in."""
    message_id: str
    """What duplicates are known by: as given, or generated."""
    stamp: int
    """Time of the commit; microseconds since 1970 UTC."""
    offset: int | None = None
    """Known with `acks="ordered"`."""
    duplicate: bool | None = None
    """True: it was there already, and partition and offset are the original's. False: it was not.

    Known where the answer waits for the order: `acks="ordered"`, `fence=True`, `atomic`,
    `transform`. None: with `acks="committed"` nobody has compared it yet. `lakequeue rejects list
    --reason duplicate` tells later."""
    dead_letter_topic: str | None = None
    """The value is not of the topic's schema, and the record went to the dead letters of its topic
    (`value_policy`): partition and offset are those there."""


Delivered = RecordMetadata
"""The old name, until 0.3."""


class Settles(Protocol):
    """What `send` returns: a future of the blocking or of the async kind."""

    def done(self) -> bool:
        """Settled, or cancelled."""

    def set_result(self, result: RecordMetadata, /) -> None:
        """Acknowledged."""

    def set_exception(self, exception: LakequeueError, /) -> None:
        """Given up."""


@dataclass(frozen=True, slots=True)
class Life:
    """What generated ids begin with: a producer, or one life of a producer whose name stays."""

    prefix: str
    says_ids: bool = False
    """The service would derive other ids from producer and sequence: they are sent."""
    made_in: object = field(default_factory=lambda: forks.process, compare=False, repr=False)
    """The process that sends it."""


_UNBORN: Final = Life("")


@dataclass(slots=True)
class More:
    """What few records have."""

    headers: HeadersIn = None
    timestamp: datetime | int | None = None
    message_id: str | None = None
    timing: Mapping[str, int] | None = None
    """`deliver_at`, `delay_ms`, `ttl_ms` of the wire, as far as given."""
    trace: TraceContext | None = None
    """Of the span in which it was made, if the program traces."""
    shown: bytes = b""
    """Of `headers`, `timestamp` and `timing`: the JSON, from the comma before it."""

    def forget(self) -> None:
        """All but the id."""
        self.headers = self.timing = self.trace = None
        self.shown = b""


class Outgoing:
    """A record on its way, encoded: changing the value after `send` has no effect."""

    __slots__ = (
        "chosen", "error", "handle", "key", "key_data", "kind", "life", "more", "partition",
        "sequence", "size", "topic", "value", "value_data",
    )  # fmt: skip

    def __init__(self, topic: str, value: Any, key: Any = None, partition: int | None = None):
        """Raises `InvalidRequest` for what JSON cannot hold; `add_more` comes next, `check` last.

        The two usual kinds of value stand here: a call for each would cost as much as they do.
        """
        self.topic = topic
        self.value = value
        self.key = key
        self.partition = partition
        kind = type(value)
        if kind is bytes:
            self.value_data: bytes | None = value
            bits, size = _BYTES, (len(value) + 2) // 3 * 4 + 19
        else:
            self.value_data, bits = stored(value)
            size = 12 if self.value_data is None else 12 + len(self.value_data)
            if bits == _BYTES and self.value_data is not None:
                size += len(self.value_data) // 3 + 9
        if key is None:
            self.key_data: bytes | None = None
            bits |= NO_DATA << KEY
        else:
            self.key_data, fmt = stored(key)
            bits |= fmt << KEY
            size += 12 + len(self.key_data or b"") * (4 if fmt == _BYTES else 3) // 3
        if partition is not None:
            ok = type(partition) is int and 0 <= partition < _INT_32
            bits |= PLACED if ok else PLACED | MORE
            if not ok:
                # What is no partition is left to the service to refuse, if JSON can hold it: else
                # it would be found out where others are sent with it.
                _json(partition)
            size += 17
        self.kind = bits
        """Its formats, and what else it has: records of one kind can be sent as columns."""
        self.size = size
        """About what it takes as JSON."""
        self.more: More | None = None
        self.life = _UNBORN
        self.chosen: int | None = None
        """The partition that was chosen for a record without one and without a key."""
        self.sequence = 0
        self.handle: Settles | None = None
        self.error: LakequeueError | None = None
        """Why it was given up; None while it is on its way."""

    def add_more(
        self,
        headers: HeadersIn,
        timestamp: datetime | int | None,
        message_id: str | None,
        timing: Mapping[str, int] | None,
        trace: TraceContext | None,
    ) -> None:
        """What few records have. Raises `InvalidRequest` for headers that are none."""
        more = self.more = More(headers, timestamp, message_id, timing, trace)
        said: dict[str, Any] = {}
        if headers:
            said["headers"] = headers_to_json(header_pairs(headers))
        if timestamp is not None:
            said["timestamp"] = timestamp
        if timing:
            said |= timing
        if said:
            more.shown = b"," + _json(said)[1:-1]
            self.kind |= MORE
        if message_id is not None:
            self.kind |= OWN_ID
        self.size += len(more.shown) + (len(message_id) + 16 if message_id is not None else 0)

    def copy(self) -> Outgoing:
        """The same, to keep: a record that is a future loses its value when it is acknowledged."""
        same = Outgoing.__new__(Outgoing)
        for name in Outgoing.__slots__:
            setattr(same, name, getattr(self, name))
        same.more = None if self.more is None else replace(self.more)
        return same

    def check(self) -> None:
        """Raise `TooLarge` for what no request can hold."""
        if self.size > _SURELY_FITS and (found := len(self.on_the_wire(True))) > _LARGEST:
            raise TooLarge(
                f"the record has {found} bytes as JSON, a request at most {MAX_REQUEST_BYTES}",
                hint="store it elsewhere and send its address",
            )

    # -- what few records have --------------------------------------------------------------------

    @property
    def headers(self) -> HeadersIn:
        """As they were given."""
        return None if self.more is None else self.more.headers

    @property
    def timestamp(self) -> datetime | int | None:
        """As it was given."""
        return None if self.more is None else self.more.timestamp

    @property
    def timing(self) -> Mapping[str, int] | None:
        """`deliver_at`, `delay_ms`, `ttl_ms` of the wire, as far as given."""
        return None if self.more is None else self.more.timing

    @property
    def trace(self) -> TraceContext | None:
        """Of the span in which it was made, if the program traces."""
        return None if self.more is None else self.more.trace

    @property
    def message_id(self) -> str:
        """Its own, or the one that follows from its sequence."""
        more = self.more
        if more is not None and more.message_id is not None:
            return more.message_id
        life = self.life
        return derived_message_id(life.prefix, self.sequence) if life is not _UNBORN else ""

    def __repr__(self) -> str:
        return f"<Outgoing {self.topic} {self.message_id} key={self.key!r}>"

    # -- on the wire ------------------------------------------------------------------------------

    def on_the_wire(self, with_id: bool, with_topic: bool = False) -> bytes:
        """Its JSON; `with_id`: the service cannot derive it."""
        parts = [b"{"]
        if with_topic:
            parts.append(b'"topic":' + orjson.dumps(self.topic) + b",")
        kind = self.kind
        key_format = kind >> KEY & 3
        if key_format != NO_DATA:
            parts += (_shown(b"key", self.key_data, key_format), b",")
        parts.append(_shown(b"value", self.value_data, kind & 3))
        if kind & MORE and self.more is not None:
            parts.append(self.more.shown)
        partition = self.chosen if self.partition is None else self.partition
        if partition is not None:
            parts.append(
                b',"partition":' + (b"%d" % partition if kind & MORE == 0 else _json(partition))
            )
        if with_id or kind & OWN_ID or self.life.says_ids:
            parts.append(b',"message_id":' + orjson.dumps(self.message_id))
        parts.append(b"}")
        return b"".join(parts)


def stored(given: Any) -> tuple[bytes | None, int]:
    """A key or value as it is stored, and its format, or `NO_DATA`."""
    if type(given) is str:
        try:
            return given.encode(), _TEXT
        except UnicodeEncodeError:
            pass
    if type(given) is dict:
        # In a piece of its own size: what orjson makes has a kilobyte, and to take another one for
        # each record that waits costs ten times what this copy does.
        data = b"%b" % dumps_exactly(given)
        return data, _JSON if len(data) < _SHORT else int(format_in_fact(data, _JSON))
    stored_as, fmt = to_bytes(given)
    if stored_as is None:
        return None, NO_DATA
    # JSON that the services cannot parse goes as bytes.
    is_json = fmt == Format.JSON and len(stored_as) >= _SHORT
    return stored_as, int(format_in_fact(stored_as, fmt)) if is_json else int(fmt)


_SHORT: Final = 300
"""JSON of fewer bytes neither nests too deeply, for each level takes one that opens it, nor has
numbers that are infinite to who parses them as floats: those have 309 digits."""


def _shown(name: bytes, data: bytes | None, fmt: int) -> bytes:
    if data is None:
        return b'"%b":null' % name
    if fmt == _BYTES:
        return b'"%b_base64":"%b"' % (name, b2a_base64(data, newline=False))
    return b'"%b":%b' % (name, orjson.dumps(data.decode()) if fmt == _TEXT else data)


def _json(given: Any) -> bytes:
    try:
        return orjson.dumps(given)
    except TypeError as e:
        raise InvalidRequest(f"the record cannot be sent: {e}", hint="see docs/sdk.md") from e


def check_id(given: Any) -> None:
    """Raise `InvalidRequest` for what is no message id: later, it would be a fault of the batch."""
    if not isinstance(given, str):
        what = f"is a {type(given).__name__}"
    elif not 1 <= len(given) <= MAX_MESSAGE_ID_CHARS:
        what = f"has {len(given)} characters"
    elif not _is_utf8(given):
        what = "has half of a surrogate pair"
    else:
        return
    hint = f"text of 1 to {MAX_MESSAGE_ID_CHARS} characters"
    raise InvalidRequest(f"message_id {what}", hint=hint, field="message_id")


def _is_utf8(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def header_pairs(given: HeadersIn) -> list[tuple[str, bytes | None]]:
    """Headers as stored; raises `InvalidRequest` for values that are neither text nor bytes."""
    pairs = given.items() if isinstance(given, Mapping) else (given or ())
    out: list[tuple[str, bytes | None]] = []
    key: Any
    value: Any
    for key, value in pairs:
        if not isinstance(key, str) or not isinstance(value, str | bytes | None):
            raise InvalidRequest(
                f"header {key!r} is a {type(value).__name__}",
                hint="names are text, values text or bytes",
                field="headers",
            )
        out.append((key, value.encode() if isinstance(value, str) else value))
    return out
