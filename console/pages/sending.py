"""A test record: written here, sent as any producer would, and shown where it went."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import orjson
from flask import Blueprint, render_template, request

from console.context import session
from console.pages.forms import tried
from console.rules.found import Found
from lakequeue.errors import InvalidRequest
from lakequeue.records import checked_name

_SEND_S = 8.0
_ORDER_MS = 5_000


def pages() -> Blueprint:
    """The pages."""
    made = Blueprint("sending", __name__)

    @made.get("/topics/<topic>/send")
    def show(topic: str) -> str:
        return _page(topic, None)

    @made.post("/topics/<topic>/send")
    def send(topic: str) -> str:
        return _page(topic, tried("the ingest node", lambda: sending(topic), _SEND_S))

    return made


def sending(topic: str) -> Callable[[], Any]:
    """The call that sends the record of the form. Raises `InvalidRequest`."""
    services, body = session().desk.services, {"records": [written()]}
    path = f"/v1/topics/{checked_name(topic, 'topic')}/records?wait=ordered&timeout_ms={_ORDER_MS}"

    def send() -> Any:
        answer = services.request("ingest", "POST", path, body, _SEND_S)
        return orjson.loads(answer)["records"][0]

    return send


def written() -> dict[str, Any]:
    """The record in the form. Raises `InvalidRequest`."""
    form = request.form
    record: dict[str, Any] = {"value": _value(form.get("kind", ""), form.get("value", ""))}
    if form.get("key"):
        record["key"] = form["key"]
    if headers := list(_headers(form.get("headers", ""))):
        record["headers"] = headers
    if partition := form.get("partition", ""):
        if not (partition.isascii() and partition.isdigit()):
            raise InvalidRequest("the partition is no number", hint="leave it out, or write 0")
        record["partition"] = int(partition)
    return record


def _value(kind: str, text: str) -> Any:
    text = text.replace("\r\n", "\n")
    if kind == "tombstone":
        return None
    if kind != "json":
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidRequest(f"the value is not JSON: {error}", hint="or send text") from None


def _headers(text: str) -> Iterator[dict[str, str]]:
    for line in filter(str.strip, text.splitlines()):
        name, sign, value = line.partition("=")
        if not sign:
            said = f"{line[:40]!r} is no header"
            raise InvalidRequest(said, hint="write NAME=VALUE in each line")
        yield {"key": name.strip(), "value": value}


def _page(topic: str, sent: Found[Any] | None) -> str:
    return render_template("send.html", topic=topic, sent=sent, form=request.form)
