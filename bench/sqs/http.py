"""A connection that costs next to nothing: bytes made before, and answers by their length.

boto3 takes about a millisecond for a call, which is more than the gateway takes. Here it is some
40 µs, so what is measured on two cores is the server.
"""

from __future__ import annotations

import asyncio
from typing import Any, Self
from urllib.parse import urlsplit

import orjson

_SIGNATURE = (
    "AWS4-HMAC-SHA256 Credential=anything/20270101/us-east-1/sqs/aws4_request, "
    "SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=" + "0" * 64
)
"""As long as one of an SDK. Nobody checks it: the servers have no keys."""


class Failed(Exception):
    """The server has answered with an error."""


def request(host: str, operation: str, given: dict[str, Any]) -> bytes:
    """A call in AWS JSON 1.0, as bytes."""
    body = orjson.dumps(given)
    head = (
        f"POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/x-amz-json-1.0\r\n"
        f"X-Amz-Target: AmazonSQS.{operation}\r\nX-Amz-Date: 20270101T000000Z\r\n"
        f"Authorization: {_SIGNATURE}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Connection:
    """One request at a time. It connects again if the server hangs up after an answer."""

    def __init__(self, url: str) -> None:
        at = urlsplit(url)
        self._place = (at.hostname or "", at.port or 80)
        self.host = at.netloc
        self._wire: _Wire | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._wire is not None:
            self._wire.close()

    async def ask(self, sent: bytes) -> bytes:
        """The body of the answer. Raises `Failed`."""
        if self._wire is None or self._wire.over:
            loop = asyncio.get_running_loop()
            _, self._wire = await loop.create_connection(_Wire, *self._place)
        status, body = await self._wire.ask(sent)
        if status != 200:
            raise Failed(f"{status}: {body[:300].decode(errors='replace')}")
        return body

    async def call(self, operation: str, **given: Any) -> Any:
        """The answer of a call, parsed."""
        return orjson.loads(await self.ask(request(self.host, operation, given)) or b"{}")


class _Wire(asyncio.Protocol):
    """A connection, until the server ends it."""

    def __init__(self) -> None:
        self.over = False
        self._transport: asyncio.Transport | None = None
        self._read = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def ask(self, sent: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Status and body."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(sent)
        return self._answer

    def close(self) -> None:
        """Nothing more is asked."""
        self.over = True
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._read += data
        end = self._read.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._read[:end]).lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self._read) < end + 4 + length:
            return
        body = bytes(self._read[end + 4 : end + 4 + length])
        del self._read[: end + 4 + length]
        if b"\r\nconnection: close" in head:
            self.close()
        waiting, self._answer = self._answer, None
        if waiting is not None and not waiting.done():
            waiting.set_result((int(head[9:12]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self.over = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the server hung up"))
