"""Webhooks: of all groups, and one: where it posts and how; made, changed and removed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from flask import Blueprint, render_template, request

from console.asking.desk import Desk
from console.context import Context, session
from console.pages.forms import must_be_typed, tried, whole_number
from console.pages.lists import chosen
from console.rules import copies
from console.rules.found import Found
from lakequeue.errors import Forbidden, InvalidRequest, UnknownGroup, UnknownWebhook
from lakequeue.records import checked_name

_CHANGE_S = 15.0
_LIST_S = 0.7
_NUMBERS = ("concurrency", "timeout_ms", "max_attempts")


def pages(context: Context) -> Blueprint:
    """The pages."""
    made = Blueprint("webhooks", __name__)

    def every(done: Found[Any] | None = None) -> str:
        found = listed(session().desk)
        rows = found.value or []
        return render_template(
            "webhooks.html",
            **chosen(rows, lambda row: (row["group"],)),
            failed=found.failed,
            done=done,
            form=request.form,
            sql=copies.sql_of_webhooks(context.tables.uri),
        )

    def shown(group: str, done: Found[Any] | None = None, removed: Any = None) -> str:
        name = checked_name(group, "group")
        desk = session().desk
        found = desk.patience.ask("the webhook", lambda: webhook_of(desk, name))
        return render_template(
            "webhook.html",
            group=group,
            found=found,
            webhook=found.value,
            done=done,
            removed=removed,
            form=request.form,
            sql=copies.sql_of_webhooks(context.tables.uri, group),
        )

    @made.get("/webhooks")
    def show_all() -> str:
        return every()

    @made.post("/webhooks")
    def make() -> str:
        group = request.form.get("group", "").strip()
        return every(tried("the webhook", lambda: putting(group, must_be_new=True), _CHANGE_S))

    @made.get("/webhooks/<group>")
    def show(group: str) -> str:
        return shown(group)

    @made.post("/webhooks/<group>")
    def change(group: str) -> str:
        if request.form.get("do") == "remove":
            return shown(group, removed=tried("it", lambda: removing(group), _CHANGE_S))
        return shown(group, tried("the webhook", lambda: putting(group), _CHANGE_S))

    return made


def listed(desk: Desk) -> Found[list[dict[str, Any]]]:
    """All that whoever looks may manage. One question a group: it may come with the next look."""

    def look() -> list[dict[str, Any]]:
        found = []
        for group in desk.groups.get(5.0).value or ():
            with contextlib.suppress(Forbidden):
                found.append(webhook_of(desk, group["group"]))
        return [webhook for webhook in found if webhook is not None]

    return desk.kept("the webhooks of all groups", look).get(_LIST_S)


def webhook_of(desk: Desk, group: str) -> dict[str, Any] | None:
    """None: there is none. Raises `Forbidden`, and what else the service raises."""
    try:
        return dict(desk.services.get("consumer", f"/v1/groups/{group}/webhook"))
    except (UnknownWebhook, UnknownGroup):
        return None


def putting(group: str, *, must_be_new: bool = False) -> Callable[[], Any]:
    """The call that registers what the form says. Raises `InvalidRequest`.

    A changed URL gets another secret, and the old one is gone: so a change is typed.
    """
    form, desk = request.form, session().desk
    name = checked_name(group, "group")
    if not must_be_new:
        must_be_typed(group, "group")
    topics = [text.strip() for text in form.get("topics", "").split(",") if text.strip()]
    given: dict[str, Any] = {"url": form.get("url", "").strip(), "topics": topics}
    if form.get("format"):
        given["format"] = form["format"]
    given |= {n: whole_number(form[n].strip()) for n in _NUMBERS if form.get(n, "").strip()}

    def put() -> Any:
        known = webhook_of(desk, name)
        if known is not None and must_be_new:
            raise InvalidRequest(f"group {name} has a webhook", hint=f"change it: /webhooks/{name}")
        kept = {} if known is None else {**known["options"], "format": known["format"]}
        with desk.services.admin(_CHANGE_S / 2) as admin:
            return admin.set_webhook(name, **kept | given).model_dump()

    return put


def removing(group: str) -> Callable[[], bool]:
    """The call that removes it. Raises `InvalidRequest`."""
    must_be_typed(group, "group")
    name, services = checked_name(group, "group"), session().desk.services

    def remove() -> bool:
        with services.admin(_CHANGE_S / 2) as admin:
            admin.delete_webhook(name)
        return True

    return remove
