"""What both consumers have in common: their options, and the core that they drive."""

from __future__ import annotations

import logging
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, TypedDict

from pydantic import TypeAdapter, ValidationError

from lakequeue.calling.addresses import Urls, consumer_urls
from lakequeue.calling.credentials import Credentials
from lakequeue.calling.effects import Script, Wait
from lakequeue.calling.forks import check_process
from lakequeue.calling.nodes import Nodes
from lakequeue.client.consuming.core import Consuming
from lakequeue.client.consuming.fetch_buffer import OffsetRange
from lakequeue.client.consuming.keeping import OnLost, OnStatus
from lakequeue.client.consuming.membership import ConsumeOptions
from lakequeue.client.consuming.queue_core import QueueConsuming
from lakequeue.client.fetched import messages_of
from lakequeue.client.message import Message
from lakequeue.client.messages import Messages
from lakequeue.errors import (
    CoordinationUnavailable,
    InvalidRequest,
    LakequeueError,
    MissingDependency,
)
from lakequeue.extras import pip_install
from lakequeue.records import checked_name
from lakequeue.results.restores import Restores
from lakequeue.wire import HOST_HEADER, JoinRequest

_log = logging.getLogger("lakequeue.consumer")
CLOSE_TIMEOUT_S = 10.0
_POLL_LEAVES_S = 0.005
"""Mostly it has left by then; if not, the records are not kept waiting for it."""
_RETURN_TIMEOUT_S = 3.0
"""For what is given back unopened: if nobody hears of it, it comes again, as after an attempt."""
_NO_ACKS = (
    "commit() of group %s commits nothing: it has %d records, and acknowledged none. Call "
    "message.ack() for each record that is done; all others are delivered again"
)
_LATE_ACKS = "some acks came too late: %s"


def delta_module() -> ModuleType:
    """Loaded when it is asked for: most consumers need neither deltalake nor Arrow."""
    try:
        return import_module("lakequeue.client.consuming.transaction")
    except ImportError as error:
        raise MissingDependency(
            f"transactions need deltalake: {error}", hint=pip_install("delta")
        ) from error


class ConsumerOptions(TypedDict, total=False):
    """Options of both consumers."""

    urls: Urls | None
    """One or several consumer-service nodes. If one does not answer, the next is tried."""
    find_nodes: bool
    """True (default): ask the given nodes for all others, and join through any of them. False: use
    only the given ones, because the others cannot be reached from here."""
    from_: Literal["earliest", "latest"]
    """Where to begin in a partition in which the group has no position; `"earliest"`."""
    session_timeout_ms: int
    """A member that sends nothing for this long is removed; the default is the service's."""
    max_poll_interval_ms: int
    """A member that acknowledges nothing for this long loses its partitions; the default is the
    service's."""
    max_poll_records: int
    """A poll gets at most this many records, and one poll is fetched ahead; 1000, in queue groups
    10."""
    stop_after: int
    """Stop after this many records. No more are fetched: other members have the rest."""
    ack_interval_ms: float
    """Acknowledgements are sent together, once in this time; 50."""
    mode: Literal["stream", "queue"]
    """`"stream"`: partitions are in order, and a position is committed. `"queue"`: each record goes
    to one of any number of workers, who settles it by itself; `message.nack` and `message.extend`
    are for this mode."""
    predicate: str
    """A condition in SQL. The group gets only records that match it, and skips the others. All
    members give the same, or none."""
    undecodable: Literal["dead_letter", "tombstone", "skip", "stop"]
    """What happens to a record that cannot be read. All members give the same, or none. Queue
    groups: `"dead_letter"` (default), `"tombstone"` (delivered without key and value), `"skip"`.
    Stream groups: `"tombstone"` (default), `"skip"`, `"stop"` (`poll` raises
    `UndecodableRecord`)."""
    visibility_timeout_ms: int
    """Queue groups: how long a record is reserved for a worker. It is renewed while the worker has
    the record."""
    max_attempts: int
    """Queue groups: after this many deliveries a record goes to the dead-letter topic."""
    ordering: Literal["none", "key"]
    """Queue groups: with `"key"`, the next record of a key comes only after the one before is
    settled."""
    backoff_ms: int
    """Queue groups: pause after the first nack. Each further nack doubles it."""
    backoff_max_ms: int
    """Queue groups: the longest pause."""
    backoff_jitter_percent: int
    """Queue groups: random part of a pause."""
    dead_letter_topic: str
    """Queue groups: where dead records go; `<topic>.dlq`."""
    max_in_flight: int
    """Queue groups: this worker has at most this many records at once; the default is the service's
    1,000."""
    renew_for_s: float
    """Queue groups: how long a record is renewed at most; 3600. 0: never."""
    value_type: Any
    """Values are objects of this type: a pydantic model, a dataclass, a TypedDict, or any type that
    pydantic can check. `Message.value` makes them from the JSON that was sent."""
    name: str
    """How this consumer is called, in the list of members and in SQL: its member id begins with it;
    the name of this machine."""
    connect_timeout_s: float
    """The first join must succeed in this time; 30. Later joins are tried for ever."""
    credentials: Credentials | str | None
    """An API key or token, or `Credentials`; by default from the environment."""
    on_lost: OnLost | None
    """Called in the background with the list of `Lost` partitions, as soon as they are known."""
    on_status: OnStatus | None
    """Called with one line of text when the consumer joins, loses a node, or joins again."""


def _plain(name: str) -> str:
    """Headers hold ASCII."""
    return name.encode("ascii", "replace").decode()


class ConsumerBase(ABC):
    """What both consumers have in common."""

    def __init__(self, topics: str | Sequence[str], group: str, options: ConsumerOptions) -> None:
        names = [topics] if isinstance(topics, str) else list(topics)
        try:
            given = {n: v for n, v in options.items() if n in JoinRequest.model_fields}
            join = JoinRequest.model_validate(
                given | {"topics": [checked_name(t, "topic") for t in names]}
            )
        except ValidationError as e:
            raise InvalidRequest(f"the options are not valid: {e}", hint="see docs/sdk.md") from e
        value_type = options.get("value_type")
        self._value_type: TypeAdapter[Any] | None = (
            None if value_type is None else TypeAdapter(value_type)
        )
        self.topics = names
        self.group = checked_name(group, "group")
        self.restores: dict[str, Restores] = {}
        """Of the result tables that were written to."""
        self._headers = {HOST_HEADER.lower(): _plain(options.get("name") or socket.gethostname())}
        queue = join.mode == "queue"
        nodes = Nodes(consumer_urls(options.get("urls")), finds=options.get("find_nodes", True))
        consume = ConsumeOptions(
            # A worker that fetches much ahead keeps it from the others.
            max_poll_records=options.get("max_poll_records", 10 if queue else 1000),
            paced=queue and "max_poll_records" not in options,
            ack_interval_s=options.get("ack_interval_ms", 50.0) / 1000,
            connect_timeout_s=options.get("connect_timeout_s", 30.0),
            stop_after=options.get("stop_after"),
        )
        tell = (options.get("on_lost"), options.get("on_status"))
        common = (nodes, group, join, consume, time.monotonic, self._notify, *tell)
        self._core: Consuming = (
            QueueConsuming(*common, options.get("renew_for_s", 3_600.0))
            if queue
            else Consuming(*common)
        )

    @abstractmethod
    def _notify(self) -> None:
        """Wake whoever waits for a change."""

    @property
    def assignment(self) -> dict[tuple[str, int], int | None]:
        """What this consumer owns now: (topic, partition) → epoch."""
        check_process(self._core.made_in)
        with self._core.lock:
            return dict(self._core.buffer.assignment)

    @property
    def member_id(self) -> str | None:
        """Id of the current membership; None while there is none."""
        member = self._core.member
        return member.member_id if member else None

    @property
    def stopping(self) -> bool:
        """Whether `stop` or `close` was called: no more records are handed out."""
        return self._core.closing

    def stop(self) -> None:
        """End the iteration. A signal handler or a callback may call it; `close` does the rest."""
        self._core.stop()

    # -- scripts: how each call goes, whoever runs it ---------------------------------------------

    def _waited(self) -> Script[Message | None]:
        """The next record; None at the end."""
        while (message := self._core.next()) is None and not self._core.closing:
            yield Wait(lambda: self._core.has_news, None)
        return message

    def _polled(self, timeout_s: float, most: int) -> Script[Messages]:
        core = self._core
        yield Wait(lambda: core.has_news, timeout_s)
        if core.is_worker:
            return self._one_by_one(most)
        core.will_take(most)
        if core.to_be_taken:
            # Python runs one thread at a time. The application's would not let the next poll leave
            # for milliseconds, and the service would wait instead of reading ahead. Nothing is
            # taken before: a coroutine may be cancelled here.
            yield Wait(lambda: not core.to_be_taken, _POLL_LEAVES_S)
        made = messages_of(core.take(most))
        return Messages(made if self._value_type is None else map(self._typed, made))

    def _range_taken(self, timeout_s: float, most: int) -> Script[OffsetRange | None]:
        yield Wait(lambda: self._core.has_news, timeout_s)
        return self._taken(most)

    def _rejoined(self, reason: str) -> Script[None]:
        with self._core.lock:
            self._core.buffer.lose_all(reason)
        self._notify()
        yield Wait(lambda: self._core.is_given_back, _RETURN_TIMEOUT_S)
        yield from self._core.leave()
        self._notify()

    def _committed(self, timeout_s: float) -> Script[None]:
        core = self._core
        with core.lock:
            number = core.buffer.queued
            core.committing += 1
        try:
            self._notify()
            settled = yield Wait(lambda: core.settled(number), timeout_s)
        finally:
            with core.lock:
                core.committing -= 1
        self._raise_refusal(settled)

    def _warn_of_no_acks(self) -> None:
        """A commit of nothing would succeed, and every record come again: say so, once."""
        core = self._core
        if core.handed_out and not core.settles:
            core.settles = True
            _log.warning(_NO_ACKS, self.group, core.handed_out)

    def _last_acks_sent(self) -> Script[None]:
        try:
            if self._core.error is None:
                yield from self._committed(CLOSE_TIMEOUT_S)
        except LakequeueError as error:
            _log.warning(_LATE_ACKS, error)
        yield from self._core.last_said(_RETURN_TIMEOUT_S)

    def _one_by_one(self, most: int) -> Messages:
        messages = Messages()
        while len(messages) < most and (message := self._core.next()) is not None:
            messages.append(self._typed(message))
            if not self._core.buffer.ready:
                break
        return messages

    def _typed(self, message: Message) -> Message:
        return message if self._value_type is None else message.typed(self._value_type)

    def _taken(self, most: int) -> OffsetRange | None:
        core = self._core
        if core.predicate is not None:
            raise InvalidRequest(
                "transforms and transactions go by position, and this group has a predicate",
                hint="filter in the transform, or use a group without a predicate",
                field="predicate",
            )
        with core.lock:
            span = None if core.closing else core.buffer.take_range(most)
            core.expelled = False
        if span is None and core.error is not None and not core.closing:
            raise core.error
        for message in () if span is None else span.messages:
            self._typed(message)
        self._notify()
        return span

    def _raise_refusal(self, settled: bool) -> None:
        with self._core.lock:
            refusal = self._core.buffer.take_refusal()
        if refusal is not None:
            raise refusal
        if self._core.error is not None:
            raise self._core.error
        if not settled:
            raise CoordinationUnavailable(
                "the acknowledgements are not answered in time",
                hint="try commit() again; if they were not stored the records come again",
                stored="unknown",
            )
