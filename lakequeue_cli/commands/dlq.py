"""`lakequeue dlq`: dead records back to where they died."""

from __future__ import annotations

from typing import Annotated

import typer

from lakequeue.arguments import header_of, micros_of
from lakequeue.client.redrive import redrive as run
from lakequeue.client.redriven import Redriven, Wanted
from lakequeue_cli.options import AsJson, ConsumerUrl, Url, consumer_url, ingest_url
from lakequeue_cli.output import note, print_json

app = typer.Typer(help="Send dead records back.", no_args_is_help=True)


@app.callback()
def _commands() -> None:
    """Keeps `redrive` a word of its own while it is the only command."""


@app.command()
def redrive(
    topic: Annotated[str, typer.Argument(help="Dead-letter topic, such as orders.dlq.")],
    header: Annotated[
        list[str] | None,
        typer.Option("-H", "--header", help="Only records with this NAME=VALUE; may be repeated."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only records with a timestamp at or after this (RFC 3339).")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Only records with a timestamp before this.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Send them to this topic instead of where they died.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Limit of records per second.")
    ] = None,
    url: Url = None,
    service: ConsumerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Send what is dead now back to the topics it died in, or to one topic, each exactly once.

    What is not wanted stays in the dead-letter topic, behind the others. May be stopped and started
    again at any time.
    """
    wanted = Wanted(
        dict(header_of(text) for text in header or []) or None,
        None if since is None else micros_of(since),
        None if until is None else micros_of(until),
    )

    def say(done: Redriven) -> None:
        if not as_json:
            note(f"{done.redriven} sent back, {done.kept} kept, {done.homeless} without a topic")

    done = run(
        topic,
        urls=ingest_url(url),
        consumer_urls=consumer_url(service),
        wanted=wanted,
        to=to,
        rate=rate,
        on_progress=say,
    )
    if as_json:
        print_json({"redriven": done.redriven, "kept": done.kept, "homeless": done.homeless})
    else:
        print(f"redriven {done.redriven}, kept {done.kept}, homeless {done.homeless}")
