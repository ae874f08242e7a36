"""Which bytes are a value of a Protobuf message. Pure.

The walk is our own, as that of Avro is, and for the same reason: whoever sends a value chooses how
deep it goes, and `MOST_DEPTH` levels are the most here. Each step takes a byte at least.

Fields that the schema does not know are passed over, as Protobuf has it: they may be of a newer
one. A field of the schema must be of its type.
"""

from __future__ import annotations

from typing import Final

from queue_tables.schema.values.protobuf_schema import Field, Message, schema_of
from queue_tables.schema.values.walking import MOST_DEPTH, STEP, Wrong, check_text, enough, wrong

_VARINT, _EIGHT, _LENGTH, _GROUP, _END, _FOUR = range(6)
_WIRE_NAMES: Final = ("a varint", "8 bytes", "a length", "a group", "the end of one", "4 bytes")
_WIRE: Final = {
    "double": _EIGHT,
    "fixed64": _EIGHT,
    "sfixed64": _EIGHT,
    "float": _FOUR,
    "fixed32": _FOUR,
    "sfixed32": _FOUR,
    "string": _LENGTH,
    "bytes": _LENGTH,
    "message": _LENGTH,
    "group": _GROUP,
}
"""How a value of a type is written; of the others: as a varint."""
_SIZES: Final = {_EIGHT: 8, _FOUR: 4}
_RANGES: Final = {
    "int32": (-(1 << 31), 1 << 32),
    "uint32": (0, 1 << 32),
    "sint32": (0, 1 << 32),
    "enum": (-(1 << 31), 1 << 32),
    "bool": (0, 2),
}
"""Of the numbers as they are written. A negative int32 is that, or its 32 bits."""


class ProtobufValues:
    """What a topic's values may be: of one message. Compiled; thread-safe."""

    def __init__(self, text: str) -> None:
        """Raises `InvalidRequest` if it is no schema."""
        self._root, self._messages = schema_of(text)
        most = max(len(one.required) for one in self._messages.values())
        # The shortest message within another takes two bytes.
        self._each_byte = 1 + -(-most // 2)

    def evaluations(self, value: bytes) -> int:
        """How much it is to judge a value, at most."""
        return STEP * (1 + len(self._root.required) + self._each_byte * len(value))

    def fault(self, value: bytes) -> str | None:
        """Why these bytes are no value of the message; None: they are."""
        try:
            self._walk(self._root, value, 0, len(value), MOST_DEPTH, "", None)
        except Wrong as found:
            return str(found)
        return None

    def _walk(
        self,
        message: Message,
        data: bytes,
        at: int,
        end: int,
        depth: int,
        place: str,
        group: int | None,
    ) -> int:
        """Through the fields up to `end`, or to the end of the group of that number."""
        if depth == 0:
            raise Wrong(f"it goes deeper than {MOST_DEPTH} levels")
        seen = set()
        while True:
            if at == end and group is None:
                break
            number, wire, at = _tag(data, at, end, place)
            if wire == _END:
                if number != group:
                    raise wrong(f"a group {number} ends that did not begin", place)
                break
            field = message.fields.get(number)
            if field is None:
                at = _passed(data, at, end, number, wire, depth - 1, place)
            else:
                here = f"{place}/{field.name}"
                at = self._field(field, wire, data, at, end, depth, here)
                seen.add(number)
        if not message.required <= seen:
            lacking = message.fields[min(message.required - seen)]
            raise wrong(f"{lacking.name} is required, and missing", place)
        return at

    def _field(
        self, field: Field, wire: int, data: bytes, at: int, end: int, depth: int, place: str
    ) -> int:
        due = _WIRE.get(field.kind, _VARINT)
        if wire == _LENGTH != due and due != _GROUP and field.repeated:
            size, at = _varint(data, at, end, place)
            stop = _within(data, at, size, end, place)
            while at < stop:
                at = _number(field, due, data, at, stop, place)
            return at
        if wire != due:
            raise wrong(f"{field.kind} is not written as {_WIRE_NAMES[wire]}", place)
        if due == _GROUP:
            inner = self._messages[field.of]
            return self._walk(inner, data, at, end, depth - 1, place, field.number)
        if due != _LENGTH:
            return _number(field, due, data, at, end, place)
        size, at = _varint(data, at, end, place)
        stop = _within(data, at, size, end, place)
        if field.kind == "message":
            self._walk(self._messages[field.of], data, at, stop, depth - 1, place, None)
        elif field.kind == "string":
            check_text(data, at, stop, place)
        return stop


def _number(field: Field, wire: int, data: bytes, at: int, end: int, place: str) -> int:
    """After a number of that type."""
    if wire != _VARINT:
        return _within(data, at, _SIZES[wire], end, place)
    number, at = _varint(data, at, end, place)
    low, high = _RANGES.get(field.kind, (0, 1 << 64))
    signed = number - (1 << 64) if low < 0 and number >> 63 else number
    if not low <= signed < high:
        raise wrong(f"{signed} is no {field.kind}", place)
    if field.numbers is not None and _as_int32(signed) not in field.numbers:
        raise wrong(f"{signed} is none of {field.of}", place)
    return at


def _as_int32(number: int) -> int:
    return number - (1 << 32) if number >> 31 == 1 else number


def _passed(data: bytes, at: int, end: int, number: int, wire: int, depth: int, place: str) -> int:
    """After a field that the schema does not know."""
    if wire == _VARINT:
        return _varint(data, at, end, place)[1]
    if wire == _LENGTH:
        size, at = _varint(data, at, end, place)
        return _within(data, at, size, end, place)
    if wire in _SIZES:
        return _within(data, at, _SIZES[wire], end, place)
    if depth <= 0:
        raise Wrong(f"it goes deeper than {MOST_DEPTH} levels")
    while True:
        inner, wire, at = _tag(data, at, end, place)
        if wire == _END:
            if inner != number:
                raise wrong(f"a group {inner} ends that did not begin", place)
            return at
        at = _passed(data, at, end, inner, wire, depth - 1, place)


def _tag(data: bytes, at: int, end: int, place: str) -> tuple[int, int, int]:
    tag, at = _varint(data, at, end, place)
    number, wire = tag >> 3, tag & 7
    if not 0 < number < 1 << 29 or wire > _FOUR:
        raise wrong(f"{tag} begins no field", place)
    return number, wire, at


def _varint(data: bytes, at: int, end: int, place: str) -> tuple[int, int]:
    number = shift = 0
    for after in range(at, min(at + 10, end)):
        byte = data[after]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> 64:
                break
            return number, after + 1
        shift += 7
    raise wrong("there is no number of 64 bits", place)


def _within(data: bytes, at: int, size: int, end: int, place: str) -> int:
    if size > end - at:
        raise wrong(f"{end - at} bytes are left, and {size} are needed", place)
    return enough(data, at, size, place)
