"""A record as an application sees it."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from lakequeue.errors import InvalidRequest
from lakequeue.tracing.context import TraceContext, in_record
from lakequeue.wire import UNDECODABLE, headers_from_json, loads_exactly


class Record:
    """One record of a topic."""

    __slots__ = ("_raw",)
    _shown: ClassVar = "Record"

    def __init__(self, raw: dict[str, Any]) -> None:
        self._raw = raw

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
        offset: int = self._raw["offset"]
        return offset

    @property
    def place(self) -> tuple[str, int]:
        """Topic and partition."""
        raw = self._raw
        return raw["topic"], raw["partition"]

    @property
    def key(self) -> Any:
        """As it was sent: str, bytes, parsed JSON, or None."""
        return _as_sent(self._raw, "key", "key_base64")

    @property
    def value(self) -> Any:
        """As it was sent: str, bytes, parsed JSON, or None."""
        return self._value()

    def _value(self) -> Any:
        return _as_sent(self._raw, "value", "value_base64")

    def json(self) -> Any:
        """The value as JSON, also when it was sent as text or bytes that hold JSON.

        Returns:
            What the JSON says.

        Raises:
            InvalidRequest: It is no JSON.
        """
        value = self._value()
        if not isinstance(value, str | bytes):
            return value
        try:
            return loads_exactly(value)
        except ValueError as e:
            raise InvalidRequest(
                f"{self.topic}/{self.partition}@{self.offset} is not JSON: {e}",
                hint="read .value instead",
                field="value",
            ) from e

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """In the order they were sent; a name may repeat."""
        return headers_from_json(self._raw.get("headers"), most=None)

    def header(self, name: str) -> bytes | None:
        """A header by its name.

        Args:
            name: Name of the header.

        Returns:
            The value of the last header of that name, or None.
        """
        return dict(self.headers).get(name)

    @property
    def trace(self) -> TraceContext | None:
        """The trace that it was sent in (headers `traceparent` and `tracestate`), or None."""
        return in_record(self._raw)

    @property
    def timestamp(self) -> int:
        """The record's own time, microseconds since 1970 UTC."""
        return int(self._raw["timestamp"])

    @property
    def time(self) -> datetime:
        """`timestamp` as a datetime in UTC.

        Raises `InvalidRequest` beyond the years 1 to 9999, which a datetime cannot hold.
        """
        try:
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self.timestamp)
        except OverflowError as e:
            raise InvalidRequest(
                f"{self.topic}/{self.partition}@{self.offset} has the time {self.timestamp} µs, "
                "which a datetime cannot hold",
                hint="read .timestamp instead",
                field="timestamp",
            ) from e

    @property
    def message_id(self) -> str | None:
        """What deduplication went by."""
        return self._raw.get("message_id")

    @property
    def undecodable(self) -> str | None:
        """Why the service could not read what is in the record; None: it could.

        Such a record has neither key nor value nor headers.
        """
        return self._raw.get(UNDECODABLE)

    def document(self) -> dict[str, Any]:
        """All of it, for `json.dumps`.

        Returns:
            Fields by name, as JSON types; bytes as `key_base64` and `value_base64`.
        """
        found: dict[str, Any] = {}
        for name, value in self._raw.items():
            if isinstance(value, bytes):
                found[f"{name}_base64"] = b2a_base64(value, newline=False).decode()
            elif name != "receipt":
                found[name] = value
        if "headers" in found:
            found["headers"] = found["headers"] or []
        return found

    def __repr__(self) -> str:
        return f"<{self._shown} {self.topic}/{self.partition}@{self.offset} key={self.key!r}>"


def _as_sent(raw: dict[str, Any], plain: str, encoded: str) -> Any:
    data = raw.get(encoded)
    return raw.get(plain) if data is None else a2b_base64(data)
