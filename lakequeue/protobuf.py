"""Schemas of topics whose values are in Protobuf: `pip install 'lakequeue[protobuf]'`."""

from __future__ import annotations

import base64
from typing import Any

import orjson

from lakequeue.errors import InvalidRequest, MissingDependency
from lakequeue.extras import pip_install


def schema_of(message: Any) -> str:
    """The `value_schema` of a topic whose values are messages of a class.

    Values are what `message.SerializeToString()` returns, and `MessageClass.FromString` reads.

    Args:
        message: A class that `protoc` has made, such as `order_pb2.Order`.

    Returns:
        The text of the schema: the descriptors of the class, and of all files that it imports.

    Raises:
        MissingDependency: protobuf is not installed.
        InvalidRequest: It is no such class.

    Example:
        from google.protobuf.struct_pb2 import Struct  # or a class of your own

        from lakequeue import Admin
        from lakequeue.protobuf import schema_of

        with Admin() as admin:
            schema = schema_of(Struct)
            admin.create_topic("orders", value_schema=schema, value_schema_type="protobuf")
    """
    try:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
    except ModuleNotFoundError as e:
        raise MissingDependency(
            "lakequeue.protobuf needs protobuf", hint=pip_install("protobuf")
        ) from e
    descriptor = getattr(message, "DESCRIPTOR", None)
    file = getattr(descriptor, "file", None)
    if descriptor is None or file is None or not hasattr(descriptor, "fields"):
        raise InvalidRequest(
            f"{str(message)[:100]} is no class of a Protobuf message",
            hint="give a class that protoc has made",
            field="value_schema",
        )
    files = FileDescriptorSet()
    _add(files, file, set())
    return _text(files.SerializeToString(deterministic=True), descriptor.full_name)


def text_of_file(data: bytes) -> str:
    """The text of a `value_schema` out of a file: as it is, or what `protoc` wrote, as text.

    Args:
        data: What stands in the file. A `FileDescriptorSet`, as `protoc --descriptor_set_out`
            writes it, becomes a schema of its last file's first message.

    Returns:
        The text.

    Raises:
        UnicodeDecodeError: It is neither.
    """
    if data[:1] == b"\n":  # how each of these sets begins, and hardly a text
        try:
            orjson.loads(data)
        except orjson.JSONDecodeError:
            return _text(data)
    return data.decode()


def _add(files: Any, file: Any, known: set[str]) -> None:
    """The file, after all that it imports."""
    if file.name in known:
        return
    known.add(file.name)
    for one in file.dependencies:
        _add(files, one, known)
    file.CopyToProto(files.file.add())


def _text(descriptors: bytes, name: str | None = None) -> str:
    said = {} if name is None else {"message": name}
    return orjson.dumps(said | {"descriptors": base64.b64encode(descriptors).decode()}).decode()
