"""Avro schemas of values: which bytes are a value of one. Pure.

The walk through a value is our own, and not that of a decoder: whoever sends a value chooses how
long its arrays say they are, and how deep it goes. A decoder in C would believe both. Here
`MOST_DEPTH` levels are the most, and how many steps a value of so many bytes can take is known from
its schema (`avro_cost`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from lakequeue.errors import MissingDependency
from queue_tables.schema.values.avro_cost import Node, cost_of, no_schema
from queue_tables.schema.values.walking import (
    MOST_DEPTH,
    STEP,
    Wrong,
    check_text,
    enough,
    short,
    wrong,
)

SINGLE_OBJECT: Final = b"\xc3\x01"
"""How a value begins that says which schema it is of: this, and eight bytes of a fingerprint."""
_HEAD = len(SINGLE_OBJECT) + 8
_FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_LEAST_INT, _MOST_INT = -(1 << 31), (1 << 31) - 1


class AvroSchema:
    """Compiled; thread-safe."""

    def __init__(self, text: str) -> None:
        """Raises `InvalidRequest` if it is no Avro schema."""
        parsed, named = _parsed(text)
        self.named: dict[str, Node] = {}
        self._raw = named
        self.root = self._node(parsed, MOST_DEPTH)
        for name in named:
            self._named(name, MOST_DEPTH)
        self._cost = cost_of(self.root, self.named)
        self.fingerprint = _fingerprint(parsed)

    def evaluations(self, value: bytes) -> int:
        """How much it is to judge a value, at most."""
        return STEP * (self._cost.once + self._cost.each_byte * len(value))

    def fault(self, value: bytes) -> str | None:
        """Why these bytes are no value of this schema; None: they are."""
        try:
            end = self._walk(self.root, value, 0, MOST_DEPTH, "")
        except Wrong as wrong:
            return str(wrong)
        if end != len(value):
            return f"{len(value) - end} bytes are left behind it"
        return None

    def resolved(self, node: Node) -> Node:
        """What it refers to, if it only refers."""
        return self.named[node.name] if node.kind == "ref" else node

    # -- the schema -------------------------------------------------------------------------------

    def _node(self, schema: Any, depth: int) -> Node:
        if depth == 0:
            raise no_schema(f"it is nested deeper than {MOST_DEPTH} levels")
        if isinstance(schema, list):
            if not schema:
                raise no_schema("a union has no branches")
            branches = (self._node(one, depth - 1) for one in schema)
            return Node("union", parts=tuple((str(i), one) for i, one in enumerate(branches)))
        if isinstance(schema, str):
            return Node("ref", schema) if schema in self._raw else Node(schema)
        kind = schema["type"]
        if kind in {"array", "map"}:
            items = schema["items" if kind == "array" else "values"]
            return Node(kind, parts=(("*", self._node(items, depth - 1)),))
        if kind in {"record", "error", "enum", "fixed"}:
            name = schema["name"]
            if name not in self.named:
                # First the name: a record may hold itself.
                self.named[name] = Node("null")
                self.named[name] = self._type(kind, name, schema, depth)
            return Node("ref", name)
        return self._node(kind, depth - 1)  # {"type": "string"}, with or without a logical type

    def _type(self, kind: str, name: str, schema: Mapping[str, Any], depth: int) -> Node:
        own = {"": tuple(schema.get("aliases", ()))}
        if kind == "fixed":
            if type(schema["size"]) is not int or schema["size"] < 0:
                raise no_schema(f"the size of {name} is no number")
            return Node(kind, name, schema["size"], aliases=own)
        if kind == "enum":
            if type(schema["symbols"]) is not list:
                raise no_schema(f"the symbols of {name} are no list")
            symbols = tuple(schema["symbols"])
            defaults = frozenset({schema["default"]} if "default" in schema else ())
            return Node(kind, name, len(symbols), (), symbols, defaults, own)
        fields = schema["fields"]
        parts = tuple((f["name"], self._node(f["type"], depth - 1)) for f in fields)
        defaults = frozenset(f["name"] for f in fields if "default" in f)
        also = {f["name"]: tuple(f["aliases"]) for f in fields if "aliases" in f}
        return Node("record", name, 0, parts, (), defaults, own | also)

    def _named(self, name: str, depth: int) -> None:
        if name not in self.named:
            self._node(self._raw[name], depth)

    # -- a value ----------------------------------------------------------------------------------

    def _walk(self, node: Node, data: bytes, at: int, depth: int, place: str) -> int:  # noqa: C901 -- one branch a type
        if depth == 0:
            raise Wrong(f"it goes deeper than {MOST_DEPTH} levels")
        if node.kind == "ref":
            node = self.named[node.name]
        kind = node.kind
        if kind in _FIXED_SIZES:
            end = enough(data, at, _FIXED_SIZES[kind], place)
            if kind == "boolean" and data[at] > 1:
                raise wrong(f"{data[at]} is no boolean", place)
            return end
        if kind in {"int", "long"}:
            number, end = _long(data, at, place)
            if kind == "int" and not _LEAST_INT <= number <= _MOST_INT:
                raise wrong(f"{number} is no int", place)
            return end
        if kind in {"string", "bytes"}:
            return _text(data, at, place, is_text=kind == "string")
        if kind == "fixed":
            return enough(data, at, node.size, place)
        if kind == "enum":
            return _index(data, at, node.size, "symbols", place)[1]
        if kind == "union":
            branch, at = _index(data, at, len(node.parts), "branches", place)
            return self._walk(node.parts[branch][1], data, at, depth - 1, place)
        if kind == "record":
            for name, part in node.parts:
                at = self._walk(part, data, at, depth - 1, f"{place}/{name}")
            return at
        return self._blocks(node, data, at, depth - 1, place)

    def _blocks(self, node: Node, data: bytes, at: int, depth: int, place: str) -> int:
        items, place = node.parts[0][1], f"{place}/*"
        while True:
            count, at = _long(data, at, place)
            if count == 0:
                return at
            end = None
            if count < 0:
                count = -count
                size, at = _long(data, at, place)
                end = at + size
            if count > len(data) - at or (end is not None and not at <= end <= len(data)):
                raise wrong(f"a block says {count} items, and there are fewer bytes", place)
            for _ in range(count):
                if node.kind == "map":
                    at = _text(data, at, place, is_text=True)
                at = self._walk(items, data, at, depth, place)
            if end is not None and at != end:
                raise wrong("a block is not as long as it says", place)


class AvroValues:
    """What a topic's values may be: of its schema, or of one that it had before."""

    def __init__(self, text: str, earlier: tuple[str, ...] = ()) -> None:
        self.current = AvroSchema(text)
        every = [self.current, *map(AvroSchema, earlier)]
        self._by_fingerprint = {one.fingerprint: one for one in reversed(every)}

    def evaluations(self, value: bytes) -> int:
        """How much it is to judge a value, at most."""
        schema, rest = self._schema_of(value)
        return schema.evaluations(rest)

    def fault(self, value: bytes) -> str | None:
        """Why it is none; None: it is one.

        Plain Avro is of the present schema. In the single-object encoding, the value says of which.
        """
        schema, rest = self._schema_of(value)
        return schema.fault(rest)

    def _schema_of(self, value: bytes) -> tuple[AvroSchema, bytes]:
        if value.startswith(SINGLE_OBJECT) and len(value) >= _HEAD:
            named = self._by_fingerprint.get(value[len(SINGLE_OBJECT) : _HEAD])
            if named is not None:
                return named, value[_HEAD:]
        return self.current, value


# -- parts of a value ---------------------------------------------------------------------------


def _long(data: bytes, at: int, place: str) -> tuple[int, int]:
    number = shift = 0
    for end in range(at, min(at + 10, len(data))):
        byte = data[end]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> 64:
                break
            return (number >> 1) ^ -(number & 1), end + 1
        shift += 7
    raise wrong("there is no number of 64 bits", place)


def _text(data: bytes, at: int, place: str, *, is_text: bool) -> int:
    size, at = _long(data, at, place)
    if size < 0:
        raise wrong(f"a length is {size}", place)
    end = enough(data, at, size, place)
    if is_text:
        check_text(data, at, end, place)
    return end


def _index(data: bytes, at: int, count: int, what: str, place: str) -> tuple[int, int]:
    index, at = _long(data, at, place)
    if not 0 <= index < count:
        raise wrong(f"{index} is none of {count} {what}", place)
    return index, at


# -- the text of a schema -------------------------------------------------------------------------


def _parsed(text: str) -> tuple[Any, dict[str, Any]]:
    try:
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema
    except ModuleNotFoundError as e:
        raise MissingDependency(
            "topics with an Avro schema need fastavro", hint="pip install fastavro"
        ) from e
    named: dict[str, Any] = {}
    try:
        raw = orjson.loads(text)
        _check_depth(raw)
        return parse_schema(raw, named, _write_hint=False), named
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise no_schema(short(e)) from e
    except (SchemaParseException, UnknownType) as e:
        raise no_schema(short(e)) from e


def _check_depth(raw: Any) -> None:
    level = [raw]
    for _ in range(2 * MOST_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise no_schema(f"it is nested deeper than {MOST_DEPTH} levels")


def _fingerprint(parsed: Any) -> bytes:
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    return bytes.fromhex(fingerprint(to_parsing_canonical_form(parsed), "CRC-64-AVRO"))
