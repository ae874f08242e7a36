"""A request of the wire, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import BaseModel

from lakequeue import wire
from lakequeue.calling.effects import Reply
from lakequeue.errors import LakequeueError, MalformedBody


@dataclass(frozen=True, slots=True)
class Call:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    body: bytes
    host: str = ""
    """Of the client, as it says."""
    waited_s: float = 0.0
    """For how long it has been looked at again."""
    content_type: str = ""
    """Of the body."""


@dataclass(frozen=True, slots=True)
class Later:
    """No answer yet: look again after a change, or after so long."""

    look_in_s: float


@dataclass(frozen=True, slots=True)
class Aside:
    """An answer that is made by calls to the queue itself: `run` it where nothing is locked."""

    run: Callable[[], Reply]


def reply_of(status: int, body: Any) -> Reply:
    """An answer."""
    if isinstance(body, BaseModel):
        body = body.model_dump()
    encoded = b"" if body is None else orjson.dumps(body)
    return Reply(status, {"content-type": wire.JSON}, encoded)


def refusal_of(call: Call, error: LakequeueError) -> Reply:
    """An error, as the services say it."""
    if call.method == "POST":
        error.stored = error.stored or "no"
    problem = orjson.dumps(error.to_problem())
    return Reply(error.http_status, {"content-type": wire.PROBLEM}, problem)


def object_of(body: bytes) -> dict[str, Any]:
    """A body. Raises `MalformedBody`."""
    try:
        given = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as e:
        raise MalformedBody(f"the body is not JSON: {e}", hint="send a JSON object") from None
    if not isinstance(given, dict):
        raise MalformedBody("the body is not an object", hint="send a JSON object")
    return given
