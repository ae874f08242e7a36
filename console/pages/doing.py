"""What is done to a group beside moving it: deliveries paused and resumed, a queue emptied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from flask import Blueprint, render_template, request

from console.context import Context, session
from console.pages import groups
from console.pages.forms import must_be_typed, tried, whole_number
from lakequeue.errors import InvalidRequest
from lakequeue.records import checked_name

_CHANGE_S = 20.0


def pages(context: Context) -> Blueprint:
    """The pages."""
    made = Blueprint("doing", __name__)

    def shown(group: str, **done: Any) -> str:
        return render_template(
            "group.html", **groups.seen(context, group), **done, place="", form=request.form
        )

    @made.post("/groups/<group>/pause")
    def pause(group: str) -> str:
        return shown(group, pause=tried("the pause", lambda: pausing(group), _CHANGE_S))

    @made.post("/groups/<group>/purge")
    def purge(group: str) -> str:
        return shown(group, purge=tried("the purge", lambda: purging(group), _CHANGE_S))

    return made


def pausing(group: str) -> Callable[[], Any]:
    """The call that pauses or resumes what the form says. Raises `InvalidRequest`."""
    form = request.form
    verb, body = form.get("do", ""), dict[str, Any]()
    if verb not in {"pause", "resume"}:
        raise InvalidRequest(f"{verb[:20]!r} is nothing to do", hint="pause, resume")
    if topic := form.get("topic", "").strip():
        body["topic"] = topic
    if partition := form.get("partition", "").strip():
        body["partitions"] = [whole_number(partition)]
    return _post(group, verb, body)


def purging(group: str) -> Callable[[], Any]:
    """The call that empties the queue. Raises `InvalidRequest`."""
    must_be_typed(group, "group")
    topic = request.form.get("topic", "").strip()
    return _post(group, "purge", {"topics": [topic]} if topic else {})


def _post(group: str, verb: str, body: dict[str, Any]) -> Callable[[], Any]:
    path = f"/v1/groups/{checked_name(group, 'group')}/{verb}"
    services = session().desk.services
    return lambda: orjson.loads(services.request("consumer", "POST", path, body, _CHANGE_S))
