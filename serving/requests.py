"""Bodies and query parameters of requests, read into the shapes of `lakequeue.wire`."""

from __future__ import annotations

from typing import Any, TypeVar

import orjson
from flask import Flask, current_app, g, request

from lakequeue import wire
from lakequeue.errors import MalformedBody, TooLarge, UnsupportedMediaType
from lakequeue.wire.parsing import Shape, valid
from serving.front.limits.budget import Budget, Lease
from serving.front.parking import Steps
from serving.json_cost import room

T = TypeVar("T")
_PARSING = "lakequeue.parsing"


def count_bodies(app: Flask, budget: Budget) -> None:
    """Count what `json_body` reads by what it becomes, until the request is done with."""
    app.extensions[_PARSING] = budget

    @app.teardown_request
    def give_back(_: BaseException | None) -> None:
        held: Lease | None = g.pop(_PARSING, None)
        if held is not None:
            held.shrink_to(0)


def keeping_body(steps: Steps[T]) -> Steps[T]:
    """A call that waits with what `json_body` has read: counted until it is over."""
    held: Lease | None = g.pop(_PARSING, None)
    return steps if held is None else _holding(held, steps)


def _holding(held: Lease, steps: Steps[T]) -> Steps[T]:
    with held:
        return (yield from steps)


def is_minimal(prefer: str | None) -> bool:
    """Whether a header `Prefer` asks for a minimal answer."""
    return prefer is not None and wire.MINIMAL in {one.strip() for one in prefer.split(",")}


def media_type_of(content_type: str | None) -> str:
    """What a body is, without parameters; JSON if nothing is said."""
    return (wire.JSON if content_type is None else content_type).partition(";")[0].strip().lower()


def parsed(body: bytes) -> Any:
    """The JSON of a body. Raises `MalformedBody`."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as e:
        raise MalformedBody(f"the body is not JSON: {e}", hint="send a JSON object") from None


def json_body(shape: type[Shape], max_bytes: int, hint: str) -> Shape:
    """The JSON body; its memory is counted in the budget of `count_bodies`.

    Raises `UnsupportedMediaType`, `TooLarge` (`hint`), `MalformedBody`, `Overloaded`, …
    """
    kind = media_type_of(request.headers.get("Content-Type"))
    if kind != wire.JSON:
        raise UnsupportedMediaType(f"{kind!r} is not understood here", hint=f"send {wire.JSON}")
    if (request.content_length or 0) > max_bytes:
        raise TooLarge(f"a body of {request.content_length} bytes, at most {max_bytes}", hint=hint)
    data = request.get_data(cache=False)
    setattr(g, _PARSING, room(current_app.extensions[_PARSING], data))
    return valid(shape, parsed(data))


def query_parameters(shape: type[Shape]) -> Shape:
    """The query parameters. Raises `InvalidRequest`."""
    return valid(shape, request.args.to_dict(), texts=True)
