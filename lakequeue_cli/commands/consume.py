"""`lakequeue consume`: print records, as a member of a group or only looking."""

from __future__ import annotations

import base64
import re
import signal
import sys
import uuid
from collections.abc import Callable, Set
from typing import Annotated, Any, Literal

import typer

from lakequeue.client.admin import Admin
from lakequeue.client.consuming.consumer import Consumer
from lakequeue.client.consuming.fetch_buffer import Lost
from lakequeue.client.fetched import Place
from lakequeue.client.message import Message
from lakequeue.client.record import Record
from lakequeue.errors import InvalidRequest, LakequeueError, WrongUsage
from lakequeue.wire import JoinRequest, dumps_exactly
from lakequeue_cli.declared_options import settings_of, with_settings
from lakequeue_cli.options import (
    AsJson,
    ConsumerUrl,
    Position,
    Url,
    admin,
    consumer_url,
    position_of,
)
from lakequeue_cli.output import for_output, note

TERMINAL_FORMAT = "%t/%p@%o %k: %s\\n"
PLAIN_FORMAT = "%s\\n"


_PLACES = re.compile(r"%[tpoksSTh%]|\\[nt]")


def text_of(value: Any) -> str:
    """A key or value as text: JSON is compact, bytes that are no text are base64. Pure."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode("ascii")
    return dumps_exactly(value).decode()


def render(pattern: str, message: Message) -> str:
    """kcat's format: %t topic, %p partition, %o offset, %k key, %s value, %S its bytes, %T time
    in ms, %h headers, %%; \\n and \\t. Pure."""
    value = text_of(message.value)
    parts: dict[str, Callable[[], str]] = {
        "%t": lambda: message.topic,
        "%p": lambda: str(message.partition),
        "%o": lambda: str(message.offset),
        "%k": lambda: text_of(message.key),
        "%s": lambda: value,
        "%S": lambda: str(len(value.encode())),
        "%T": lambda: str(message.timestamp // 1000),
        "%h": lambda: ",".join(f"{k}={text_of(v)}" for k, v in message.headers),
        "%%": lambda: "%",
        "\\n": lambda: "\n",
        "\\t": lambda: "\t",
    }

    return _PLACES.sub(lambda match: parts[match[0]](), pattern)


def checked_format(pattern: str) -> str:
    """The same, if it has only the letters of `render`; raises `WrongUsage`. Pure."""
    for found in re.findall(r"%.?", pattern):
        if not _PLACES.fullmatch(found):
            raise WrongUsage(
                f"{found!r} in the format is not known",
                hint="%t topic, %p partition, %o offset, %k key, %s value, %S its bytes, "
                "%T time in ms, %h headers, %% a percent sign",
            )
    return pattern


def as_document(message: Record) -> dict[str, Any]:
    """A record for `--json`: as the service gives it."""
    document: dict[str, Any] = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
    }
    for name, value in (("key", message.key), ("value", message.value)):
        if isinstance(value, bytes):
            document[f"{name}_base64"] = base64.b64encode(value).decode("ascii")
        else:
            document[name] = value
    document["headers"] = {k: text_of(v) for k, v in message.headers}
    document["timestamp"] = message.timestamp
    document["message_id"] = message.message_id
    return document


class End:
    """When `--exit-at-end` is reached: the ends are those at the start. Pure."""

    def __init__(self, ends: dict[Place, int], positions: dict[Place, int]) -> None:
        self._left = {p: end for p, end in ends.items() if positions.get(p, 0) < end}

    def seen(self, message: Message) -> None:
        """A record was printed."""
        place = (message.topic, message.partition)
        if message.offset + 1 >= self._left.get(place, sys.maxsize):
            del self._left[place]

    def committed(self, place: Place, position: int) -> None:
        """Everything before `position` is done: printed, or skipped by the group."""
        if position >= self._left.get(place, sys.maxsize):
            del self._left[place]

    @property
    def left(self) -> Set[Place]:
        """Partitions whose end has not been seen."""
        return self._left.keys()

    def reached(self, owned: set[Place]) -> bool:
        """Nothing is left of what we own."""
        return not self._left.keys() & owned


@with_settings(*settings_of(JoinRequest))
def consume(
    topic: Annotated[str, typer.Argument(help="Topic to read.")],
    *,
    group: Annotated[
        str | None,
        typer.Option(
            "-g", "--group", help="Read as this group and acknowledge; without it, only show."
        ),
    ] = None,
    offset: Annotated[
        str, typer.Option("-o", "--offset", help="earliest, latest, an offset, -10, @TIME.")
    ] = "earliest",
    count: Annotated[
        int | None, typer.Option("-n", "--count", min=1, help="Stop after this many records.")
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("-e", "--exit-at-end", help="Stop at the present end.")
    ] = False,
    pattern: Annotated[
        str | None,
        typer.Option("-f", "--format", help="%t %p %o %k %s %S %T %h, \\n \\t, as kcat."),
    ] = None,
    mode: Annotated[
        Literal["stream", "queue"],
        typer.Option(help="stream: partitions in order. queue: share single records with others."),
    ] = "stream",
    settings: dict[str, Any],
    url: Url = None,
    service: ConsumerUrl = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.0, help="Seconds to wait for the first join.")
    ] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Print records. With -g they are acknowledged; without, nothing changes.

    A group continues at its positions; -o counts only for partitions without one.
    """
    start = position_of(offset, relative_to="latest")
    moves = start.shift != 0 or start.to not in {"earliest", "latest"}
    if group is not None and moves:
        raise InvalidRequest(
            f"-o {offset} with -g would move the group",
            hint=f"lakequeue group seek {group} --to {offset} --execute, then consume",
        )
    if mode == "queue" and group is None:
        raise WrongUsage(
            "--mode queue without a group", hint="name it with -g, its workers share the records"
        )
    name = group or f"cli-{uuid.uuid4().hex[:12]}"
    default = TERMINAL_FORMAT if sys.stdout.isatty() else PLAIN_FORMAT
    pattern = default if pattern is None else checked_format(pattern)
    with admin(url, service, timeout_s) as client:
        if group is None:
            _place(client, name, topic, start, settings.get("predicate"))
        try:
            if count is not None:
                settings["stop_after"] = count
            consumer = Consumer(
                topic,
                name,
                urls=consumer_url(service),
                from_="latest" if start.to == "latest" else "earliest",
                connect_timeout_s=timeout_s,
                on_lost=_say_lost,
                mode=mode,
                **settings,
            )
            if mode == "queue":
                _work(client, consumer, count, exit_at_end, as_json, pattern)
            else:
                end_from = start if exit_at_end else None
                filtered = "predicate" in settings
                _run(
                    client,
                    consumer,
                    topic,
                    end_from,
                    count,
                    as_json,
                    pattern,
                    filtered,
                    group is not None,
                )
        finally:
            if group is None:
                _forget(client, name)


def _place(client: Admin, name: str, topic: str, start: Position, where: str | None) -> None:
    client.seek(
        name,
        start.to,
        offset=start.offset,
        time=start.time,
        shift=start.shift,
        topics=[topic],
        predicate=where,
    )


def _forget(client: Admin, name: str) -> None:
    try:
        client.delete_group(name)
    except LakequeueError as error:
        # What was asked for has been done; the group expires by itself.
        note(f"the throw-away group {name} was not deleted: {error.detail}")


def _work(
    client: Admin,
    consumer: Consumer,
    count: int | None,
    exit_at_end: bool,
    as_json: bool,
    pattern: str,
) -> None:
    """As a worker of a queue group: each record is acknowledged once it is printed."""
    signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    signal.signal(signal.SIGINT, lambda *_: consumer.stop())
    printed = 0
    with consumer:
        while not consumer.stopping and printed != count:
            batch = consumer.poll(1.0, 10 if count is None else min(10, count - printed))
            _print_and_ack(batch, as_json, pattern)
            printed += len(batch)
            if exit_at_end and not batch and consumer.member_id is not None:
                # Records that rest or are with others are not waited for.
                group = client.group(consumer.group)
                if all(p.committed_offset == p.end_offset or not p.lag for p in group.partitions):
                    return


def _run(
    client: Admin,
    consumer: Consumer,
    topic: str,
    end_from: Position | None,
    count: int | None,
    as_json: bool,
    pattern: str,
    passes: bool,
    shared: bool,
) -> None:
    """`end_from`: stop at what is the end now, of a group that started there. `passes`: the group
    skips records, so that the last before the end may never come. `shared`: it may have members
    beside this one.
    """
    name = consumer.group
    signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    signal.signal(signal.SIGINT, lambda *_: consumer.stop())
    printed = 0
    end: End | None = None
    with consumer:
        while not consumer.stopping:
            room = 500 if count is None else min(500, count - printed)
            batch = consumer.poll(1.0 if end is None else 0.3, room)
            if end_from is not None and end is None and consumer.member_id is not None:
                end = _end_now(client, name, topic, end_from, batch)
            elif end is not None and not batch and (passes or (shared and not consumer.assignment)):
                for state in client.group(name).partitions:
                    end.committed((state.topic, state.partition), state.committed_offset or 0)
            _print_and_ack(batch, as_json, pattern)
            printed += len(batch)
            if end is not None:
                for message in batch:
                    end.seen(message)
            if printed == count:
                return
            if end is None or not end.reached(set(consumer.assignment)):
                continue
            # Between two assignments a member owns nothing: what is left is then not read yet.
            if not end.left or (shared and _others_own(client, consumer, end.left)):
                return


def _others_own(client: Admin, consumer: Consumer, places: Set[Place]) -> bool:
    """Whether each of the partitions is owned, and none by this member."""
    states = client.group(consumer.group).partitions
    owners = {(s.topic, s.partition): s.owner for s in states}
    return all(owners.get(place) not in {None, consumer.member_id} for place in places)


def _end_now(client: Admin, name: str, topic: str, start: Position, batch: list[Message]) -> End:
    """The ends at this moment, and what has been read before them."""
    states = [s for s in client.group(name).partitions if s.topic == topic]
    positions = {
        (s.topic, s.partition): s.committed_offset
        if s.committed_offset is not None
        else (s.end_offset if start.to == "latest" else s.start_offset)
        for s in states
    }
    # A batch in hand may be all there is of a partition: it counts as not read yet.
    for message in batch:
        place = (message.topic, message.partition)
        positions[place] = min(positions.get(place, message.offset), message.offset)
    return End({(s.topic, s.partition): s.end_offset for s in states}, positions)


def _print_and_ack(batch: list[Message], as_json: bool, pattern: str) -> None:
    """Acknowledge records once the output has taken all of them: a full disk may refuse them."""
    for message in batch:
        _write(message, as_json, pattern)
    sys.stdout.flush()
    for message in batch:
        message.ack()


def _write(message: Message, as_json: bool, pattern: str) -> None:
    if as_json:
        sys.stdout.write(for_output(dumps_exactly(as_document(message)).decode()) + "\n")
    else:
        sys.stdout.write(for_output(render(pattern, message)))


def _say_lost(lost: list[Lost]) -> None:
    for item in lost:
        note(f"lost {item.topic}/{item.partition} ({item.reason})")
