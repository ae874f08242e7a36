"""`lakequeue group`: list, lag, describe, status, pause, resume, seek, delete."""

from __future__ import annotations

import itertools
import signal
import sys
import threading
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from lakequeue.client.admin import Admin
from lakequeue.errors import UnknownGroup, WrongUsage
from lakequeue.wire import (
    GroupDescription,
    PauseAnswer,
    is_internal_group,
    parse_place,
)
from lakequeue_cli.group_tables import (
    COLUMNS,
    LAG_COLUMNS,
    QUEUE_COLUMNS,
    STATUS_COLUMNS,
    lag_of,
    queue_rows_of,
    rows_of,
    status_row_of,
)
from lakequeue_cli.options import AsJson, ConsumerUrl, TimeoutS, admin, position_of
from lakequeue_cli.output import note, plain_table, print_json, print_table

app = typer.Typer(
    help="List, describe, watch, pause, move and delete consumer groups.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="Name of the group.")]


@app.command("list")
def list_(
    internal: Annotated[
        bool,
        typer.Option("--all", help="Also the groups of redrives and of `lakequeue consume`."),
    ] = False,
    service: ConsumerUrl = None,
    timeout_s: TimeoutS = 5.0,
    as_json: AsJson = False,
) -> None:
    """List the groups: topics, members, and how many records each has not settled yet."""
    with admin(None, service, timeout_s) as client:
        groups = [g for g in client.groups() if internal or not is_internal_group(g.group)]
        described = [found for g in groups if (found := _described(client, g.group)) is not None]
    if as_json:
        print_json([summary_of(found) for found in described])
        return
    print_table(
        ("GROUP", "MODE", "MEMBERS", "LAG", "TOPICS"),
        [
            (s["group"], s["mode"], s["members"], s["lag"], ",".join(s["topics"]))
            for s in map(summary_of, described)
        ],
    )


def _described(client: Admin, group: str) -> GroupDescription | None:
    try:
        return client.group(group)
    except UnknownGroup:
        return None  # deleted since it was listed


def summary_of(group: GroupDescription) -> dict[str, Any]:
    """The line of a group in `list`. Pure."""
    return {
        "group": group.group,
        "mode": group.mode,
        "members": len(group.members),
        "lag": group.lag,
        "topics": sorted({p.topic for p in group.partitions}),
    }


@app.command()
def lag(
    group: Name,
    watch: Annotated[
        float | None, typer.Option("--watch", min=0.1, help="Again every so many seconds.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("-n", "--count", min=1, help="With --watch: so many times.")
    ] = None,
    service: ConsumerUrl = None,
    timeout_s: TimeoutS = 5.0,
    as_json: AsJson = False,
) -> None:
    """Show how many records a group has not settled yet, by topic; with --watch until Ctrl-C."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    before: dict[str, int] = {}
    with admin(None, service, timeout_s) as client:
        for turn in itertools.count(1):
            now = lag_of(client.group(group))
            _say_lag(now, before if turn > 1 else None, watch, as_json)
            before = now
            if watch is None or turn == count or ended.wait(watch):
                return


def _say_lag(
    now: dict[str, int], before: dict[str, int] | None, every_s: float | None, as_json: bool
) -> None:
    """`before` is None at first: then the names of the columns are printed."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    cells: list[list[str]] = []
    for topic, lag in sorted(now.items()):
        change = None
        if before is not None and topic in before:
            change = (lag - before[topic]) / (every_s or 1)
        if as_json:
            print_json({"at": at, "topic": topic, "lag": lag, "change_per_s": change})
        else:
            cells.append([at, topic, str(lag), "-" if change is None else f"{change:+.1f}/s"])
    if not as_json:
        columns = LAG_COLUMNS[:3] if every_s is None else LAG_COLUMNS
        lines = plain_table(columns, [row[: len(columns)] for row in cells])
        print(lines if before is None else lines.partition("\n")[2], end="")
    sys.stdout.flush()


@app.command()
def describe(
    group: Name, service: ConsumerUrl = None, timeout_s: TimeoutS = 5.0, as_json: AsJson = False
) -> None:
    """Show position, end, lag and owner of each partition, and the total lag."""
    with admin(None, service, timeout_s) as client:
        found = client.group(group)
    if as_json:
        print_json(found.model_dump() | {"lag": found.lag, "waiting": found.waiting})
        return
    if found.mode == "queue":
        print_table(QUEUE_COLUMNS, queue_rows_of(found))
        for p in found.partitions:
            if p.held_back is not None:
                note(f"{p.topic}/{p.partition} holds new records back: {p.held_back}")
    else:
        print_table(COLUMNS, rows_of(found))
    total = found.lag
    predicate = (found.options or {}).get("predicate")
    if predicate is not None:
        note(f"only records WHERE {predicate}; the lag counts all that are not looked at yet")
    paused = ", paused as a whole" if found.paused else ""
    print(f"total lag {total}, members {len(found.members)}{paused}")


Topic = Annotated[str | None, typer.Option("-t", "--topic", help="Only this topic.")]
Partitions = Annotated[
    list[int] | None,
    typer.Option("-p", "--partition", min=0, help="Only this partition; may be repeated."),
]


@app.command()
def pause(
    group: Name,
    topic: Topic = None,
    partition: Partitions = None,
    service: ConsumerUrl = None,
    timeout_s: TimeoutS = 5.0,
    as_json: AsJson = False,
) -> None:
    """Stop delivery of a group, a topic or some partitions, until a resume. Acks go on.

    The command returns when no node delivers any more.
    """
    with admin(None, service, timeout_s) as client:
        _say_pauses(client.pause(group, topic, partition or None), as_json)


@app.command()
def resume(
    group: Name,
    topic: Topic = None,
    partition: Partitions = None,
    service: ConsumerUrl = None,
    timeout_s: TimeoutS = 5.0,
    as_json: AsJson = False,
) -> None:
    """Resume delivery of a group, a topic or some partitions."""
    with admin(None, service, timeout_s) as client:
        _say_pauses(client.resume(group, topic, partition or None), as_json)


def _say_pauses(answer: PauseAnswer, as_json: bool) -> None:
    if as_json:
        print_json(answer.model_dump())
        return
    print(f"{answer.group} is {_word(answer.paused)}")
    for rule in answer.rules:
        part = "" if rule.partition is None else f"/{rule.partition}"
        print(f"but {rule.topic}{part} is {_word(rule.paused)}")


def _word(paused: bool) -> str:
    return "paused" if paused else "delivered"


@app.command()
def status(
    group: Name,
    record: Annotated[
        str, typer.Argument(metavar="TOPIC/PARTITION@OFFSET", help="For example orders/0@42.")
    ],
    service: ConsumerUrl = None,
    timeout_s: TimeoutS = 5.0,
    as_json: AsJson = False,
) -> None:
    """Show the status of a record in a group: pending, in flight, parked, acked, dead, …"""
    topic, partition, offset = parse_place(record)
    with admin(None, service, timeout_s) as client:
        found = client.status(group, topic, partition, offset)
    if as_json:
        print_json(found.model_dump())
        return
    print_table(STATUS_COLUMNS, [status_row_of(found)])


@app.command()
def seek(
    group: Name,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="earliest, latest, committed, an offset, -5 or +5 (shift), "
            "@2013-01-31T07:00:00Z. With --shift alone: committed.",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("-t", "--topic", help="Only this topic; may be repeated.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("-p", "--partition", min=0, help="Only this partition.")
    ] = None,
    shift: Annotated[
        int,
        typer.Option(
            "--shift",
            help="Offsets to add, for each partition: --to latest --shift -10 is the last ten.",
        ),
    ] = 0,
    execute: Annotated[
        bool,
        typer.Option("--execute", help="Move the group. Without it, only the change is shown."),
    ] = False,
    service: ConsumerUrl = None,
    timeout_s: TimeoutS = 5.0,
    as_json: AsJson = False,
) -> None:
    """Move the positions of a group. It must have no members.

    Shows old and new positions; without --execute nothing changes. If the group has members, it is
    refused, and the error names an owner.
    """
    if to is None and not shift:
        raise WrongUsage(
            "group seek has no position",
            hint="--to earliest, latest, an offset or @2013-01-31T07:00:00Z; or --shift -10",
        )
    position = position_of("committed" if to is None else to, relative_to="committed")
    with admin(None, service, timeout_s) as client:
        answer = client.seek(
            group,
            position.to,
            offset=position.offset,
            time=position.time,
            shift=position.shift + shift,
            topics=topic,
            partition=partition,
            dry_run=not execute,
        )
    if as_json:
        print_json(answer.model_dump())
        return
    print_table(
        ("TOPIC", "PARTITION", "FROM", "", "TO"),
        [(m.topic, m.partition, m.from_offset, "→", m.to_offset) for m in answer.partitions],
    )
    if not answer.executed:
        note("nothing has changed; add --execute to do it")


@app.command()
def delete(
    group: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    service: ConsumerUrl = None,
    timeout_s: TimeoutS = 5.0,
) -> None:
    """Delete a group and its positions. It must have no members."""
    if not yes:
        typer.confirm(f"Delete group {group} and its positions?", abort=True)
    with admin(None, service, timeout_s) as client:
        client.delete_group(group)
    print(f"deleted {group}")
