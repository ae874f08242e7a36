"""`lakequeue topic`: create, list, describe, alter, delete."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import typer

from lakequeue.arguments import WrongUsage, duration_ms_of
from lakequeue.client.record import Record
from lakequeue.errors import InvalidRequest
from lakequeue.wire import (
    DEFAULT_DEDUP_WINDOW_MS,
    DEFAULT_PARTITIONS,
    OnExpired,
    TopicDescription,
)
from lakequeue_cli.commands.consume import as_document, text_of
from lakequeue_cli.options import AsJson, ConsumerUrl, TimeoutS, Url, admin, position_of
from lakequeue_cli.output import print_json, print_table

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the topic.")]
Partitions = Annotated[int | None, typer.Option("-p", "--partitions", min=1)]
Retention = Annotated[
    str | None, typer.Option(help="Records older than this may be removed: 7d, 12h; 0s: never.")
]
RetentionBytes = Annotated[
    int | None,
    typer.Option(
        min=0, help="If the topic has more bytes, the oldest may be removed; 0: no limit."
    ),
]
ExpireUnconsumed = Annotated[
    bool | None,
    typer.Option(
        "--expire-unconsumed/--keep-unconsumed",
        help="Remove records even if a live group has not consumed them.",
    ),
]
Ttl = Annotated[str | None, typer.Option(help="Records older than this are not delivered.")]
DedupWindow = Annotated[str | None, typer.Option(help="For how long copies are recognised.")]
MaxRecordBytes = Annotated[int | None, typer.Option(min=1, help="Largest allowed record.")]
ValueSchema = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="JSON Schema file for values.")
]
OnExpiredOption = Annotated[
    OnExpired | None, typer.Option(help="What to do with expired records: drop or dead_letter.")
]
DeadLetterTopic = Annotated[
    str | None, typer.Option(help='Topic for dead records; default <topic>.dlq, "" restores it.')
]
MaxAttempts = Annotated[
    int | None, typer.Option(min=0, help="Deliveries until a record is dead; 0: the group's.")
]
Backoff = Annotated[str | None, typer.Option(help="Delay after the first failed delivery: 500ms.")]
BackoffMax = Annotated[str | None, typer.Option(help="Longest delay; it doubles each time: 5m.")]
BackoffJitter = Annotated[
    int | None, typer.Option(min=0, max=100, help="Random part of a delay, in percent.")
]


class _Given(TypedDict):
    """The options of `create` and `alter`, as typed."""

    partitions: int | None
    retention: str | None
    retention_bytes: int | None
    expire_unconsumed: bool | None
    ttl: str | None
    dedup_window: str | None
    max_record_bytes: int | None
    value_schema: Path | None
    on_expired: OnExpired | None
    dead_letter_topic: str | None
    max_attempts: int | None
    backoff: str | None
    backoff_max: str | None
    backoff_jitter: int | None


_TAKEN_BACK: tuple[Literal["dead_letter_topic", "max_attempts", "retention_bytes"], ...] = (
    "dead_letter_topic",
    "max_attempts",
    "retention_bytes",
)


def _settings(options: _Given) -> dict[str, Any]:
    """The settings that were given. "0s" takes a limit of age away, 0 and "" a choice."""
    given: dict[str, Any] = {
        "partitions": options["partitions"],
        "dedup_window_ms": duration_ms_of(options["dedup_window"]),
        "max_record_bytes": options["max_record_bytes"],
        "value_schema": None if (file := options["value_schema"]) is None else file.read_text(),
        "on_expired": options["on_expired"],
        "expire_unconsumed": options["expire_unconsumed"],
        "backoff_ms": duration_ms_of(options["backoff"]),
        "backoff_max_ms": duration_ms_of(options["backoff_max"]),
        "backoff_jitter_percent": options["backoff_jitter"],
    }
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name, text in (("retention_ms", options["retention"]), ("ttl_ms", options["ttl"])):
        if text is not None:
            settings[name] = duration_ms_of(text) or None
    chosen = {n: options[n] for n in _TAKEN_BACK if options[n] is not None}
    settings |= {name: value or None for name, value in chosen.items()}
    return settings


@app.command()
def create(
    topic: Name,
    partitions: Partitions = None,
    partitioner: Annotated[str, typer.Option(help="crc32 or murmur2 (as Kafka's).")] = "crc32",
    retention: Retention = None,
    retention_bytes: RetentionBytes = None,
    expire_unconsumed: ExpireUnconsumed = None,
    ttl: Ttl = None,
    dedup_window: DedupWindow = None,
    max_record_bytes: MaxRecordBytes = None,
    value_schema: ValueSchema = None,
    on_expired: OnExpiredOption = None,
    dead_letter_topic: DeadLetterTopic = None,
    max_attempts: MaxAttempts = None,
    backoff: Backoff = None,
    backoff_max: BackoffMax = None,
    backoff_jitter: BackoffJitter = None,
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
    config = _settings(
        {
            "partitions": partitions,
            "retention": retention,
            "retention_bytes": retention_bytes,
            "expire_unconsumed": expire_unconsumed,
            "ttl": ttl,
            "dedup_window": dedup_window,
            "max_record_bytes": max_record_bytes,
            "value_schema": value_schema,
            "on_expired": on_expired,
            "dead_letter_topic": dead_letter_topic,
            "max_attempts": max_attempts,
            "backoff": backoff,
            "backoff_max": backoff_max,
            "backoff_jitter": backoff_jitter,
        }
    )
    with admin(url, timeout_s=timeout_s) as client:
        made, created = client.create_topic(
            topic,
            if_not_exists=if_not_exists,
            **{"partitions": DEFAULT_PARTITIONS, "partitioner": partitioner} | config,
        )
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
    defaults = {
        "partitions": DEFAULT_PARTITIONS,
        "partitioner": "crc32",
        "on_expired": "drop",
        "expire_unconsumed": False,
        "dedup_window_ms": DEFAULT_DEDUP_WINDOW_MS,
    }
    identity = {"topic", "topic_id", "version"}
    print_table(
        ("SETTING", "VALUE", "SOURCE"),
        [
            (name, value, _source(name, value, identity, defaults))
            for name, value in found.model_dump().items()
        ],
    )


def _source(name: str, value: Any, identity: set[str], defaults: dict[str, Any]) -> str | None:
    if name in identity:
        return None
    return "default" if value == defaults.get(name) else "topic"


@app.command()
def alter(
    topic: Name,
    partitions: Partitions = None,
    retention: Retention = None,
    retention_bytes: RetentionBytes = None,
    expire_unconsumed: ExpireUnconsumed = None,
    ttl: Ttl = None,
    dedup_window: DedupWindow = None,
    max_record_bytes: MaxRecordBytes = None,
    value_schema: ValueSchema = None,
    on_expired: OnExpiredOption = None,
    dead_letter_topic: DeadLetterTopic = None,
    max_attempts: MaxAttempts = None,
    backoff: Backoff = None,
    backoff_max: BackoffMax = None,
    backoff_jitter: BackoffJitter = None,
    drain: Annotated[
        bool,
        typer.Option(
            "--drain", help="With -p: wait until every group has consumed all; producers wait."
        ),
    ] = False,
    drain_timeout_s: Annotated[
        float, typer.Option("--drain-timeout", min=1.0, max=500.0, help="Longest wait, in seconds.")
    ] = 60.0,
    url: Url = None,
    service: ConsumerUrl = None,
    timeout_s: TimeoutS = 5.0,
    as_json: AsJson = False,
) -> None:
    """Change settings of a topic. Partitions only grow; new ones are read from earliest.

    When they grow, keys move to other partitions; with --drain each stays in order all the same.
    """
    changes = _settings(
        {
            "partitions": partitions,
            "retention": retention,
            "retention_bytes": retention_bytes,
            "expire_unconsumed": expire_unconsumed,
            "ttl": ttl,
            "dedup_window": dedup_window,
            "max_record_bytes": max_record_bytes,
            "value_schema": value_schema,
            "on_expired": on_expired,
            "dead_letter_topic": dead_letter_topic,
            "max_attempts": max_attempts,
            "backoff": backoff,
            "backoff_max": backoff_max,
            "backoff_jitter": backoff_jitter,
        }
    )
    if not changes:
        raise InvalidRequest("nothing to change", hint="give at least one option, see --help")
    if drain and partitions is None:
        raise WrongUsage("--drain needs a number of partitions", hint="-p 8 --drain")
    with admin(url, service, timeout_s=timeout_s) as client:
        if drain:
            grown = changes.pop("partitions")
            changed = client.grow_topic(topic, grown, drain_timeout_s)
        if changes:
            changed = client.alter_topic(topic, **changes)
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
        str, typer.Option("-o", "--offset", help="earliest, an offset, or @TIME.")
    ] = "earliest",
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=10_000)] = 20,
    service: ConsumerUrl = None,
    timeout_s: TimeoutS = 5.0,
    as_json: AsJson = False,
) -> None:
    """Show records of a partition, without a group."""
    at = position_of(offset, relative_to="latest")
    if at.to not in {"earliest", "offset", "time"}:
        raise WrongUsage(f"-o {offset} is not valid here", hint="earliest, an offset, or @TIME")
    found: list[Record] = []
    with admin(None, service, timeout_s) as client:
        page = client.browse(
            topic, partition, key=key, offset=at.offset, time=at.time, max_records=count
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


def _time_of(record: Record) -> str:
    try:
        return record.time.isoformat()
    except InvalidRequest:
        return f"{record.timestamp} µs"
