"""The command line of the job `stream_in`. Reads and checks; starts nothing."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.command_line.options import Exit
from jobs.feeds.sources import Feed, assignments
from lakequeue.errors import InvalidRequest, Rejected
from lakequeue.processes.logs import log_to_stderr
from lakequeue.records import checked_name
from lakequeue.settings import Settings

_EXITS = (Exit.STOPPED, Exit.FAILED, Exit.USAGE, Exit.UNUSABLE)
_COLUMNS = {
    "key": "key of a record",
    "value": "value of a record",
    "headers": "headers, an array of (key string, value binary)",
    "timestamp": "time of a record",
    "message_id": "id by which the queue deduplicates, also over a lost checkpoint",
    "partition": "partition of a record",
}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the job was started with."""

    root: str
    feed: Feed
    checkpoint: str
    name: str
    available_now: bool
    interval: str
    dry_run: bool
    as_json: bool
    driver_memory: str
    work_dir: Path | None
    conf: Mapping[str, str]
    """Settings of the Spark session, where we start it."""


def parser_of(prog: str) -> argparse.ArgumentParser:
    """One sub-command a source."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Stream a Delta table, a Kafka topic or a folder of JSON files into a topic. "
        "Needs Spark and the root, no service. A batch that is run again adds no second copy; "
        "killed, start it again with the same checkpoint.",
        epilog="exit codes: "
        + ", ".join(f"{code.value} {code.name.lower()}" for code in _EXITS)
        + f". Each source has options of its own: {prog} delta --help",
    )
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="delta|kafka|json")
    delta = kinds.add_parser("delta", help="rows of a Delta table, as JSON objects")
    delta.add_argument("--table", dest="source", required=True, help="path, or catalog.schema.name")
    kafka = kinds.add_parser("kafka", help="records of Kafka topics, byte for byte")
    kafka.add_argument(
        "--servers", dest="source", required=True, help="host:port,… of the Kafka brokers"
    )
    which = kafka.add_mutually_exclusive_group(required=True)
    which.add_argument("--subscribe", help="Kafka topics, separated by commas")
    which.add_argument("--subscribe-pattern", dest="subscribePattern", help="regular expression")
    which.add_argument("--assign", help='{"topic": [0, 1]}')
    kafka.add_argument(
        "--keep-partitions",
        action="store_true",
        help="a record goes to the partition of the same number, not by its key",
    )
    files = kinds.add_parser("json", help="JSON files: a record for each line, as it stands there")
    files.add_argument("--path", dest="source", required=True, help="folder or glob")
    files.add_argument(
        "--whole-files",
        action="store_true",
        help="a file is one document, or an array of them, over many lines",
    )
    for kind in (delta, kafka, files):
        kind.epilog = parser.epilog
        _add_common(kind)
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", help="root URI or directory of the queue")
    parser.add_argument("--topic", required=True, help="topic of the queue that is written")
    parser.add_argument(
        "--checkpoint", required=True, help="folder or URI of Spark's checkpoint, one for each job"
    )
    for name, what in _COLUMNS.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            dest=f"column_{name}",
            metavar="SQL",
            help=f"{what}: an SQL expression over the source's columns",
        )
    parser.add_argument(
        "--bad-topic",
        help="topic for records that the other one refuses (by schema or size) and for what is not "
        "JSON, each with the reason as a header; without it the job stops there",
    )
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="of Spark's reader"
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="setting of the Spark session, where this job starts it",
    )
    parser.add_argument(
        "--available-now", action="store_true", help="read what is there now, then end"
    )
    parser.add_argument("--interval", default="1 second", help="between batches (%(default)s)")
    parser.add_argument("--name", help="name of the query; default stream-in-TOPIC")
    parser.add_argument(
        "--dry-run", action="store_true", help="only say which columns would be written"
    )
    parser.add_argument("--json", action="store_true", help="the report as one JSON document")
    parser.add_argument("--driver-memory", default="1g", help="heap of the Spark driver")
    parser.add_argument("--work-dir", type=Path, help="local disk for scratch files")
    parser.add_argument("--log-level", help="debug, info, warning or error")


def parse(prog: str, argv: Sequence[str] | None) -> StreamOptions:
    """Parse the command line; exits with 2, or 0 for `--help`."""
    parser = parser_of(prog)
    args = parser.parse_args(argv)
    given = {n: getattr(args, n) for n in ("root", "log_level") if getattr(args, n) is not None}
    settings = Settings(**given)
    log_to_stderr(settings.log_level)
    columns = {name: getattr(args, f"column_{name}") for name in _COLUMNS}
    kafka = ("subscribe", "subscribePattern", "assign")
    try:
        feed = Feed(
            kind=args.kind,
            source=args.source,
            topic=checked_name(args.topic, "topic"),
            subscribe={name: v for name in kafka if (v := getattr(args, name, None)) is not None},
            columns={name: sql for name, sql in columns.items() if sql is not None},
            options=assignments(args.option, "--option"),
            whole_files=getattr(args, "whole_files", False),
            bad_topic=args.bad_topic,
            keep_partitions=getattr(args, "keep_partitions", False),
        )
        conf = assignments(args.conf, "--conf")
        if not feed.source or not args.checkpoint:
            raise InvalidRequest("the source or the checkpoint is an empty text", hint="name both")
        if feed.kind == "json" and feed.bad_topic is not None and "value" in feed.columns:
            raise InvalidRequest("--bad-topic and --value exclude each other", hint="give one")
        if feed.bad_topic == feed.topic:
            raise InvalidRequest("--bad-topic and --topic are the same", hint="name another topic")
    except Rejected as error:
        parser.error(str(error))
    return StreamOptions(
        root=settings.root,
        feed=feed,
        checkpoint=args.checkpoint,
        name=args.name or f"stream-in-{feed.topic}",
        available_now=args.available_now,
        interval=args.interval,
        dry_run=args.dry_run,
        as_json=args.json,
        driver_memory=args.driver_memory,
        work_dir=args.work_dir,
        conf=conf,
    )
