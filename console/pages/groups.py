"""Groups: all of them, and one: members, lag, what is open and until when; moving it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

from flask import Blueprint, render_template, request

from console.asking.patience import PATIENCE_S
from console.context import Context, session
from console.pages.forms import must_be_typed, tried, whole_number
from console.pages.lists import chosen
from console.pages.topics import described_group
from console.rules import copies, flow
from console.rules.charts import chart
from console.rules.found import Found
from console.rules.rates import KEPT_S
from lakequeue.errors import InvalidRequest
from lakequeue.records import checked_name
from lakequeue.times import micros_of_time
from lakequeue.wire import SeekTo, is_internal_group
from lakequeue.wire.calls.status import parse_place

_TO = ("earliest", "latest", "committed", "offset", "time")
_CHANGE_S = 15.0


def pages(context: Context) -> Blueprint:
    """The pages."""
    made = Blueprint("groups", __name__)

    @made.get("/groups")
    def listed() -> str:
        desk = session().desk
        groups = desk.groups.get()
        looked = desk.look(0.3)
        each = looked.value.each if looked.value else ()
        # Those that commands make for themselves are found by their name.
        internal = bool(request.args.get("find", "").strip())
        advice = desk.advice.get(0.0).value
        rows = flow.group_lags(each, advice, groups.value or [], internal=internal)
        known = {row.group for row in rows}
        rows += [
            flow.GroupLag(g["group"], "", 0, members=g["members"])
            for g in groups.value or ()
            if g["group"] not in known and (internal or not is_internal_group(g["group"]))
        ]
        return render_template(
            "groups.html",
            **chosen(rows, lambda row: (row.group, row.topic)),
            failed=groups.failed,
            sql=copies.sql_of_groups(context.tables.uri),
        )

    @made.get("/groups/<group>")
    def one(group: str) -> str:
        return render_template("group.html", **seen(context, group), **status(group))

    @made.get("/live/groups/<group>")
    def live(group: str) -> str:
        return render_template("_group.html", **seen(context, group))

    @made.post("/groups/<group>/seek")
    def seek(group: str) -> str:
        done = tried("the seek", lambda: moving(group), _CHANGE_S)
        return render_template(
            "group.html", **seen(context, group), **status(group), seek=done, form=request.form
        )

    return made


def seen(context: Context, group: str) -> dict[str, Any]:
    """What the templates show, within a second."""
    desk, until = session().desk, time.monotonic() + PATIENCE_S
    found = desk.patience.ask("the group", lambda: described_group(desk, group))
    told = found.value or {}
    opened: Found[Any] = Found(None)
    if told.get("mode") == "queue":
        opened = desk.patience.ask(
            "the records that are open",
            lambda: context.tables.open_records(group),
            max(0.05, until - time.monotonic()),
        )
    now = time.time()
    return {
        "group": group,
        "found": found,
        "told": told,
        "partitions": told.get("partitions", []),
        "lag": sum(part["lag"] for part in told.get("partitions", ())),
        "opened": opened,
        "now_us": int(now * 1_000_000),
        "chart": chart("Lag", "records", desk.lags.of(group), now - KEPT_S, now),
        "sql": copies.sql_of_group(context.tables.uri, group),
    }


def status(group: str) -> dict[str, Any]:
    """What became of the record that the query names."""
    place = request.args.get("record", "").strip()
    if not place:
        return {"place": "", "status": None}
    desk = session().desk

    def ask() -> dict[str, Any]:
        topic, partition, offset = parse_place(place)
        path = f"/v1/groups/{checked_name(group, 'group')}/topics/{checked_name(topic, 'topic')}"
        path += f"/partitions/{partition}/records/{offset}?sent_on=true"
        return dict(desk.services.get("consumer", path, within_s=0.75))

    return {"place": place, "status": desk.patience.ask("the record", ask)}


def moving(group: str) -> Callable[[], Any]:
    """A seek that is tried, or done if the group's name was typed. Raises `InvalidRequest`."""
    form, desk = request.form, session().desk
    execute = form.get("do") == "seek"
    if execute:
        must_be_typed(group, "group")
    to = form.get("to", "")
    if to not in _TO:
        raise InvalidRequest(f"{to[:20]!r} is no position", hint=", ".join(_TO))
    at = form.get("at", "").strip()
    topic, partition = form.get("topic", ""), form.get("partition", "")
    given: dict[str, Any] = {
        "offset": whole_number(at) if to == "offset" else None,
        "time": micros_of_time(at, "time") if to == "time" else None,
        "shift": whole_number(form.get("shift", "").strip() or "0"),
        "topics": [topic] if topic else None,
        "partition": whole_number(partition) if partition else None,
        "dry_run": not execute,
    }

    def ask() -> dict[str, Any]:
        with desk.services.admin(_CHANGE_S / 3) as admin:
            return admin.seek(group, cast("SeekTo", to), **given).model_dump()

    return ask
