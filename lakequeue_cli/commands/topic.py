"""`lakequeue topic`: create, list, describe, alter, delete."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lakequeue.client.admin import Admin
from lakequeue.client.dead_records import ends_of
from lakequeue.client.record import Record
from lakequeue.errors import InvalidRequest, WrongUsage
from lakequeue.wire import TopicDescription
from lakequeue.wire.calls.topics import TopicIdentity, TopicSettings
from lakequeue.wire.declared import declared
from lakequeue_cli.commands.consume import as_document, text_of
from lakequeue_cli.declared_options import settings_of, with_settings
from lakequeue_cli.options import AsJson, ConsumerUrl, TimeoutS, Url, admin, position_of
from lakequeue_cli.output import print_json, print_table
from lakequeue_cli.progress import waiting

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the topic.")]


def _drain_seconds(text: str) -> float:
    """As a range of typer, of which `--help` would be wider than a terminal."""
    try:
        seconds = float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no number") from error
    if not 1.0 <= seconds <= 500.0:
        raise typer.BadParameter(f"{text} is not in the range 1<=x<=500")
    return seconds


@app.command()
@with_settings(*settings_of(TopicSettings))
def create(
    topic: Name,
    *,
    settings: dict[str, Any],
    if_not_exists: Annotated[
        bool,
        typer.Option(
            "--if-not-exists", help="No error if the topic exists, even with other settings."
        ),
    ] = False,
    url: Url = None,
    timeout_s: TimeoutS = 5.0,
    as_json: AsJson = False,
) -> None:
    """Create a topic. It has 4 partitions, unless you give -p."""
    with admin(url, timeout_s=timeout_s) as client:
        made, created = client.create_topic(topic, if_not_exists=if_not_exists, **settings)
    if as_json:
        print_json(made.model_dump() | {"created": created})
    else:
        print(f"{'created' if created else 'exists already:'} {_line(made)}")


@app.command("list")
def list_(url: Url = None, timeout_s: TimeoutS = 5.0, as_json: AsJson = False) -> None:
    """List the topics."""
    with admin(url, timeout_s=timeout_s) as client:
        topics = client.topics()
    if as_json:
        print_json([t.model_dump() for t in topics])
        return
    print_table(
        ("TOPIC", "PARTITIONS", "RETENTION-MS", "DEDUP-WINDOW-MS"),
        [(t.topic, t.partitions, t.retention_ms, t.dedup_window_ms) for t in topics],
    )


@app.command()
def describe(
    topic: Name, url: Url = None, timeout_s: TimeoutS = 5.0, as_json: AsJson = False
) -> None:
    """Show every setting of a topic, and whether it is the default."""
    with admin(url, timeout_s=timeout_s) as client:
        found = client.topic(topic)
    if as_json:
        print_json(found.model_dump())
        return
    defaults = {one.name: one.default for one in declared(TopicSettings)}
    identity = TopicIdentity.model_fields
    print_table(
        ("SETTING", "VALUE", "SOURCE"),
        [
            (name, value, None if name in identity else _source(value, defaults.get(name)))
            for name, value in found.model_dump().items()
        ],
    )


def _source(value: Any, default: Any) -> str:
    return "default" if value == default else "topic"


@app.command()
@with_settings(*settings_of(TopicSettings, alterable=True))
def alter(
    topic: Name,
    *,
    settings: dict[str, Any],
    drain: Annotated[
        bool,
        typer.Option(
            "--drain", help="With -p: wait until every group has consumed all; producers wait."
        ),
    ] = False,
    drain_timeout_s: Annotated[
        float,
        typer.Option(
            "--drain-timeout",
            parser=_drain_seconds,
            metavar="S",
            help="Longest wait: 1 to 500 seconds.",
        ),
    ] = 60.0,
    url: Url = None,
    service: ConsumerUrl = None,
    timeout_s: TimeoutS = 5.0,
    as_json: AsJson = False,
) -> None:
    """Change settings of a topic. Partitions only grow; new ones are read from earliest.

    When they grow, keys move to other partitions; with --drain each stays in order all the same.
    """
    if not settings:
        raise InvalidRequest("nothing to change", hint="give at least one option, see --help")
    if drain and "partitions" not in settings:
        raise WrongUsage("--drain needs a number of partitions", hint="-p 8 --drain")
    with admin(url, service, timeout_s=timeout_s) as client:
        if drain:
            grown = settings.pop("partitions")
            with waiting(f"waiting until every group has consumed {topic}"):
                changed = client.grow_topic(topic, grown, drain_timeout_s)
        if settings:
            changed = client.alter_topic(topic, **settings)
    if as_json:
        print_json(changed.model_dump())
    else:
        print(f"altered {_line(changed)}")


@app.command()
def delete(
    topic: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    timeout_s: TimeoutS = 5.0,
) -> None:
    """Delete a topic. Its records are no longer delivered."""
    if not yes:
        typer.confirm(f"Delete topic {topic} and its records?", abort=True)
    with admin(url, timeout_s=timeout_s) as client:
        client.delete_topic(topic)
    print(f"deleted {topic}")


def _line(topic: TopicDescription) -> str:
    return f"{topic.topic} partitions={topic.partitions} id={topic.topic_id}"


@app.command()
def browse(
    topic: Name,
    partition: Annotated[int | None, typer.Option("-p", "--partition", min=0)] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "-k", "--key", help="Only records with this key; the key also selects the partition."
        ),
    ] = None,
    offset: Annotated[
        str, typer.Option("-o", "--offset", help="earliest, latest, an offset, -10, @TIME.")
    ] = "earliest",
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=10_000)] = 20,
    service: ConsumerUrl = None,
    timeout_s: TimeoutS = 5.0,
    as_json: AsJson = False,
) -> None:
    """Show records of a partition, without a group."""
    at = position_of(offset, relative_to="latest")
    if at.shift > 0:
        raise WrongUsage(f"-o {offset} is behind the end", hint="latest, or -10 for the last ten")
    found: list[Record] = []
    with admin(None, service, timeout_s) as client:
        first = at.offset
        if at.to == "latest":
            if key is not None:
                partition = client.browse(topic, key=key, max_records=1).partition
            partition, first = _from_the_end(client, topic, partition, at.shift)
        page = client.browse(
            topic,
            partition,
            key=key,
            offset=first,
            time=at.time,
            max_records=count,
        )
        found += page.records
        while len(found) < count and page.more:
            page = client.browse(
                topic,
                page.partition,
                key=key,
                offset=page.next_offset,
                max_records=count - len(found),
            )
            found += page.records
    if as_json:
        print_json([as_document(record) for record in found])
        return
    rows = [(r.partition, r.offset, _time_of(r), text_of(r.key), text_of(r.value)) for r in found]
    print_table(("PARTITION", "OFFSET", "TIME", "KEY", "VALUE"), rows)


def _from_the_end(client: Admin, topic: str, partition: int | None, shift: int) -> tuple[int, int]:
    """The partition, the only one if none is given, and the offset so far from its end."""
    found = ends_of(client, topic, shift)
    if partition is None and len(found) > 1:
        raise WrongUsage(
            f"topic {topic} has {len(found)} partitions, each with an end of its own",
            hint="name one: -p 0",
        )
    return partition or 0, found.get(partition or 0, 0)


def _time_of(record: Record) -> str:
    try:
        return record.time.isoformat()
    except InvalidRequest:
        return f"{record.timestamp} µs"
