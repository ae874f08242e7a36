"""A test record: written here, sent as any producer would, and shown where it went."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson
from flask import Blueprint, render_template, request

from console.context import session
from console.rules.found import Failed, Found
from lakequeue.errors import InvalidRequest, LakequeueError
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
        desk = session().desk
        try:
            record = written()
            path = f"/v1/topics/{checked_name(topic, 'topic')}/records?wait=ordered&timeout_ms="
        except LakequeueError as error:
            return _page(topic, Found(None, Failed(error.detail, error.hint or "")))

        def ask() -> Any:
            body = {"records": [record]}
            answer = desk.services.request("ingest", "POST", f"{path}{_ORDER_MS}", body, _SEND_S)
            return orjson.loads(answer)["records"][0]

        return _page(topic, desk.patience.ask("the ingest node", ask, _SEND_S))

    return made


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
