"""Protobuf schemas of values: messages as trees, out of the descriptors that `protoc` writes. Pure.

The text of a schema is JSON: `descriptors` is a `FileDescriptorSet` in base64, and `message` the
name of the message that values are. Without it, it is the first message of the last file.

The library checks the descriptors. It does not see values (`protobuf_values`).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import orjson

from lakequeue.errors import InvalidRequest, MissingDependency
from queue_tables.schema.values.walking import short

_KINDS: Final = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    10: "group",
    11: "message",
    12: "bytes",
    13: "uint32",
    14: "enum",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}
"""As `descriptor.proto` numbers the types of fields."""


class Field(NamedTuple):
    """A field of a message."""

    number: int
    name: str
    kind: str
    repeated: bool
    required: bool
    of: str = ""
    """The message or the enum that it is of."""
    numbers: frozenset[int] | None = None
    """All that an enum may be; None: any number (or it is no enum)."""
    one_of: str | None = None
    symbols: tuple[tuple[str, int], ...] = ()
    """Of an enum."""
    has_presence: bool = False
    """Whether a message says if it has the field."""


class Message(NamedTuple):
    """A message."""

    name: str
    fields: dict[int, Field]
    required: frozenset[int]
    is_entry: bool = False
    """Of a map: a key, and a value."""


class ProtobufSchema(NamedTuple):
    """A message, and those that it may hold."""

    root: Message
    messages: dict[str, Message]


def schema_of(text: str) -> ProtobufSchema:
    """Read the text of a schema. Raises `InvalidRequest` if it is none."""
    name, files = parts_of(text)
    top = _found(name, files)
    messages: dict[str, Message] = {}
    todo = [top]
    while todo:
        one = todo.pop()
        if one.full_name in messages:
            continue
        fields = {field.number: _field(field) for field in one.fields}
        required = frozenset(n for n, field in fields.items() if field.required)
        is_entry = bool(one.GetOptions().map_entry)
        messages[one.full_name] = Message(one.full_name, fields, required, is_entry)
        todo += [field.message_type for field in one.fields if field.message_type is not None]
    return ProtobufSchema(messages[top.full_name], messages)


def no_schema(why: str) -> InvalidRequest:
    """422 for what is no schema that a topic may have."""
    return InvalidRequest(
        f"value_schema is not a Protobuf schema: {why}",
        hint='give {"message": "shop.Order", "descriptors": the base64 of what `protoc'
        " --include_imports --descriptor_set_out` writes}",
        field="value_schema",
    )


def class_of(text: str) -> Any:
    """The class of the message, as `protoc` would make it. Raises as `schema_of` does."""
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(_found(*parts_of(text)))


def parts_of(text: str) -> tuple[str | None, bytes]:
    """The name of the message, if it is named, and the descriptors."""
    try:
        said = orjson.loads(text)
        name, encoded = said.get("message"), said["descriptors"]
        if said.keys() - {"message", "descriptors"}:
            raise no_schema("it has more than `message` and `descriptors`")
        if not (name is None or type(name) is str) or type(encoded) is not str:
            raise no_schema("`message` and `descriptors` are texts")
        return name, base64.b64decode(encoded, validate=True)
    except KeyError:
        raise no_schema("it has no `descriptors`") from None
    except (orjson.JSONDecodeError, AttributeError, TypeError) as e:
        raise no_schema(f"it is no JSON object: {short(e)}") from None
    except (binascii.Error, ValueError) as e:
        raise no_schema(f"its descriptors are no base64: {short(e)}") from None


def _found(name: str | None, files: bytes) -> Any:
    """The descriptor of the message."""
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message import DecodeError
    except ModuleNotFoundError as e:
        raise MissingDependency(
            "topics with a Protobuf schema need protobuf", hint="pip install protobuf"
        ) from e
    pool, last = DescriptorPool(), None
    try:
        for last in FileDescriptorSet.FromString(files).file:
            pool.Add(last)
        if last is None:
            raise no_schema("its descriptors have no file")
        if name is None:
            if not last.message_type:
                raise no_schema(f"{last.name} has no message")
            name = ".".join(filter(None, (last.package, last.message_type[0].name)))
        return pool.FindMessageTypeByName(name)
    except DecodeError as e:
        raise no_schema(f"its descriptors are no FileDescriptorSet: {short(e)}") from None
    except TypeError as e:  # what the library says of descriptors that do not fit together
        raise no_schema(short(e)) from None
    except KeyError:
        raise no_schema(f"there is no message {str(name)[:100]!r}") from None


def _field(field: Any) -> Field:
    kind = _KINDS[field.type]
    of, symbols = "", tuple[tuple[str, int], ...]()
    numbers = None
    if field.message_type is not None:
        of = field.message_type.full_name
    elif field.enum_type is not None:
        symbols = tuple((one.name, one.number) for one in field.enum_type.values)
        of = field.enum_type.full_name
        numbers = _numbers(symbols) if field.enum_type.is_closed else None
    one_of = None if field.containing_oneof is None else field.containing_oneof.name
    return Field(
        field.number,
        field.name,
        kind,
        field.is_repeated,
        field.is_required,
        of,
        numbers,
        one_of,
        symbols,
        field.has_presence,
    )


def _numbers(symbols: Iterable[tuple[str, int]]) -> frozenset[int]:
    return frozenset(number for _, number in symbols)
