"""Dead letters: why, grouped; sending some or all of them back, after a look at how many."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, g, render_template, request
from flask.typing import ResponseReturnValue

from console.asking.desk import Desk
from console.asking.patience import Kept
from console.asking.redrives import Redrives
from console.context import Context, session
from console.pages.forms import must_be_typed, tried
from console.pages.topics import described
from console.rules import copies
from console.rules.found import Failed, Found
from lakequeue.client.dead_records import dead_letter_topics, look_through_as
from lakequeue.client.dead_summary import waiting_dead_letters
from lakequeue.client.redriven import Wanted
from lakequeue.errors import LakequeueError
from lakequeue.records import checked_name
from lakequeue.times import micros_of_time
from lakequeue.wire import DeadLetterHeader, TopicDescription

_COUNT_S = 0.75
_PREVIEW_S = 15.0
_MOST_TOPICS = 50
_CHOICES = {
    "origin": DeadLetterHeader.TOPIC,
    "group": DeadLetterHeader.GROUP,
    "reason": DeadLetterHeader.REASON,
}
"""Field of the form → header of dead letters."""


def pages(context: Context) -> Blueprint:
    """The pages."""
    made = Blueprint("dead_letters", __name__)
    redrives = Redrives()

    @made.get("/dead-letters")
    def listed() -> str:
        sql = copies.sql_of_all_dead_letters(context.tables.uri)
        return render_template("dead_letters.html", **every_topic(context, session().desk), sql=sql)

    @made.get("/dead-letters/<topic>")
    def one(topic: str) -> str:
        return shown(topic, None)

    @made.get("/live/dead-letters/<topic>")
    def live(topic: str) -> str:
        return render_template("_dead_letter.html", **seen(context, redrives, topic))

    @made.post("/dead-letters/<topic>")
    def change(topic: str) -> ResponseReturnValue:
        if request.form.get("do") != "redrive":
            what = "the look through the dead letters"
            return shown(topic, tried(what, lambda: looking_through(topic), _PREVIEW_S))
        try:
            must_be_typed(topic, "topic")
            _, body = chosen()
            name = checked_name(topic, "topic")
        except LakequeueError as error:
            return shown(topic, Found(None, Failed(error.detail, error.hint or "")))
        redrives.begin(session().desk.services, _who(), name, body)
        return Response(status=303, headers={"Location": f"/dead-letters/{topic}"})

    def shown(topic: str, preview: Found[Any] | None) -> str:
        told = seen(context, redrives, topic)
        return render_template("dead_letter.html", **told, preview=preview)

    return made


def every_topic(context: Context, desk: Desk) -> dict[str, Any]:
    """Each topic of dead letters, with those that wait."""
    topics = desk.topics.get()
    names = dead_letter_topics(map(TopicDescription.model_validate, topics.value or ()))
    kept = [(name, _counted(context, desk, name)) for name in names[:_MOST_TOPICS]]
    for _, one in kept:
        one.get(0.0)
    until = time.monotonic() + _COUNT_S
    rows = [(name, one.get(max(0.0, until - time.monotonic()))) for name, one in kept]
    return {"rows": rows, "failed": topics.failed, "more": len(names) - len(rows)}


def seen(context: Context, redrives: Redrives, topic: str) -> dict[str, Any]:
    """What the templates show, within a second."""
    desk = session().desk
    found = described(desk, topic)
    topic_id = found.value["topic_id"] if found.value else ""
    counted: Found[Any] = Found(None, found.failed)
    if found.value is not None:
        counted = _counted(context, desk, topic).get(_COUNT_S)
    return {
        "topic": topic,
        "counted": counted,
        "form": request.form or request.args,
        "run": redrives.newest(topic, _who()),
        "sql": copies.sql_of_dead_letters(context.tables.uri, topic_id),
    }


def _who() -> str:
    return session().id or str(g.cookie)


def _counted(context: Context, desk: Desk, topic: str) -> Kept[list[dict[str, Any]]]:
    """All of them have to be read: if there are many, the count comes after a while."""

    def count() -> list[dict[str, Any]]:
        with desk.services.admin(5.0) as admin:
            found = waiting_dead_letters(admin, topic)
        for line in found:
            name = DeadLetterHeader.NACK_REASON
            line.nack_reason = context.masks.header(topic, name, line.nack_reason)
        return [dataclasses.asdict(line) for line in found]

    return desk.kept(f"the dead letters of {topic}", count)


def looking_through(topic: str) -> Callable[[], Any]:
    """The count of what would go back. Raises `InvalidRequest`."""
    services, (wanted, _) = session().desk.services, chosen()

    def look() -> Any:
        with services.admin(5.0) as admin:
            return look_through_as(admin, topic, wanted)

    return look


def chosen() -> tuple[Wanted, dict[str, Any]]:
    """Which dead letters the form chooses: for the look, and for the call. Raises
    `InvalidRequest`."""
    form = request.form
    headers = {str(h): form[name] for name, h in _CHOICES.items() if form.get(name)}
    times: dict[str, int] = {
        name: micros_of_time(form[name], name) for name in ("since", "until") if form.get(name)
    }
    body: dict[str, Any] = {"headers": headers, **times} if headers else dict(times)
    return Wanted(headers=headers or None, since=times.get("since"), until=times.get("until")), body
