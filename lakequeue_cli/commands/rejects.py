"""`lakequeue rejects`: records that were acknowledged and not ordered, why, and back again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from lakequeue.calling.addresses import ingest_urls, named
from lakequeue.clock import wall_micros
from lakequeue.errors import WrongUsage
from lakequeue.settings import Settings
from lakequeue.wire import moment_of
from lakequeue_cli.audited import audited
from lakequeue_cli.options import AsJson, Url, time_of
from lakequeue_cli.output import harmless, note, print_json, print_table
from lakequeue_cli.progress import waiting

if TYPE_CHECKING:
    from queue_tables.log.rejected import RejectFilter
    from queue_tables.root import QueueRoot

app = typer.Typer(
    help="See records that were acknowledged and not ordered, and send them again.",
    no_args_is_help=True,
)

Topic = Annotated[
    list[str] | None, typer.Option("--topic", help="Only of this topic; may be repeated.")
]
Reason = Annotated[
    list[str] | None,
    typer.Option(
        "--reason",
        help="Only with this reason; may be repeated. Default: all but duplicate and no_record.",
    ),
]
Since = Annotated[
    str | None, typer.Option(help="Only rejected since this time, or so long ago: 24h.")
]
Until = Annotated[str | None, typer.Option(help="Only records with a timestamp before this.")]
Root = Annotated[str | None, typer.Option(help="Root folder or URI of the queue.")]
_SHOWN = ("rejected_at", "topic", "partition", "reason", "shard", "stamp", "row", "message_id")


@app.command(name="list")
def list_(
    topic: Topic = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    most: Annotated[int, typer.Option("-n", min=1, help="Show at most this many.")] = 100,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """List them, with the reason of each.

    With the reasons malformed, unorderable and unreadable, the record could not be ordered and is
    kept as it is; `export` writes it out. If its topic is not known, that column is empty.
    """
    from queue_tables.log.rejected import rejected

    queue, wanted = _asked(root, topic, reason, since, until)
    found = list(islice(rejected(queue, wanted, (*_SHOWN, "detail")), most + 1))
    rows = [{name: row[name] for name in (*_SHOWN, "detail")} for row in found[:most]]
    if as_json:
        print_json(rows)
    else:
        for row in rows:
            row["rejected_at"] = moment_of(row["rejected_at"]).isoformat(timespec="seconds")
        names = (*_SHOWN, "detail")
        heads = [name.upper().replace("_", "-") for name in names]
        print_table(heads, [[row[name] for name in names] for row in rows])
    if len(found) > most:
        note(f"there are more than {most}: -n, or narrow it by --topic, --reason, --since")


@app.command()
def export(
    topic: Topic = None,
    reason: Reason = None,
    since: Since = None,
    until: Until = None,
    root: Root = None,
) -> None:
    """Write them as lines of JSON: each has its reason, and in `record` what was sent.

    Bytes are base64. To change records and send them again, use
    `lakequeue rejects export | jq -c .record`, and send the lines as `application/x-ndjson`.
    """
    from queue_tables.log.rejected import exported, rejected

    queue, wanted = _asked(root, topic, reason, since, until)
    for row in rejected(queue, wanted):
        sys.stdout.buffer.write(exported(row))
    sys.stdout.buffer.flush()


@app.command()
def redrive(
    topic: Topic = None,
    reason: Annotated[
        list[str] | None,
        typer.Option(
            "--reason",
            help="Only with this reason; may be repeated."
            " Default: malformed, unorderable, topic_gone, partition_gone.",
        ),
    ] = None,
    since: Since = None,
    until: Until = None,
    to: Annotated[
        str | None,
        typer.Option(help="Send them to this topic, by their keys, instead of to their own."),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Send them. Without it, nothing changes.")
    ] = False,
    root: Root = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Send those to their topics again that would be accepted now.

    If a topic would still refuse a record (wrong schema, no such partition, expired), the command
    says why and does not send it. Files that cannot be read are not sent; `export` writes them out.
    You may run this again: a record that is in `log` is not sent twice. All stay in `rejects`.

    Exit codes: 0 all were sent, or would be; 1 some were refused.
    """
    from lakequeue_cli.rejects_redrive import Redrive, check_queue
    from queue_tables.log.rejected import rejected
    from queue_tables.schema.reasons import Fate, Reason, with_fate

    defaults = (Reason.MALFORMED, Reason.UNORDERABLE, Reason.TOPIC_GONE, Reason.PARTITION_GONE)
    chosen = [*defaults] if reason is None else reason
    for name in {Reason.UNREADABLE, *with_fate(Fate.NOT_LOST)} & {*chosen}:
        raise WrongUsage(
            f"a row with the reason {name} is not a missing record",
            hint="lakequeue rejects export brings it out",
        )
    queue, wanted = _asked(root, topic, chosen, since, until)
    urls = named(ingest_urls(url, _settings(root))) if execute else []
    check_queue(urls, queue)
    run = Redrive(queue, to, urls, wall_micros())
    with ExitStack() as stack:
        told = stack.enter_context(audited(queue, "rejects redrive", to or "")) if execute else {}
        with waiting("sending" if execute else "looking through rejects") as show, run:
            for number, row in enumerate(rejected(queue, wanted), start=1):
                run.take(row)
                show(what=f"{number} records looked at")
        told["sent"] = run.sent
    done = {"sent": run.sent, "there": run.there, "refused": len(run.refused)}
    if as_json:
        print_json({"execute": execute, **done, "records": run.refused})
    else:
        for one in run.refused:
            place = f"{one['shard']}:{one['stamp']}:{one['row']}"
            print(harmless(f"{place}: refused: {one['why']}"))
        verb = "sent" if execute else "would send"
        print(f"{verb} {run.sent}, {run.there} are there already, {len(run.refused)} refused")
        if run.sent and not execute:
            print("nothing was sent; say it again with --execute")
    raise typer.Exit(1 if run.refused else 0)


def _asked(
    root: str | None,
    topics: list[str] | None,
    reasons: Sequence[str] | None,
    since: str | None,
    until: str | None,
) -> tuple[QueueRoot, RejectFilter]:
    # Loaded here: a machine with the SDK and CLI alone has no storage packages.
    from queue_tables.log.rejected import RejectFilter
    from queue_tables.root import QueueRoot
    from queue_tables.schema.reasons import WRITTEN

    for reason in reasons or ():
        if reason not in WRITTEN:
            raise WrongUsage(f"reason {reason!r} is not known", hint=", ".join(WRITTEN))
    now = wall_micros()
    wanted = RejectFilter(
        topics=None if topics is None else frozenset(topics),
        since=None if since is None else time_of(since, now),
        until=None if until is None else time_of(until, now),
        **({} if reasons is None else {"reasons": frozenset(reasons)}),
    )
    return QueueRoot.existing(_settings(root).root), wanted


def _settings(root: str | None) -> Settings:
    return Settings(**({"root": root} if root else {}))
