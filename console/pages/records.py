"""Records: looked for by offset, time, key, text or predicate; followed; one with all it has."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlencode

from flask import Blueprint, render_template, request

from console.asking.records import Begin, Read, Wanted, search, whole
from console.context import Context, session
from console.pages.topics import described
from console.rules import copies
from console.rules.found import Failed, Found
from console.rules.records import shown
from lakequeue.errors import InvalidRequest, LakequeueError
from lakequeue.records import checked_name
from lakequeue.times import micros_of_time
from lakequeue.wire import loads_exactly

_BEGINS = ("newest", "oldest", "offset", "time")
_MOST = 200
_FIELDS = ("partition", "begin", "at", "key", "text", "where", "limit")


def pages(context: Context) -> Blueprint:
    """The pages."""
    made = Blueprint("records", __name__)

    @made.get("/topics/<topic>/records")
    def listed(topic: str) -> str:
        return render_template("records.html", **seen(context, topic))

    @made.get("/live/topics/<topic>/records")
    def live(topic: str) -> str:
        return render_template("_records.html", **seen(context, topic))

    @made.get("/topics/<topic>/records/<int:partition>/<int:offset>")
    def one(topic: str, partition: int, offset: int) -> str:
        path = f"/v1/topics/{checked_name(topic, 'topic')}/partitions/{partition}/records/{offset}"
        desk = session().desk

        def read() -> Any:
            raw = loads_exactly(desk.services.request("consumer", "GET", path, within_s=0.75))
            return shown(raw, context.masks)[0]

        found = desk.patience.ask("the record", read)
        topic_found = described(desk, topic)
        topic_id = topic_found.value["topic_id"] if topic_found.value else ""
        at = f"offset = {offset}"
        return render_template(
            "record.html",
            topic=topic,
            partition=partition,
            offset=offset,
            found=found,
            record=found.value,
            groups=[g["group"] for g in desk.groups.get(0.2).value or ()],
            sql=copies.sql_of_records(
                context.tables.uri, topic_id, partition, newest=False, begin=at
            ),
            curl=copies.curl_of(_url(), path, {}, locked=context.locked),
            python=copies.python_of_record(topic, partition, offset),
        )

    return made


def asked(topic: str, partitions: int) -> Wanted:
    """What the query says. Raises `InvalidRequest`."""
    args = request.args
    begin, at = args.get("begin", "newest"), args.get("at", "").strip()
    if begin not in _BEGINS:
        raise InvalidRequest(f"{begin[:20]!r} is no place to begin", hint=", ".join(_BEGINS))
    if begin in {"offset", "time"} and not at:
        raise InvalidRequest(
            f"an {begin} is missing" if begin == "offset" else "a time is missing",
            hint="an offset as in 42, a time as in 2026-11-29T15:00:00Z",
        )
    if begin == "offset" or (begin == "newest" and at):
        at = str(whole(at))
    if begin == "time":
        at = str(micros_of_time(at, "at"))
    chosen = args.get("partition", "")
    if chosen and not (chosen.isdigit() and int(chosen) < partitions):
        raise InvalidRequest(
            f"there is no partition {chosen[:20]!r}", hint=f"0 to {partitions - 1}"
        )
    limit = min(_MOST, max(1, args.get("limit", 50, type=int)))
    return Wanted(
        topic,
        partitions,
        int(chosen) if chosen else None,
        cast("Begin", begin),
        at,
        args.get("key", ""),
        args.get("text", ""),
        args.get("where", "").strip(),
        limit,
    )


def seen(context: Context, topic: str) -> dict[str, Any]:
    """What the templates show, within a second."""
    desk = session().desk
    found = described(desk, topic)
    topic_id = found.value["topic_id"] if found.value else ""
    partitions = int(found.value["partitions"]) if found.value else 1
    given = {name: request.args[name] for name in _FIELDS if request.args.get(name)}
    wrong: Failed | None = None
    read: Found[Read] = Found(None, found.failed)
    wanted = Wanted(topic, partitions)
    try:
        wanted = asked(topic, partitions)
        if found.failed is None:
            read = desk.patience.ask(
                "the records", lambda: search(desk.services, context.masks, wanted, 0.6)
            )
    except LakequeueError as error:
        wrong = Failed(error.detail, error.hint or "")
    return {
        "topic": topic,
        "wanted": wanted,
        "given": given,
        "query": urlencode(given),
        "read": read.value,
        "failed": wrong or read.failed,
        "more": _more(given, wanted, read.value),
        "live": wanted.begin == "newest" and not given.get("at"),
        **_elsewhere(context, topic_id, wanted),
    }


def _more(given: dict[str, str], wanted: Wanted, read: Read | None) -> str:
    """The query of the page behind this one; "" if there is none."""
    if read is None or read.next_offset is None:
        return ""
    partition = read.records[0].partition if read.records else wanted.partition
    if partition is None:
        return ""
    begin = "newest" if wanted.begin == "newest" else "offset"
    more = {"begin": begin, "at": str(read.next_offset), "partition": str(partition)}
    return urlencode(given | more)


def _elsewhere(context: Context, topic_id: str, wanted: Wanted) -> dict[str, str]:
    begin = ""
    arguments: dict[str, object] = {"partition": wanted.partition, "key": wanted.key}
    if wanted.partition is None and not wanted.key:
        arguments["partition"] = 0
    if wanted.begin == "offset":
        begin, arguments["offset"] = f"offset >= {int(wanted.at)}", int(wanted.at)
    elif wanted.begin == "time":
        begin = f"timestamp >= timestamp_micros({int(wanted.at)})"
        arguments["time"] = int(wanted.at)
    path = f"/v1/topics/{wanted.topic}/records"
    query = arguments | {"max": wanted.limit}
    return {
        "sql": copies.sql_of_records(
            context.tables.uri,
            topic_id,
            wanted.partition,
            newest=wanted.begin == "newest",
            begin=begin,
            key=wanted.key,
        ),
        "curl": copies.curl_of(_url(), path, query, locked=context.locked),
        "python": copies.python_of_records(wanted.topic, arguments | {"max_records": wanted.limit}),
    }


def _url() -> str:
    return session().desk.services.nodes("consumer")[0]
