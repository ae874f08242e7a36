"""`lakequeue produce`: lines of standard input, or arguments, to a topic."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import nullcontext
from enum import StrEnum
from io import TextIOWrapper
from typing import Annotated, Any, NamedTuple, TypedDict

import orjson
import typer

from lakequeue.arguments import duration_ms_of, header_of
from lakequeue.client.producing.outgoing import RecordMetadata
from lakequeue.client.producing.producer import Producer
from lakequeue.errors import InvalidRequest, LakequeueError, WrongUsage
from lakequeue_cli.options import AsJson, Url, ingest_url, time_of
from lakequeue_cli.output import note
from lakequeue_cli.progress import Show, silent, waiting


class As(StrEnum):
    """How a line is sent."""

    TEXT = "text"
    JSON = "json"


class Line(NamedTuple):
    """A record as it was typed."""

    key: str | None
    value: Any


class _When(TypedDict):
    delay_s: float | None
    deliver_at: int | None
    ttl_s: float | None


def line_of(text: str, number: int, delimiter: str | None, key: str | None, kind: As) -> Line:
    """Split and parse one line. Pure. Raises `InvalidRequest` naming the line."""
    if delimiter is not None:
        given, found, rest = text.partition(delimiter)
        if not found:
            raise InvalidRequest(
                f"line {number} has no {delimiter!r} between key and value",
                hint="correct the line, or leave out -K",
            )
        key, text = given, rest
    try:
        f"{key or ''}{text}".encode()
    except UnicodeEncodeError as e:
        raise InvalidRequest(
            f"line {number} is not UTF-8", hint="convert it, for example with iconv"
        ) from e
    if kind is As.TEXT:
        return Line(key, text)
    try:
        orjson.loads(text)
        # What was typed is sent: a parsed number may have fewer digits, an object fewer names.
        return Line(key, orjson.Fragment(text))
    except orjson.JSONDecodeError as e:
        raise InvalidRequest(
            f"line {number} is not JSON: {e}", hint="correct the line, or send text: -t text"
        ) from e


def produce(
    topic: Annotated[str, typer.Argument(help="Topic to send to.")],
    values: Annotated[
        list[str] | None, typer.Argument(help="Values; without any, lines of standard input.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option("-K", "--key-delimiter", help="Splits each line: KEY<this>VALUE.")
    ] = None,
    key: Annotated[str | None, typer.Option("-k", "--key", help="Key of every record.")] = None,
    partition: Annotated[
        int | None, typer.Option("-p", "--partition", min=0, help="Partition of every record.")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("-H", "--header", help="NAME=VALUE, may be repeated.")
    ] = None,
    delay: Annotated[
        str | None, typer.Option(help="Queue groups get it after 500ms, 30s, 10m, 12h, 7d.")
    ] = None,
    deliver_at: Annotated[
        str | None, typer.Option(help="Queue groups get it at this time (RFC 3339).")
    ] = None,
    ttl: Annotated[str | None, typer.Option(help="The record expires after: 30s, 7d.")] = None,
    kind: Annotated[As, typer.Option("-t", "--type", help="How a value is sent.")] = As.TEXT,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until records are ordered; also print offsets.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")] = False,
    url: Url = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.0, help="Seconds after which a record fails.")
    ] = 30.0,
    as_json: AsJson = False,
) -> None:
    """Send records; print partition and message id of each (with --wait, offset too).

    If a line cannot be read, the command ends; records that were sent before stay. If a record is
    refused, the command names its line and sends the others.

    Exit codes: 0 all records are acknowledged; 8, 9 and others: the first error.
    """
    if delimiter == "":
        raise WrongUsage("-K is empty", hint="name what is between key and value: -K :")
    headers = [header_of(text) for text in header or []]
    delay_ms, ttl_ms = duration_ms_of(delay), duration_ms_of(ttl)
    options: _When = {
        "delay_s": None if delay_ms is None else delay_ms / 1_000,
        "deliver_at": None if deliver_at is None else time_of(deliver_at),
        "ttl_s": None if ttl_ms is None else ttl_ms / 1_000,
    }
    # Where each record is a line on the terminal, these lines show how far it is.
    unseen = not values and not sys.stdin.isatty() and (quiet or not sys.stdout.isatty())
    with (
        waiting(f"sending to {topic}") if unseen else nullcontext(silent) as show,
        Producer(
            ingest_url(url), acks="ordered" if wait else "committed", delivery_timeout_s=timeout_s
        ) as producer,
    ):
        sent = _Sent(as_json, quiet, show)
        try:
            for number, text in enumerate(_texts(values), start=1):
                line = line_of(text, number, delimiter, key, kind)
                sent.add(
                    number,
                    producer.send(
                        topic, line.value, line.key, headers=headers, partition=partition, **options
                    ),
                )
        except LakequeueError:
            sent.settle()
            raise
        sent.settle()
        if sent.refused is not None:
            raise sent.refused


class _Sent:
    """The records on their way, by line: prints what becomes of each, in order."""

    def __init__(self, as_json: bool, quiet: bool, show: Show) -> None:
        self._as_json = as_json
        self._quiet = quiet
        self._show = show
        self._waiting: deque[tuple[int, Future[RecordMetadata]]] = deque()
        self.refused: LakequeueError | None = None
        """The first record that was refused alone."""

    def add(self, number: int, handle: Future[RecordMetadata]) -> None:
        """The record of line `number` is on its way."""
        self._waiting.append((number, handle))
        while self._waiting and (self._waiting[0][1].done() or len(self._waiting) > 10_000):
            self._print_next()

    def settle(self) -> None:
        """Wait for the rest. Raises what befell a whole request."""
        while self._waiting:
            self._print_next()

    def _print_next(self) -> None:
        number, handle = self._waiting.popleft()
        self._show(what=f"{number:,} records sent")
        try:
            _print(handle.result(), self._as_json, self._quiet)
        except LakequeueError as error:
            refused = at_line(error, number)
            if refused is None:
                raise
            if self.refused is None:
                self.refused = refused
            else:
                note(f"error: {refused.detail}")


def at_line(error: LakequeueError, number: int) -> LakequeueError | None:
    """An error about one record as one about its line; None if it is not about one. Pure."""
    message_id = error.extra.get("message_id")
    if message_id is None:
        return None
    detail = f"line {number}: {error.detail.removeprefix(f'record {message_id}: ')}"
    return type(error)(detail, hint=error.hint, stored=error.stored)


def _texts(values: list[str] | None) -> Iterator[str]:
    if values:
        yield from values
        return
    if sys.stdin.isatty():
        note("one record a line; Ctrl-D ends")
    if isinstance(sys.stdin, TextIOWrapper):
        # `line_of` names the line that is no UTF-8; strict reading fails a whole block of lines.
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    for line in sys.stdin:
        yield line.removesuffix("\n").removesuffix("\r")


def _print(delivered: RecordMetadata, as_json: bool, quiet: bool) -> None:
    if quiet:
        return
    if as_json:
        facts = {
            "topic": delivered.topic,
            "partition": delivered.partition,
            "message_id": delivered.message_id,
            "stamp": delivered.stamp,
        }
        if delivered.offset is not None:
            facts |= {"offset": delivered.offset, "duplicate": delivered.duplicate}
        if delivered.dead_letter_topic is not None:
            facts["dead_letter_topic"] = delivered.dead_letter_topic
        sys.stdout.write(orjson.dumps(facts).decode() + "\n")
        return
    offset = "" if delivered.offset is None else f" offset={delivered.offset}"
    duplicate = " duplicate" if delivered.duplicate else ""
    dead = delivered.dead_letter_topic
    where = "" if dead is None else f" dead-letter={dead}"
    print(f"partition={delivered.partition} id={delivered.message_id}{offset}{duplicate}{where}")
