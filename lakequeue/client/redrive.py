"""Redrive: dead records go back to the topic they died in, each exactly once.

It is a consumer of the dead-letter topic, in the group `redrive.<topic>`, that produces back with
what it consumed (`lakequeue.client.transform`). So it may be killed and started again at any point,
and two may run at once: each dead record is taken once, without any window. A dead record that is
not wanted now (by its headers or time), or whose topic is gone, is put behind the others in the
dead-letter topic, in the same request: it waits there for the next redrive.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import orjson

from lakequeue.client.admin import Admin
from lakequeue.client.consumer import AsyncConsumer, Consumer
from lakequeue.client.message import Message
from lakequeue.client.producer import AsyncProducer, Producer
from lakequeue.client.transform import Round
from lakequeue.errors import InvalidRequest, TooLarge, UnknownGroup
from lakequeue.records import checked_name
from lakequeue.wire import (
    DEAD_LETTER_HEADERS,
    DEFAULT_CONSUMER_URL,
    DEFAULT_INGEST_URL,
    ERASED_HEADER,
    DeadLetterHeader,
    TopicDescription,
    headers_from_json,
    redrive_id,
)

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead records go back: those that pass all of it. Times are microseconds since 1970."""

    headers: Mapping[str, str] | None = None
    """Each header must be there with this text: `lakequeue-reason`, or one of its own."""
    since: int | None = None
    """The record's own time is not before this."""
    until: int | None = None
    """… and before this."""

    def takes(self, headers: Sequence[tuple[str, bytes | None]], timestamp: int) -> bool:
        """Whether a record goes back. Pure."""
        if self.since is not None and timestamp < self.since:
            return False
        if self.until is not None and timestamp >= self.until:
            return False
        found = {(name, value) for name, value in headers}
        return all((n, v.encode()) in found for n, v in (self.headers or {}).items())


@dataclass(frozen=True, slots=True)
class Redriven:
    """How far a redrive is."""

    redriven: int = 0
    """Sent back."""
    kept: int = 0
    """Not wanted: put behind the others."""
    homeless: int = 0
    """No topic to go back to: put behind the others."""

    @property
    def looked_at(self) -> int:
        """Dead records seen."""
        return self.redriven + self.kept + self.homeless

    def __add__(self, other: Redriven) -> Redriven:
        return Redriven(
            self.redriven + other.redriven,
            self.kept + other.kept,
            self.homeless + other.homeless,
        )


def own_headers(
    headers: Sequence[tuple[str, bytes | None]],
) -> list[tuple[str, bytes | None]]:
    """The headers that the record had before it died. Pure."""
    own = [(name, value) for name, value in headers if name not in DEAD_LETTER_HEADERS]
    more = dict(headers).get(DeadLetterHeader.MORE)
    if more is None:
        return own
    try:
        return own + headers_from_json(orjson.loads(more))
    except (orjson.JSONDecodeError, InvalidRequest):
        # Somebody else's header of that name: the record goes back without it.
        return own


def group_of(topic: str) -> str:
    """The group that consumes a dead-letter topic for its redrive."""
    return f"redrive.{topic}"


def redrive(
    topic: str,
    *,
    urls: str | Sequence[str] = DEFAULT_INGEST_URL,
    consumer_urls: str | Sequence[str] = DEFAULT_CONSUMER_URL,
    wanted: Wanted | None = None,
    rate: float | None = None,
    on_progress: Callable[[Redriven], None] | None = None,
    session_timeout_ms: int = 10_000,
) -> Redriven:
    """Send the dead records of `topic` back, all that are there now or those `wanted`; how many.

    `rate`: at most so many a second. Blocks until it is done; started again after a crash it goes
    on where it was. Raises `UnknownTopic`, and what consuming and producing raise.
    """
    with Admin(urls, consumer_urls) as admin:
        run = _Run(admin, topic, wanted or Wanted(), rate, on_progress)
        with (
            Consumer(
                topic, group_of(topic), urls=consumer_urls, session_timeout_ms=session_timeout_ms
            ) as consumer,
            Producer(urls) as producer,
        ):
            while True:
                run.begin()
                try:
                    with consumer.transform(producer, timeout_s=0.5, max_records=run.most) as tx:
                        run.send(tx)
                except TooLarge:
                    if not run.fewer(tx):
                        raise
                    continue
                time.sleep(run.end(tx))
                if not tx.messages and run.reached():
                    return run.done


@dataclass(frozen=True, slots=True)
class Part:
    """What a bounded redrive has done."""

    done: Redriven
    ends: dict[int, int]
    """Partition → offset that the redrive as a whole ends at."""
    more: bool
    """It has not come to all of these."""


def redrive_some(
    topic: str,
    *,
    urls: str | Sequence[str],
    consumer_urls: str | Sequence[str],
    wanted: Wanted,
    most: int,
    within_s: float,
    ends: Mapping[int, int] | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> Part:
    """As `redrive`, but looks at `most` records at most, and begins no round after `within_s`, or
    when `stopping()`.

    `ends` are those of the part before; else where the topic ends now. Raises as `redrive` does.
    """
    deadline = time.monotonic() + within_s
    with Admin(urls, consumer_urls) as admin:
        run = _Run(admin, topic, wanted, None, None, ends)
        with Consumer(topic, group_of(topic), urls=consumer_urls) as consumer, Producer(urls) as to:
            while (left := most - run.done.looked_at) > 0 and not stopping():
                most_now = min(run.most, left)
                try:
                    with consumer.transform(to, timeout_s=0.5, max_records=most_now) as tx:
                        run.send(tx)
                except TooLarge:
                    if not run.fewer(tx):
                        raise
                    continue
                run.end(tx)
                if (not tx.messages and run.reached()) or time.monotonic() >= deadline:
                    break
        # Only once the consumer is closed is all acknowledged.
        return Part(run.done, run.ends, not run.reached())


async def redrive_async(
    topic: str,
    *,
    urls: str | Sequence[str] = DEFAULT_INGEST_URL,
    consumer_urls: str | Sequence[str] = DEFAULT_CONSUMER_URL,
    wanted: Wanted | None = None,
    rate: float | None = None,
    on_progress: Callable[[Redriven], None] | None = None,
    session_timeout_ms: int = 10_000,
) -> Redriven:
    """As `redrive`, from asyncio. Cancelled, it stops where it is, as after a crash."""
    with Admin(urls, consumer_urls) as admin:
        run = await asyncio.to_thread(_Run, admin, topic, wanted or Wanted(), rate, on_progress)
        async with (
            AsyncConsumer(
                topic, group_of(topic), urls=consumer_urls, session_timeout_ms=session_timeout_ms
            ) as consumer,
            AsyncProducer(urls) as producer,
        ):
            while True:
                run.begin()
                taking = consumer.transform(producer, timeout_s=0.5, max_records=run.most)
                try:
                    async with taking as tx:
                        run.send(tx)
                except TooLarge:
                    if not run.fewer(taking):
                        raise
                    continue
                await asyncio.sleep(run.end(tx))
                if not tx.messages and await asyncio.to_thread(run.reached):
                    return run.done


def look_through(
    topic: str,
    *,
    urls: str | Sequence[str] = DEFAULT_INGEST_URL,
    consumer_urls: str | Sequence[str] = DEFAULT_CONSUMER_URL,
    wanted: Wanted | None = None,
) -> Redriven:
    """What `redrive` would do now; nothing is sent, and no group joined.

    Raises `UnknownTopic`, and what looking at records raises.
    """
    wanted = wanted or Wanted()
    with Admin(urls, consumer_urls) as admin:
        described = admin.topic(checked_name(topic, "topic"))
        at = _positions(admin, topic)
        homes = _Homes(admin, topic)
        seen = Redriven()
        for partition in range(described.partitions):
            offset, end = at.get(partition, 0), None
            while end is None or offset < end:
                page = admin.browse(topic, partition, offset=offset, max_records=_BATCH)
                # What comes meanwhile is for the next one, as in a redrive.
                end = page.end_offset if end is None else end
                for record in page.records:
                    if record.offset < end:
                        seen += fate_of(record.headers, record.timestamp, wanted, homes)
                if page.next_offset <= offset:
                    break
                offset = page.next_offset
        return seen


def dead_letter_topics(topics: Iterable[TopicDescription]) -> list[str]:
    """Which of all topics hold dead letters: named by another one, or `<topic>.dlq`. Pure."""
    described = list(topics)
    names = {t.dead_letter_topic or f"{t.topic}.dlq" for t in described}
    return sorted(t.topic for t in described if t.topic in names)


def fate_of(
    headers: Sequence[tuple[str, bytes | None]], timestamp: int, wanted: Wanted, homes: _Homes
) -> Redriven:
    """What becomes of one dead record; nothing of one that was erased. Pure, given `homes`."""
    if [name for name, _ in headers] == [ERASED_HEADER]:
        # Put behind the others it would be a new record each time, and stay for good.
        return Redriven()
    if not wanted.takes(headers, timestamp):
        return Redriven(kept=1)
    return Redriven(homeless=1) if homes.of(headers) is None else Redriven(redriven=1)


class _Run:
    """One redrive: how far it is, and what becomes of each round."""

    def __init__(
        self,
        admin: Admin,
        topic: str,
        wanted: Wanted,
        rate: float | None,
        on_progress: Callable[[Redriven], None] | None,
        ends: Mapping[int, int] | None = None,
    ) -> None:
        if rate is not None and rate <= 0:
            raise InvalidRequest(
                f"rate {rate} is not above 0", hint="records a second", field="rate"
            )
        admin.topic(checked_name(topic, "topic"))
        # A look at where it ends, for a group that does not exist: ours may have members.
        look = admin.seek(f"look-{uuid.uuid4().hex}", "latest", topics=[topic], dry_run=True)
        now = {move.partition: move.to_offset for move in look.partitions}
        # An end that is not there was that of an earlier topic of this name: it is never reached.
        self.ends = now if ends is None else {p: min(end, now.get(p, 0)) for p, end in ends.items()}
        """Partition → offset that it ends at."""
        self._homes = _Homes(admin, topic)
        self._admin, self._topic, self._wanted = admin, topic, wanted
        self._rate, self._on_progress = rate, on_progress
        self._began = 0.0
        self._seen = Redriven()
        self.most = _BATCH if rate is None else max(1, min(_BATCH, int(rate)))
        """Records that one round takes at most."""
        self.done = Redriven()

    def begin(self) -> None:
        """A round begins."""
        self._began = time.monotonic()

    def send(self, tx: Round) -> None:
        """What becomes of each dead record of the round."""
        if tx.messages:
            # What is behind was put there by us, or has died since.
            tx.end_at(self.ends.get(tx.messages[0].partition, 0))
        self._seen = seen = Redriven()
        for message in tx.messages:
            headers = message.headers
            fate = fate_of(headers, message.timestamp, self._wanted, self._homes)
            seen += fate
            if not fate.looked_at:
                continue
            home = self._homes.of(headers) if fate.redriven else None
            if home is not None:
                _copy(tx, message, home[0], home[1], own_headers(headers))
                continue
            _copy(tx, message, message.topic, message.partition, headers)
        self._seen = seen

    def fewer(self, tx: Round) -> bool:
        """So many do not go into one request: the same come again, fewer at once, if they can."""
        self.most = max(1, len(tx.messages) // 2)
        return len(tx.messages) > 1

    def end(self, tx: Round) -> float:
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
        at = _positions(self._admin, self._topic)
        return all(at.get(partition, 0) >= end for partition, end in self.ends.items())


def _copy(
    tx: Round,
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
        timestamp=message.timestamp,
        message_id=redrive_id(message.topic_id, message.partition, message.offset),
    )


class _Homes:
    """Where dead records came from, as far as that still exists."""

    def __init__(self, admin: Admin, topic: str) -> None:
        self._partitions: dict[str, int] = {t.topic: t.partitions for t in admin.topics()}
        del self._partitions[topic]

    def of(self, headers: Sequence[tuple[str, bytes | None]]) -> tuple[str, int | None] | None:
        """(topic, partition) that a dead record goes back to; partition None: by its key."""
        said = dict(headers)
        topic = (said.get(DeadLetterHeader.TOPIC) or b"").decode(errors="replace")
        count = self._partitions.get(topic)
        if count is None:
            return None
        text = (said.get(DeadLetterHeader.PARTITION) or b"").decode(errors="replace")
        known = text.isascii() and text.isdigit() and int(text) < count
        return topic, int(text) if known else None


def _positions(admin: Admin, topic: str) -> dict[int, int]:
    """How far the redrives of a topic have come, in each partition; {} before the first one."""
    try:
        described = admin.group(group_of(topic))
    except UnknownGroup:
        return {}
    return {p.partition: p.committed_offset or 0 for p in described.partitions}
