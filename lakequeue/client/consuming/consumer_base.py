"""What both consumers have in common: their options, and the core that they drive."""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, TypedDict

from pydantic import ValidationError

from lakequeue.calling.credentials import Credentials
from lakequeue.calling.nodes import Nodes
from lakequeue.client.consuming.core import Consuming, OnLost, OnStatus
from lakequeue.client.consuming.fetch_buffer import OffsetRange
from lakequeue.client.consuming.membership import ConsumeOptions
from lakequeue.client.consuming.queue_core import QueueConsuming
from lakequeue.client.message import Message
from lakequeue.errors import (
    CoordinationUnavailable,
    InvalidRequest,
)
from lakequeue.records import checked_name
from lakequeue.results.restores import Restores
from lakequeue.wire import DEFAULT_CONSUMER_URL, HOST_HEADER, JoinRequest


class ConsumerOptions(TypedDict, total=False):
    """Options of both consumers."""

    urls: str | Sequence[str]
    """One or more consumer-service nodes; the next is tried when one does not answer."""
    find_nodes: bool
    """Ask the given nodes which others there are, and join through one of all; True. False: only
    the given ones, where the others cannot be reached from here."""
    from_: Literal["earliest", "latest"]
    """Where a partition starts that the group has no position in; earliest."""
    session_timeout_ms: int
    """The member is dropped when nothing is heard of it for so long; the service's default."""
    max_poll_interval_ms: int
    """A member that acknowledges nothing for so long loses its partitions; the service's."""
    max_poll_records: int
    """Most records in one poll, of which one is fetched ahead; 1000, in queue groups 10."""
    stop_after: int
    """Stop once so many records were handed out; none beyond them is fetched, which would cost it
    an attempt in a queue group."""
    ack_interval_ms: float
    """Acknowledgements are sent together, at most once in this time; 50."""
    mode: Literal["stream", "queue"]
    """"stream": partitions in order, a position is committed. "queue": each record to one of any
    number of workers, acked by itself; `message.nack` and `message.extend` are for this mode."""
    predicate: str
    """SQL over the records; only those for which it is true are the group's, and the others are
    skipped. All members give the same, or none."""
    undecodable: Literal["dead_letter", "tombstone", "skip", "stop"]
    """What becomes of a record that cannot be read; all members give the same, or none. Queue
    groups: "dead_letter" (default), "tombstone" (delivered without key and value), "skip". Stream
    groups: "tombstone" (default), "skip", "stop" (`poll` raises `UndecodableRecord`)."""
    visibility_timeout_ms: int
    """Queue groups: how long a record is kept for a worker; renewed while it is held."""
    max_attempts: int
    """Queue groups: deliveries until a record goes to the dead-letter topic."""
    ordering: Literal["none", "key"]
    """Queue groups: "key": a key's next record only after the one before it is settled."""
    backoff_ms: int
    """Queue groups: rest after the first nack; it doubles."""
    backoff_max_ms: int
    """Queue groups: longest rest."""
    backoff_jitter_percent: int
    """Queue groups: random part of a rest."""
    dead_letter_topic: str
    """Queue groups: where dead records go; `<topic>.dlq`."""
    max_in_flight: int
    """Queue groups: most records that this worker may hold; the service's 1,000."""
    renew_for_s: float
    """Queue groups: a held record is renewed for so long at most; 3600. 0: never."""
    connect_timeout_s: float
    """The first join must succeed within this time; 30. Later ones are tried for ever."""
    credentials: Credentials | str | None
    """An API key or token, or `Credentials`; by default what the environment says."""
    on_lost: OnLost | None
    """Called with the list of `Lost` partitions, in the background, as soon as it is known."""
    on_status: OnStatus | None
    """Called with one line of text at each join, loss of a node and rejoin."""


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
        self.topics = names
        self.group = checked_name(group, "group")
        self.restores: dict[str, Restores] = {}
        """Of the result tables that were written to."""
        self._headers = {HOST_HEADER.lower(): socket.gethostname()}
        queue = join.mode == "queue"
        nodes = Nodes(
            options.get("urls", DEFAULT_CONSUMER_URL), finds=options.get("find_nodes", True)
        )
        consume = ConsumeOptions(
            # A worker that fetches much ahead keeps it from the others.
            max_poll_records=options.get("max_poll_records", 10 if queue else 1000),
            paced=queue and "max_poll_records" not in options,
            ack_interval_s=options.get("ack_interval_ms", 50.0) / 1000,
            connect_timeout_s=options.get("connect_timeout_s", 30.0),
            stop_after=options.get("stop_after"),
        )
        tell = (options.get("on_lost"), options.get("on_status"))
        common = (nodes, group, join, consume, time.monotonic, self._ring, *tell)
        self._core: Consuming = (
            QueueConsuming(*common, options.get("renew_for_s", 3_600.0))
            if queue
            else Consuming(*common)
        )

    @abstractmethod
    def _ring(self) -> None:
        """Wake whoever waits for a change."""

    @property
    def assignment(self) -> dict[tuple[str, int], int | None]:
        """(topic, partition) → epoch of what this consumer owns now."""
        with self._core.lock:
            return dict(self._core.buffer.assignment)

    @property
    def member_id(self) -> str | None:
        """Id of the current membership; None while there is none."""
        member = self._core.member
        return member.member_id if member else None

    @property
    def stopping(self) -> bool:
        """`stop` or `close` has been called: nothing more is handed out."""
        return self._core.closing

    def stop(self) -> None:
        """End the iteration, from a signal handler or a callback; `close` does the rest."""
        self._core.stop()

    def _ready(self, most: int) -> list[Message]:
        messages: list[Message] = []
        while len(messages) < most and (message := self._core.next()) is not None:
            messages.append(message)
            if not self._core.buffer.ready:
                break
        return messages

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
        self._ring()
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
