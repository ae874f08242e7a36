"""`lakequeue rejects`: records that were acknowledged and not ordered, and why."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from lakequeue.arguments import past_of
from lakequeue.clock import wall_micros
from lakequeue.errors import WrongUsage
from lakequeue.settings import Settings
from lakequeue.wire import moment_of
from lakequeue_cli.options import AsJson
from lakequeue_cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from queue_tables.log.rejected import RejectFilter
    from queue_tables.root import QueueRoot

app = typer.Typer(help="See records that were acknowledged and not ordered.", no_args_is_help=True)

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
    most: Annotated[int, typer.Option("-n", min=1, help="At most so many.")] = 100,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """List them, with what is wrong.

    The reasons malformed, unorderable and unreadable mean that a record could not be ordered and is
    kept as it is; `export` brings it out. With a topic that is not known the column is empty.
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
    """Write them as lines of JSON, each with its reason and, as `record`, what was sent.

    Bytes come as base64. A record can be sent again once it is mended:
    `lakequeue rejects export | jq -c .record`, as `application/x-ndjson`.
    """
    from queue_tables.log.rejected import exported, rejected

    queue, wanted = _asked(root, topic, reason, since, until)
    for row in rejected(queue, wanted):
        sys.stdout.buffer.write(exported(row))
    sys.stdout.buffer.flush()


def _asked(
    root: str | None,
    topics: list[str] | None,
    reasons: list[str] | None,
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
        since=None if since is None else past_of(since, now),
        until=None if until is None else past_of(until, now),
        **({} if reasons is None else {"reasons": frozenset(reasons)}),
    )
    return QueueRoot.existing(Settings(**({"root": root} if root else {})).root), wanted
