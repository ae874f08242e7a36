"""`lakequeue dlq`: dead records, and sending them back to where they died."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from lakequeue.arguments import header_of
from lakequeue.client.dead_records import dead_letter_topics
from lakequeue.client.redrive import redrive as run
from lakequeue.client.redriven import Redriven, Wanted
from lakequeue_cli.options import (
    AsJson,
    ConsumerUrl,
    Url,
    admin,
    consumer_url,
    ingest_url,
    time_of,
)
from lakequeue_cli.output import note, print_json, print_table
from lakequeue_cli.progress import waiting

_REASON = 60
"""Characters of a reason in the table; `--json` has all."""
app = typer.Typer(help="Show dead records, and send them back.", no_args_is_help=True)


@app.command("list")
def list_(
    topic: Annotated[
        str | None, typer.Argument(help="Dead-letter topic; default: all of them.")
    ] = None,
    url: Url = None,
    service: ConsumerUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show how many dead letters wait in each topic, why they died, and when.

    NACK-REASON is what the last worker said. Those that a redrive has sent back do not count.
    """
    with admin(url, service) as client:
        names = [topic] if topic else dead_letter_topics(client.topics())
        found = [summary for name in names for summary in client.dead_letters(name)]
    if as_json:
        print_json([asdict(summary) for summary in found])
        return
    print_table(
        ("TOPIC", "FROM", "GROUP", "REASON", "COUNT", "FIRST-DIED", "LAST-DIED", "NACK-REASON"),
        [
            (
                *(s.topic, s.origin, s.group, s.reason, s.count),
                *(_moment(s.first_died), _moment(s.last_died)),
                _short(s.nack_reason),
            )
            for s in found
        ],
    )


def _short(text: str) -> str:
    """The beginning of the first line."""
    first = next(iter(text.splitlines()), "")
    return first if len(first) <= _REASON and first == text else f"{first[: _REASON - 1]}…"


def _moment(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1_000_000, UTC).isoformat(timespec="seconds")


def _sentence(done: Redriven) -> str:
    without = f"{done.without_topic} without a topic to go to"
    return f"{done.redriven} sent back, {done.kept} kept, {without}"


def _remedy(topic: str, to: str | None) -> str:
    """For records that had no topic to go to. Pure."""
    if to is not None:
        return "records without a topic to go to cannot be read; they stay where they are"
    return (
        "records without a topic to go to have no header lakequeue-topic, or that topic is gone, "
        f"or they cannot be read; those that can be read go with: lakequeue dlq redrive {topic} "
        "--to TOPIC"
    )


@app.command()
def redrive(
    topic: Annotated[str, typer.Argument(help="Dead-letter topic, such as orders.dlq.")],
    header: Annotated[
        list[str] | None,
        typer.Option("-H", "--header", help="Only records with this NAME=VALUE; may be repeated."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Only records whose own timestamp, not death, is at or after this."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Only records whose own timestamp is before this.")
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
    """Send dead records back to the topics they died in, or to one topic, each exactly once.

    Records that do not match stay in the dead-letter topic. You may stop the command and start it
    again at any time.
    """
    wanted = Wanted(
        dict(header_of(text) for text in header or []) or None,
        None if since is None else time_of(since),
        None if until is None else time_of(until),
    )

    with waiting(f"looking through {topic}") as show:
        done = run(
            topic,
            urls=ingest_url(url),
            consumer_urls=consumer_url(service),
            wanted=wanted,
            to=to,
            rate=rate,
            on_progress=lambda done: show(what=_sentence(done)),
        )
    if as_json:
        print_json(done.counts())
    else:
        print(_sentence(done))
    if done.without_topic:
        note(_remedy(topic, to))
