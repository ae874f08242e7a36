"""Rejected records on their way back: judged as an ingest node would, then sent as any others."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

import httpx2
import orjson

from lakequeue.calling.credentials import credentials_of
from lakequeue.client.producing.outgoing import RecordMetadata
from lakequeue.client.producing.producer import Producer
from lakequeue.clock import Micros
from lakequeue.errors import (
    InvalidRequest,
    LakequeueError,
    NotOrdered,
    UnknownTopic,
    Unreachable,
    WrongUsage,
)
from lakequeue.records import Format
from lakequeue.settings import Settings
from lakequeue.wire import ProduceEnvelope
from queue_rules.produce.arrival import limits_of
from queue_rules.produce.exact_json import loads
from queue_rules.produce.json_body import checked_columns
from queue_tables.log.rejected import (
    format_of,
    headers_of,
    record_of,
    redrive_id_of,
    redriven_since,
)
from queue_tables.root import QueueRoot
from queue_tables.schema.reasons import KEPT_OTHERWISE
from queue_tables.topics import TopicStore

Row = Mapping[str, Any]
_REFUSED = (InvalidRequest, NotOrdered, UnknownTopic)
"""What is wrong with one record, and leaves the others as they are."""
_WAITING = 10_000
"""Records on their way at most."""


def check_queue(urls: Sequence[str], root: QueueRoot) -> None:
    """Raise `WrongUsage` if a node serves another queue: records would go astray there."""
    trust = credentials_of().trust()
    for url in urls:
        try:
            answer = httpx2.get(f"{url}/readyz", timeout=10, trust_env=False, verify=trust)
            serves = answer.json().get("queue_id")
        except (httpx2.HTTPError, ValueError) as error:
            raise Unreachable(
                f"{url} does not answer: {error}", hint="is it an ingest node? --url says where"
            ) from error
        if serves != root.queue_id:
            raise WrongUsage(
                f"{url} serves another queue than {root.uri}",
                hint="--root and --url are of one queue",
            )


class Redrive:
    """Takes rows of `rejects`. Leaving it waits until all are ordered."""

    def __init__(self, root: QueueRoot, to: str | None, urls: Sequence[str], now: Micros) -> None:
        """`urls`: where to send; without any nothing is sent, and `sent` counts what would be."""
        self._root, self._to, self._now = root, to, now
        self._topics = TopicStore(root)
        self._topics.refresh()
        if to is not None:
            self._topics.get(to)
        self._settings = Settings().ingest
        self._producer = Producer(urls, acks="ordered") if urls else None
        self._waiting: deque[tuple[Row, Future[RecordMetadata]]] = deque()
        self._ordered: set[str] | None = None
        self.sent = 0
        self.there = 0
        """Sent by an earlier run."""
        self.refused: list[dict[str, Any]] = []
        """Shard, stamp and row of each, and why."""

    def __enter__(self) -> Self:
        """Send from here on."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Wait for what is on its way."""
        if self._producer is not None:
            # `refused` tells of these: leaving the producer would raise the first of them again.
            with contextlib.suppress(*_REFUSED), self._producer:
                while kind is None and self._waiting:
                    self._settle()

    def take(self, row: Row) -> None:
        """Send the record of a row, or say why not."""
        try:
            topic = self._checked(row)
            if redrive_id_of(row) in self._there(row):
                self.there += 1
            elif self._producer is None:
                self.sent += 1
            else:
                self._send(self._producer, topic, row)
        except LakequeueError as error:
            self._refuse(row, error)

    def _checked(self, row: Row) -> str:
        """The topic that takes the record. Raises as its ingest node would."""
        if (row["detail"] or "").startswith(KEPT_OTHERWISE):
            raise InvalidRequest(
                "it does not stand in rejects as it was sent",
                hint="lakequeue rejects export has its detail and its bytes: send it by hand",
            )
        name = self._to or row["topic"]
        if name is None:
            raise UnknownTopic("its topic is not known", hint="--to TOPIC")
        topic = self._topics.get(name)
        expires = row["expires_at"]
        if expires is not None and expires <= self._now:
            raise InvalidRequest(
                f"it expired at {expires} (microseconds since 1970)",
                hint="send it without a TTL, by hand",
            )
        record = record_of(row) | {"message_id": redrive_id_of(row)}
        if self._to is not None:
            record.pop("partition", None)
        limits = limits_of(topic, self._settings)
        checked_columns([loads(orjson.dumps(record))], ProduceEnvelope(), limits)
        return topic.topic

    def _there(self, row: Row) -> set[str]:
        # Rows come oldest hour first: of the first one all later ones are known.
        if self._ordered is None:
            self._ordered = redriven_since(self._root, row["rejected_at"])
        return self._ordered

    def _send(self, producer: Producer, topic: str, row: Row) -> None:
        handle = producer.send(
            topic,
            _value(row["value"], format_of(row, "value")),
            _value(row["key"], format_of(row, "key")),
            headers=headers_of(row),
            partition=None if self._to is not None else row["partition"],
            timestamp=row["timestamp"],
            message_id=redrive_id_of(row),
            deliver_at=row["deliver_at"],
        )
        self._waiting.append((row, handle))
        while self._waiting[0][1].done() or len(self._waiting) > _WAITING:
            self._settle()
            if not self._waiting:
                return

    def _settle(self) -> None:
        row, handle = self._waiting.popleft()
        try:
            metadata = handle.result()
        except _REFUSED as error:
            self._refuse(row, error)
            return
        if metadata.duplicate:
            self.there += 1
        else:
            self.sent += 1

    def _refuse(self, row: Row, error: LakequeueError) -> None:
        said = {name: row[name] for name in ("shard", "stamp", "row", "topic", "reason")}
        self.refused.append(said | {"why": f"{error.detail}; {error.hint}"})


def _value(data: bytes | None, fmt: Format) -> Any:
    """As a producer is given it."""
    if data is None or fmt is Format.BYTES:
        return data
    return data.decode() if fmt is Format.TEXT else orjson.Fragment(data)
