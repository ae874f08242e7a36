"""What both producers have in common: their options, and the core that they drive."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

from lakequeue.calling.credentials import Credentials
from lakequeue.calling.effects import Script, Wait
from lakequeue.calling.forks import check_process
from lakequeue.calling.nodes import Nodes
from lakequeue.client.producing.outgoing import Outgoing
from lakequeue.client.producing.record_accumulator import Limits
from lakequeue.client.producing.record_options import RecordOptions
from lakequeue.client.producing.sender import Acks, OnAck, OnError, Sender
from lakequeue.errors import InvalidRequest, OrderTimeout

_USUAL = Limits()


class ProducerOptions(TypedDict, total=False):
    """Options of both producers."""

    acks: Acks
    """`"committed"` (default): the record is durable, its partition and stamp are known.
    `"ordered"`: its offset is known, too."""
    linger_ms: float
    """How long a batch waits for more records; 5."""
    batch_size: int
    """A request has at most this many records; 5,000. It gets so large only if records have to
    wait."""
    batch_bytes: int
    """A request has at most this many bytes; 2 MiB."""
    producer_id: str
    """Name of the producer in the log. Generated message ids begin with it, and are new in each
    run. Random by default. If a record must be there only once although the program starts again,
    give it a `message_id`, or use `fence`."""
    fence: bool
    """Only one instance of `producer_id` can send. A new instance shuts older ones out, and goes on
    where they stopped (`next_sequence`). `producer_id` must stay the same, and answers come when
    the records are ordered."""
    delivery_timeout_s: float
    """A record that is not acknowledged in this time fails; 120."""
    max_buffered_bytes: int
    """`send` waits while more than this is not acknowledged; 32 MiB."""
    max_block_s: float
    """`send` waits this long at most, then raises `Overloaded`; 60."""
    find_nodes: bool
    """True (default): ask the given nodes for all others, and send the records of each partition
    through one of them. False: use only the given ones, because the others cannot be reached from
    here."""
    credentials: Credentials | str | None
    """An API key or token, or `Credentials`; by default from the environment."""
    on_ack: OnAck | None
    """Called as (record, metadata) for each acknowledged record, in the thread that sends: keep it
    short."""
    on_error: OnError | None
    """Called as (record, error) for each record that failed."""


class ProducerBase(ABC):
    """What both producers have in common."""

    def __init__(self, urls: str | Sequence[str], options: ProducerOptions) -> None:
        fence = options.get("fence", False)
        if fence and not options.get("producer_id"):
            raise InvalidRequest(
                "fence needs a producer_id",
                hint="a name that stays the same when the program starts again",
                field="producer_id",
            )
        named = options.get("producer_id")
        self._max_block_s = options.get("max_block_s", 60.0)
        self._core = Sender(
            Nodes(urls, finds=options.get("find_nodes", True)),
            named or uuid.uuid4().hex,
            options.get("acks", "committed"),
            Limits(
                options.get("batch_size", _USUAL.batch_size),
                options.get("batch_bytes", _USUAL.batch_bytes),
                options.get("linger_ms", _USUAL.linger_s * 1_000) / 1_000,
                options.get("max_buffered_bytes", _USUAL.max_buffered_bytes),
            ),
            options.get("delivery_timeout_s", 120.0),
            time.monotonic,
            self._notify,
            options.get("on_ack"),
            options.get("on_error"),
            fence,
            uuid.uuid4().hex[:16] if named else None,
        )

    @abstractmethod
    def _notify(self) -> None:
        """Wake whoever waits for a change."""

    @property
    def producer_id(self) -> str:
        """What generated message ids begin with; in the log, `producer_id`."""
        return self._core.producer_id

    @property
    def epoch(self) -> int | None:
        """Of a fenceable producer that has begun."""
        return self._core.epoch

    def next_sequence(self, topic: str) -> int:
        """Of a fenceable producer, at `init`: 1 + the highest sequence ordered in that topic.

        The first record sent to the topic gets it. Records that earlier instances sent have counted
        up from 0: those below it are in the log, but for those that were given up (`on_error`,
        `unacked`) while later ones got through; the others are not and never will be. Records of
        runs without `fence` are not counted, and not in the way.

        Args:
            topic: Name of the topic.

        Returns:
            The sequence; 0 if none was ordered there.
        """
        return self._core.next_sequences.get(topic, 0)

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        **options: Unpack[RecordOptions],
    ) -> Outgoing:
        """A record for `produce_whole`: checked, encoded, and not sent.

        Args:
            topic: Name of the topic.
            value: As `send` takes it.
            key: As `send` takes it.
            **options: See `RecordOptions`; with a `message_id`.

        Returns:
            The record, as `produce_whole` takes it.

        Raises:
            InvalidRequest: JSON cannot hold it, or an option is not valid.
            TooLarge: No request can hold it.
        """
        return self._core.prepare(topic, value, key, **options)

    @property
    def last_stamp(self) -> int | None:
        """Stamp of the newest acknowledged record: later records get a higher one."""
        return self._core.last_stamp

    def unacked(self) -> list[Outgoing]:
        """Records that are not acknowledged, with all that was sent.

        Returns:
            Those that were given up, then those still on their way.
        """
        check_process(self._core.made_in)
        with self._core.lock:
            return self._core.ledger.unacked()

    def _flushed(self, timeout_s: float | None) -> Script[None]:
        """How `flush` goes, whoever runs it."""
        core = self._core
        # What others send from now on is not waited for: it may never end.
        newest = core.ledger.opened
        core.flush(True)
        try:
            done = yield Wait(lambda: core.ledger.is_settled(newest), timeout_s)
        finally:
            core.flush(False)
        error = core.take_first_error()
        if error is not None:
            raise error
        if not done:
            with core.lock:
                left = core.ledger.pending(newest)
            raise OrderTimeout(
                f"{left} records are not acknowledged yet",
                hint="wait longer, or see unacked()",
                stored="unknown",
            )
