"""One record as it is shown: readable whatever is in it, with what a rule hides left out. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from console.rules.masks import HIDDEN, Masks
from console.rules.texts import amount
from lakequeue.client.record import Record
from lakequeue.errors import InvalidRequest
from lakequeue.records import Offset, Partition
from lakequeue.records import Record as Plain
from lakequeue.wire.encoding import to_bytes
from queue_rules.predicates.expressions import Condition
from queue_rules.predicates.single import matches

Kind = Literal["json", "text", "binary", "none", "hidden"]
MOST_CHARS = 20_000
_HEX_BYTES = 512
_LINE_CHARS = 180


@dataclass(frozen=True, slots=True)
class Part:
    """A key, a value or a header."""

    kind: Kind
    text: str
    note: str = ""
    """Its size, and whether all of it is shown."""
    line: str = ""
    """The same in one line, if it is short enough for one."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A record."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Part
    value: Part
    headers: tuple[tuple[str, Part], ...]
    message_id: str | None = None
    undecodable: str | None = None
    hidden: bool = False

    @property
    def place(self) -> str:
        """How it is named in one word."""
        return f"{self.topic}/{self.partition}@{self.offset}"

    @property
    def tombstone(self) -> bool:
        """It says that its key is gone."""
        return self.value.kind == "none" and self.undecodable is None


def shown(raw: Mapping[str, Any], masks: Masks) -> tuple[Shown, Plain]:
    """The record as it is shown, and as it may be searched: the same, as bytes."""
    record = Record(dict(raw))
    key, value = record.key, record.value
    try:
        headers = record.headers
    except InvalidRequest:
        headers = []
    clear = masks.apply(record.topic, key, value, headers)
    at = (record.topic, record.partition, record.offset, record.timestamp)
    made = Shown(
        *at,
        part_of(clear.key),
        part_of(clear.value),
        tuple((name, part_of(one)) for name, one in clear.headers),
        record.message_id,
        record.undecodable,
        clear.hidden,
    )
    (key_bytes, key_format), (value_bytes, value_format) = map(to_bytes, (clear.key, clear.value))
    plain = Plain(
        record.topic,
        Partition(record.partition),
        Offset(record.offset),
        key_bytes,
        value_bytes,
        key_format,
        value_format,
        tuple(clear.headers),
        record.timestamp,
        message_id=record.message_id,
    )
    return made, plain


def part_of(value: Any) -> Part:
    """A key, value or header as people read it."""
    if value is None:
        return Part("none", "")
    if isinstance(value, str | bytes) and value in {HIDDEN, HIDDEN.encode()}:
        return Part("hidden", HIDDEN, "hidden by a rule")
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return _binary(value)
        if "\x00" in value:
            return _binary(value.encode())
    if isinstance(value, str):
        return _text(value)
    return _json(value)


def _json(value: Any) -> Part:
    line = json.dumps(value, ensure_ascii=False)
    short = line if len(line) <= _LINE_CHARS else ""
    return Part("json", *_cut(json.dumps(value, indent=2, ensure_ascii=False)), short)


def _text(text: str) -> Part:
    if text[:1] in {"{", "["}:
        try:
            return _json(json.loads(text))
        except (ValueError, RecursionError):
            return Part("text", *_cut(text))
    return Part("text", *_cut(text))


def _cut(text: str) -> tuple[str, str]:
    if len(text) <= MOST_CHARS:
        return text, ""
    return text[:MOST_CHARS], f"the first {MOST_CHARS:,} of {len(text):,} characters"


def _binary(data: bytes) -> Part:
    lines = []
    for at in range(0, min(len(data), _HEX_BYTES), 16):
        row = data[at : at + 16]
        letters = "".join(chr(b) if 32 <= b < 127 else "·" for b in row)
        lines.append(f"{at:04x}  {row.hex(' '):<47}  {letters}")
    size = amount(len(data))
    note = size if len(data) <= _HEX_BYTES else f"the first {_HEX_BYTES} bytes of {size}"
    return Part("binary", "\n".join(lines), note, data[:16].hex(" "))


def fits(record: Shown, plain: Plain, text: str, condition: Condition | None) -> bool:
    """Whether a record is looked for, by what is shown of it: a rule cannot be guessed around."""
    if condition is not None and not matches(condition, plain):
        return False
    if not text:
        return True
    wanted = text.casefold()
    parts = [record.key.text, record.value.text, *(f"{n} {p.text}" for n, p in record.headers)]
    return any(wanted in part.casefold() for part in parts)
