"""Records of one request: all of them become visible in one version of the log, or none."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, Self, Unpack

from lakequeue.client.producing.outgoing import Outgoing, RecordMetadata
from lakequeue.client.producing.record_options import RecordOptions


class Prepares(Protocol):
    """A producer, as far as it makes records ready to be sent."""

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        **options: Unpack[RecordOptions],
    ) -> Outgoing:
        """A record: checked, encoded, and not sent."""


class SendsWhole(Prepares, Protocol):
    """A producer that sends records in one request. Blocking."""

    def produce_whole(self, records: Sequence[Outgoing]) -> list[RecordMetadata]:
        """All of them or none; returns when they are ordered."""


class AsyncSendsWhole(Prepares, Protocol):
    """The same for asyncio."""

    async def produce_whole(self, records: Sequence[Outgoing]) -> list[RecordMetadata]:
        """All of them or none; returns when they are ordered."""


class Collected:
    """Records to be sent in one request. Those without a `message_id` get one of this batch, the
    same for every retry of it."""

    def __init__(self, producer: Prepares) -> None:
        self._prepare = producer.prepare
        self._name = uuid.uuid4().hex
        self.records: list[Outgoing] = []
        self.delivered: list[RecordMetadata] = []
        """Where they went, in the order of sending, once the block has ended."""

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        **options: Unpack[RecordOptions],
    ) -> None:
        """Add a record, as `Producer.send` takes it."""
        options["message_id"] = options.get("message_id") or f"{self._name}:{len(self.records)}"
        self.records.append(self._prepare(topic, value, key, **options))


class Atomic(Collected):
    """Collects records in a `with` block; its end sends them and waits until they are ordered.

    If the block raises, nothing is sent. Within a partition nothing comes between them.
    """

    def __init__(self, producer: SendsWhole) -> None:
        super().__init__(producer)
        self._producer = producer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if error is None and self.records:
            self.delivered = self._producer.produce_whole(self.records)


class AsyncAtomic(Collected):
    """The same in an `async with` block; `send` does not wait."""

    def __init__(self, producer: AsyncSendsWhole) -> None:
        super().__init__(producer)
        self._producer = producer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if error is None and self.records:
            self.delivered = await self._producer.produce_whole(self.records)
