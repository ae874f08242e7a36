"""Topics: all of them, and one: partitions, who owns them, files, settings."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from flask import Blueprint, render_template

from console.asking.desk import Desk
from console.asking.patience import PATIENCE_S, Kept, Patience
from console.asking.tables import LogPart
from console.context import Context, session
from console.pages.lists import chosen
from console.rules import copies, flow
from console.rules.found import Found
from lakequeue.records import checked_name
from lakequeue.wire.calls.topics import TopicSettings

_MOST_GROUPS = 12


def pages(context: Context) -> Blueprint:
    """The pages."""
    made = Blueprint("topics", __name__)

    @made.get("/topics")
    def listed() -> str:
        desk = session().desk
        topics = desk.topics.get()
        rows = flow.topic_lags(topics.value or [], _lags(desk))
        return render_template(
            "topics.html",
            **chosen(rows, lambda row: (row.topic,)),
            failed=topics.failed,
            sql=copies.sql_of_topics(context.tables.uri),
        )

    @made.get("/topics/<topic>")
    def one(topic: str) -> str:
        return render_template("topic.html", **seen(context, session().desk, topic))

    @made.get("/live/topics/<topic>")
    def live(topic: str) -> str:
        return render_template("_topic.html", **seen(context, session().desk, topic))

    return made


def described(desk: Desk, topic: str) -> Found[dict[str, Any]]:
    """The topic, as the service shows it to this key."""
    path = f"/v1/topics/{checked_name(topic, 'topic')}"
    return desk.patience.ask("the topic", lambda: dict(desk.services.get("ingest", path, 0.75)))


def seen(context: Context, desk: Desk, topic: str) -> dict[str, Any]:
    """What the templates show, within a second."""
    until = time.monotonic() + PATIENCE_S
    found = described(desk, topic)
    kept: Kept[list[LogPart]] | None = None
    if found.value is not None:
        # Whoever sees the topic may see where it lies: the service has judged that.
        topic_id, count = found.value["topic_id"], found.value["partitions"]
        kept = desk.kept(
            f"the files of {topic} ({topic_id}, {count} partitions)",
            lambda: context.tables.log_parts(topic_id, count),
        )
        kept.get(0.0)
    lags = [row for row in _lags(desk) if row.topic == topic]
    names = [row.group for row in lags][:_MOST_GROUPS]
    groups = groups_of(desk.patience, desk, names, until)
    parts: Found[Any] = Found(None)
    if kept is not None:
        parts = kept.get(max(0.05, until - time.monotonic()))
    topic_id = found.value["topic_id"] if found.value else ""
    return {
        "topic": topic,
        "found": found,
        "parts": parts,
        "lags": lags,
        "owners": owners(groups, topic),
        "failed_groups": [(name, one.failed) for name, one in groups if one.failed],
        "settings": settings(found.value or {}),
        "sql": copies.sql_of_records(context.tables.uri, topic_id, None, newest=True),
        "more_groups": max(0, len(lags) - _MOST_GROUPS),
    }


def groups_of(
    patience: Patience, desk: Desk, names: list[str], until: float
) -> list[tuple[str, Found[dict[str, Any]]]]:
    """Descriptions of groups, asked for side by side."""
    begun = [
        (name, patience.begin(f"group {name}", partial(described_group, desk, name)))
        for name in names
    ]
    return [(name, one.wait(max(0.0, until - time.monotonic()))) for name, one in begun]


def described_group(desk: Desk, group: str) -> dict[str, Any]:
    """Raises what the service raises."""
    path = f"/v1/groups/{checked_name(group, 'group')}"
    return dict(desk.services.get("consumer", path, within_s=0.75))


def owners(groups: list[tuple[str, Found[dict[str, Any]]]], topic: str) -> list[dict[str, Any]]:
    """A row for each group and partition of the topic. Pure."""
    return [
        {"group": name, **part}
        for name, one in groups
        for part in (one.value or {}).get("partitions", ())
        if part["topic"] == topic
    ]


def settings(topic: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """(name, value, whether it is the default) of each setting. Pure."""
    found = []
    for name, declared in TopicSettings.model_fields.items():
        if name in topic:
            value = topic[name]
            found.append((name, "–" if value is None else str(value), value == declared.default))
    return found


def _lags(desk: Desk) -> list[flow.GroupLag]:
    looked = desk.look(0.3)
    each = looked.value.each if looked.value else ()
    return flow.group_lags(each, desk.advice.get(0.3).value, desk.groups.get(0.3).value or [])
