"""Redrive: dead records go back to the topic they died in, or to a named one, each exactly once.

It is a consumer of the dead-letter topic, in the group `redrive.<topic>`, that produces back with
what it consumed (`lakequeue.client.consuming.transform`). So it may be killed and started again at
any point, and two may run at once: each dead record is taken once, without any window. A dead
record that is not wanted now (by its headers or time), or whose topic is gone, is put behind the
others in the dead-letter topic, in the same request, if a wanted one stands behind it: it waits
there for the next redrive. What stands behind the last wanted one stays where it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from lakequeue.calling.addresses import Urls
from lakequeue.calling.credentials import Credentials
from lakequeue.client.admin import Admin
from lakequeue.client.consuming.consumer import Consumer
from lakequeue.client.consuming.transform import TransformRound
from lakequeue.client.dead_records import (
    Homes,
    check_dead_letters,
    chosen_ends,
    dead_letter_topics,
    ends_of,
    fate_of,
    group_of,
    look_through,
    own_headers,
    positions_of,
)
from lakequeue.client.message import Message
from lakequeue.client.producing.producer import Producer
from lakequeue.client.redriven import Redriven, Wanted
from lakequeue.errors import InvalidRequest, LakequeueError, TooLarge
from lakequeue.records import checked_name
from lakequeue.times import check_time, moment_of
from lakequeue.wire import redrive_id

__all__ = [
    "Part",
    "Redriven",
    "Wanted",
    "dead_letter_topics",
    "group_of",
    "look_through",
    "own_headers",
    "redrive",
    "redrive_async",
    "redrive_some",
]

_BATCH = 500


def redrive(
    topic: str,
    *,
    urls: Urls | None = None,
    consumer_urls: Urls | None = None,
    wanted: Wanted | None = None,
    to: str | None = None,
    rate: float | None = None,
    on_progress: Callable[[Redriven], None] | None = None,
    session_timeout_ms: int = 10_000,
    credentials: Credentials | str | None = None,
) -> Redriven:
    """Send the dead records of `topic` back: all that are there now, or those `wanted`.

    With `to` they go to that topic, by their keys, also those whose own topic is gone. `rate`
    limits the records per second. The call blocks until it is done. If it is started again after
    a crash, it goes on where it was. If nothing matches `wanted`, nothing changes. `credentials`
    are those of all its calls; by default what the environment says. Raises
    `UnknownTopic`; `InvalidRequest` if the topic is no dead-letter topic; and what consuming and
    producing raise.
    """
    stopping = threading.Event()
    return _redrive(
        topic,
        urls,
        consumer_urls,
        wanted,
        to,
        rate,
        on_progress,
        session_timeout_ms,
        credentials,
        stopping,
    )


def _redrive(
    topic: str,
    urls: Urls | None,
    consumer_urls: Urls | None,
    wanted: Wanted | None,
    to: str | None,
    rate: float | None,
    on_progress: Callable[[Redriven], None] | None,
    session_timeout_ms: int,
    credentials: Credentials | str | None,
    stopping: threading.Event,
) -> Redriven:
    with Admin(urls, consumer_urls, credentials=credentials) as admin:
        run = _Run(admin, topic, wanted or Wanted(), to, rate, on_progress)
        run.go(
            urls,
            consumer_urls,
            session_timeout_ms,
            credentials,
            stopping=stopping.is_set,
            rest=stopping.wait,
        )
        return run.done


@dataclass(frozen=True, slots=True)
class Part:
    """What a bounded redrive has done."""

    done: Redriven
    """Of the records that it took: those behind the last wanted one are not among them."""
    ends: dict[int, int]
    """Partition → offset that the redrive as a whole ends at: one past the last wanted record."""
    more: bool
    """It has not come to all of these."""


def redrive_some(
    topic: str,
    *,
    urls: Urls | None,
    consumer_urls: Urls | None,
    wanted: Wanted,
    most: int,
    within_s: float,
    ends: Mapping[int, int] | None = None,
    to: str | None = None,
    stopping: Callable[[], bool] = lambda: False,
    may_send: Callable[[str], bool] = lambda _: True,
) -> Part:
    """As `redrive`, but looks at `most` records at most, and begins no round after `within_s`, or
    when `stopping()`.

    `ends` are those of the part before; else it looks for them. `to` as in `redrive`. Records of
    topics that `may_send` denies have no topic to go back to.
    Raises as `redrive` does.
    """
    deadline = time.monotonic() + within_s
    with Admin(urls, consumer_urls) as admin:
        run = _Run(
            admin, topic, wanted, to, None, None, ends, look_until_s=deadline, may_send=may_send
        )
        run.done = Redriven()
        run.go(urls, consumer_urls, most=most, until_s=deadline, stopping=stopping)
        # Only once the consumer is closed is all acknowledged.
        return Part(run.done, run.ends, not run.reached())


async def redrive_async(
    topic: str,
    *,
    urls: Urls | None = None,
    consumer_urls: Urls | None = None,
    wanted: Wanted | None = None,
    to: str | None = None,
    rate: float | None = None,
    on_progress: Callable[[Redriven], None] | None = None,
    session_timeout_ms: int = 10_000,
    credentials: Credentials | str | None = None,
) -> Redriven:
    """`Admin.redrive` for asyncio: send dead records back to the topics in which they died.

    It runs in a thread. If it is cancelled, it ends its round and stops there. If it is started
    again, it goes on where it was: each dead record goes back once. If nothing matches `wanted`,
    nothing changes.

    Args:
        topic: The topic of dead letters.
        urls: Ingest nodes; by default found as a `Producer` finds them.
        consumer_urls: Nodes of the consumer service; by default found as a `Consumer` finds them.
        wanted: Which records go back; by default all that are there now.
        to: A topic that they go to instead, by their keys, also those whose own topic is gone.
        rate: Records a second at most.
        on_progress: Called in the event loop after each round, with how far it is.
        session_timeout_ms: After so long another redrive takes over from one that was killed.
        credentials: An API key or token, or `Credentials`; by default what the environment says.

    Returns:
        How many were sent back and how many stay.

    Raises:
        UnknownTopic: There is no such topic.
        InvalidRequest: It is no topic of dead letters, or `rate` is not above 0.

    Example:
        import asyncio

        from lakequeue import Admin, Wanted, redrive_async

        Admin().create_topic("orders.dlq", if_not_exists=True)
        wanted = Wanted(headers={"lakequeue-reason": "max_attempts"})
        print(asyncio.run(redrive_async("orders.dlq", wanted=wanted)).redriven)
    """
    loop = asyncio.get_running_loop()
    stopping = threading.Event()

    def say(done: Redriven) -> None:
        if on_progress is not None:
            loop.call_soon_threadsafe(on_progress, done)

    work = partial(
        _redrive,
        topic,
        urls,
        consumer_urls,
        wanted,
        to,
        rate,
        say,
        session_timeout_ms,
        credentials,
        stopping,
    )
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stopping.set()
        with contextlib.suppress(LakequeueError):
            await running
        raise


class _Run:
    """One redrive: how far it is, and what becomes of each round."""

    def __init__(
        self,
        admin: Admin,
        topic: str,
        wanted: Wanted,
        to: str | None,
        rate: float | None,
        on_progress: Callable[[Redriven], None] | None,
        ends: Mapping[int, int] | None = None,
        look_until_s: float | None = None,
        may_send: Callable[[str], bool] = lambda _: True,
    ) -> None:
        if rate is not None and rate <= 0:
            raise InvalidRequest(
                f"rate {rate} is not above 0", hint="records a second", field="rate"
            )
        admin.topic(checked_name(topic, "topic"))
        now = ends_of(admin, topic)
        # An end that is not there was that of an earlier topic of this name: it is never reached.
        self.ends = now if ends is None else {p: min(end, now.get(p, 0)) for p, end in ends.items()}
        """Partition → offset that it ends at."""
        self._homes = Homes(admin, topic, to, may_send)
        self.done = Redriven()
        at = positions_of(admin, topic)
        check_dead_letters(admin, topic, at, self.ends, begins=ends is None)
        if ends is None:
            self.ends, self.done = chosen_ends(
                admin,
                topic,
                at,
                now,
                lambda record: fate_of(record, wanted, self._homes),
                look_until_s,
            )
        self._admin, self._topic, self._wanted = admin, topic, wanted
        self._rate, self._on_progress = rate, on_progress
        self._began = 0.0
        self._seen = Redriven()
        self.most = _BATCH if rate is None else max(1, min(_BATCH, int(rate)))
        """Records that one round takes at most."""

    def go(
        self,
        urls: Urls | None,
        consumer_urls: Urls | None,
        session_timeout_ms: int = 10_000,
        credentials: Credentials | str | None = None,
        *,
        most: float = math.inf,
        until_s: float = math.inf,
        stopping: Callable[[], bool] = lambda: False,
        rest: Callable[[float], object] = time.sleep,
    ) -> None:
        """Round after round: until all is reached, or `most` records are looked at, or it is
        `until_s` (monotonic), or `stopping()`."""
        if self.reached():
            return
        group = group_of(self._topic)
        with (
            Consumer(
                self._topic,
                group,
                urls=consumer_urls,
                session_timeout_ms=session_timeout_ms,
                credentials=credentials,
            ) as consumer,
            Producer(urls, credentials=credentials) as producer,
        ):
            while (left := most - self.done.looked_at) > 0 and not stopping():
                self._began = time.monotonic()
                now = int(min(self.most, left))
                try:
                    with consumer.transform(producer, timeout_s=0.5, max_records=now) as tx:
                        self._send(tx)
                except TooLarge:
                    if not self._fewer(tx):
                        raise
                    continue
                rest(self._end(tx))
                if (not tx.messages and self.reached()) or time.monotonic() >= until_s:
                    return

    def _send(self, tx: TransformRound) -> None:
        """What becomes of each dead record of the round."""
        if tx.messages:
            # What is behind was put there by us, or has died since.
            tx.end_at(self.ends.get(tx.messages[0].partition, 0))
        seen = Redriven()
        for message in tx.messages:
            fate = fate_of(message, self._wanted, self._homes)
            seen += fate
            if not fate.looked_at or message.undecodable is not None:
                # Of one that cannot be read a copy would be empty: it stays where it is.
                continue
            headers = message.headers
            home = self._homes.of(headers) if fate.redriven else None
            if home is not None:
                _copy(tx, message, home[0], home[1], own_headers(headers))
                continue
            _copy(tx, message, message.topic, message.partition, headers)
        self._seen = seen

    def _fewer(self, tx: TransformRound) -> bool:
        """So many do not go into one request: the same come again, fewer at once, if they can."""
        self.most = max(1, len(tx.messages) // 2)
        return len(tx.messages) > 1

    def _end(self, tx: TransformRound) -> float:
        """The round has ended: seconds to rest before the next."""
        seen = self._seen
        if tx.counted:
            self.done += seen
            if self._on_progress is not None:
                self._on_progress(self.done)
            if self._rate is not None:
                return max(0.0, self._began + seen.looked_at / self._rate - time.monotonic())
        return 0.0

    def reached(self) -> bool:
        """Whether the group has gone through all that was there at the start."""
        if not any(self.ends.values()):
            return True
        at = positions_of(self._admin, self._topic)
        return all(at.get(partition, 0) >= end for partition, end in self.ends.items())


def _time_of(message: Message) -> datetime | None:
    """The record's time, as no number is taken for one of another unit; None: it has none that a
    service takes, and gets that of its arrival."""
    try:
        check_time(message.timestamp)
    except InvalidRequest:
        return None
    return moment_of(message.timestamp)


def _copy(
    tx: TransformRound,
    message: Message,
    topic: str,
    partition: int | None,
    headers: list[tuple[str, bytes | None]],
) -> None:
    tx.send(
        message.value,
        message.key,
        topic=topic,
        partition=partition,
        headers=headers,
        timestamp=_time_of(message),
        message_id=redrive_id(message.topic_id, message.partition, message.offset),
    )
