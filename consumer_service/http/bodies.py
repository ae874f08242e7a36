"""Bodies of requests, and what their clients take for an answer."""

from __future__ import annotations

from typing import TypeVar

from flask import request
from pydantic import BaseModel

from lakequeue.wire import cloud_events
from serving.requests import json_body

MAX_BODY_BYTES = 4 << 20
Shape = TypeVar("Shape", bound=BaseModel)


def body_of(shape: type[Shape]) -> Shape:
    """The body of this request. Raises as `json_body`."""
    return json_body(shape, MAX_BODY_BYTES, "send fewer acks at once, or commit positions")


def wants(media_type: str) -> bool:
    """Whether this client takes answers of that media type."""
    return cloud_events.wants(request.headers.get("Accept"), media_type)
