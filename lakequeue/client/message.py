"""A record as a consumer hands it to the application."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson

from lakequeue.errors import InvalidRequest
from lakequeue.wire import headers_from_json


class Message:
    """One delivered record. Acknowledge it with `ack()` when its effects are done."""

    __slots__ = ("_ack", "_raw", "epoch", "term")

    def __init__(
        self,
        raw: dict[str, Any],
        epoch: int | None,
        term: int,
        ack: Callable[[Message, bool], None],
    ) -> None:
        self._raw = raw
        self.epoch = epoch
        """Epoch of the lease that it was delivered under."""
        self.term = term
        """Counts how often this consumer has joined."""
        self._ack = ack

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return str(self._raw["topic"])

    @property
    def partition(self) -> int:
        """Partition of the topic."""
        return int(self._raw["partition"])

    @property
    def offset(self) -> int:
        """Position in the partition."""
        return int(self._raw["offset"])

    @property
    def key(self) -> Any:
        """As it was sent: str, bytes, parsed JSON, or None."""
        return self._plain("key")

    @property
    def value(self) -> Any:
        """As it was sent: str, bytes, parsed JSON, or None."""
        return self._plain("value")

    def _plain(self, name: str) -> Any:
        encoded = self._raw.get(f"{name}_base64")
        return self._raw.get(name) if encoded is None else base64.b64decode(encoded)

    def json(self) -> Any:
        """The value as JSON, also when it was sent as text or bytes that hold JSON.

        Raises `InvalidRequest` when it is no JSON.
        """
        value = self.value
        if not isinstance(value, str | bytes):
            return value
        try:
            return orjson.loads(value)
        except orjson.JSONDecodeError as e:
            raise InvalidRequest(
                f"{self.topic}/{self.partition}@{self.offset} is not JSON: {e}",
                hint="read .value instead",
                field="value",
            ) from e

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """In the order they were sent; a name may repeat."""
        return headers_from_json(self._raw.get("headers"))

    def header(self, name: str) -> bytes | None:
        """The last header of that name, or None."""
        return dict(self.headers).get(name)

    @property
    def timestamp(self) -> int:
        """The record's own time, microseconds since 1970 UTC."""
        return int(self._raw["timestamp"])

    @property
    def time(self) -> datetime:
        """`timestamp` as a datetime in UTC."""
        return datetime.fromtimestamp(self.timestamp / 1_000_000, UTC)

    @property
    def message_id(self) -> str | None:
        """What deduplication went by."""
        return self._raw.get("message_id")

    @property
    def attempt(self) -> int:
        """1 at the first delivery (queue groups count on)."""
        return int(self._raw.get("attempt", 1))

    @property
    def receipt(self) -> str:
        """What the service knows this delivery by."""
        return str(self._raw["receipt"])

    def ack(self, *, commit_through: bool = False) -> None:
        """Done with it: it, and what is before it, is not delivered to this group again.

        Sent in the background; `Consumer.commit()` waits until it is durable. Raises
        `SkippedRecords` when an earlier record of the partition is not acknowledged, unless
        `commit_through`.
        """
        self._ack(self, commit_through)

    def __repr__(self) -> str:
        return f"<Message {self.topic}/{self.partition}@{self.offset} key={self.key!r}>"
