"""Protobuf schemas for tests, without `protoc`."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import orjson
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_LABELS = {"one": 1, "required": 2, "many": 3}


def field(number: int, name: str, kind: str, label: str = "one", **more: Any) -> Any:
    """A field. What is no kind of `descriptor.proto` is the name of a message, or `enum Name`."""
    said = FieldDescriptorProto(number=number, name=name, label=_LABELS[label], **more)
    plain = f"TYPE_{kind.upper()}"
    if plain in FieldDescriptorProto.Type.DESCRIPTOR.values_by_name:
        said.type = FieldDescriptorProto.Type.Value(plain)
    elif kind.startswith(("enum ", "group ")):
        said.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.split()[0].upper()}")
        said.type_name = f".shop.{kind.split()[1]}"
    else:
        said.type, said.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".shop.{kind}"
    return said


def file(
    messages: Mapping[str, list[Any]],
    enums: Mapping[str, Mapping[str, int]] | None = None,
    *,
    syntax: str = "proto3",
    one_ofs: Mapping[str, list[str]] | None = None,
    entries: frozenset[str] = frozenset(),
) -> FileDescriptorProto:
    """The file `order.proto`, of the package `shop`. `entries`: messages `Outer.Inner` of maps."""
    found = FileDescriptorProto(name="order.proto", package="shop", syntax=syntax)
    for name, fields in messages.items():
        outer, _, inner = name.partition(".")
        made = DescriptorProto(name=inner or outer, field=fields)
        for one in (one_ofs or {}).get(name, []):
            made.oneof_decl.add(name=one)
        if name in entries:
            made.options.map_entry = True
        if inner:
            next(one for one in found.message_type if one.name == outer).nested_type.append(made)
        else:
            found.message_type.append(made)
    for name, symbols in (enums or {}).items():
        declared = found.enum_type.add(name=name)
        for symbol, number in symbols.items():
            declared.value.add(name=symbol, number=number)
    return found


def text_of(*files: FileDescriptorProto, message: str | None = None) -> str:
    """The text of a schema."""
    data = base64.b64encode(FileDescriptorSet(file=files).SerializeToString()).decode()
    named = {} if message is None else {"message": message}
    return orjson.dumps(named | {"descriptors": data}).decode()


def class_of(one: FileDescriptorProto, message: str) -> Any:
    """The class that `protoc` would make."""
    pool = DescriptorPool()
    pool.Add(one)
    return GetMessageClass(pool.FindMessageTypeByName(f"shop.{message}"))
