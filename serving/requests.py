"""Bodies and query parameters of requests, read into the shapes of `lakequeue.wire`."""

from __future__ import annotations

from typing import Any, TypeVar

import orjson
from flask import request
from pydantic import BaseModel, ValidationError

from lakequeue import wire
from lakequeue.errors import InvalidRequest, MalformedBody, TooLarge, UnsupportedMediaType

Shape = TypeVar("Shape", bound=BaseModel)


def json_body(shape: type[Shape], max_bytes: int, hint: str) -> Shape:
    """The JSON body. Raises `UnsupportedMediaType`, `TooLarge` (`hint`), `MalformedBody`, …"""
    kind = request.headers.get("Content-Type", wire.JSON).partition(";")[0].strip().lower()
    if kind != wire.JSON:
        raise UnsupportedMediaType(f"{kind!r} is not understood here", hint=f"send {wire.JSON}")
    if (request.content_length or 0) > max_bytes:
        raise TooLarge(f"a body of {request.content_length} bytes, at most {max_bytes}", hint=hint)
    data = request.get_data(cache=False)
    try:
        given = orjson.loads(data)
    except orjson.JSONDecodeError as e:
        raise MalformedBody(f"the body is not JSON: {e}", hint="send a JSON object") from None
    return valid(shape, given)


def query_parameters(shape: type[Shape]) -> Shape:
    """The query parameters. Raises `InvalidRequest`."""
    return valid(shape, request.args.to_dict())


def valid(shape: type[Shape], given: Any) -> Shape:
    """`given` as a `shape`. Raises `InvalidRequest` that names the field and all there are."""
    try:
        return shape.model_validate(given)
    except ValidationError as e:
        first = e.errors(include_url=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        names = [field.alias or name for name, field in shape.model_fields.items()]
        raise InvalidRequest(
            f"{field or 'the body'}: {first['msg']}",
            hint=f"fields are {', '.join(names)}",
            field=field,
        ) from None
