"""Heads of requests that were read before: the same bytes say the same again. Pure.

A client sends the same head with each request. To have it parsed anew, header by header, takes a
tenth of what a small send costs in all. Only what a head says is kept: whether its sender may come
in is asked for each request.
"""

from __future__ import annotations

from typing import NamedTuple

from serving.front.messages import Header, Request

MOST_BYTES, MOST = 768, 1_024
"""Of one head, and heads that are kept: some megabytes at most, with what they say."""
END = b"\r\n\r\n"
_NOT_PLAIN = frozenset({b"transfer-encoding", b"expect", b"upgrade"})


class Head(NamedTuple):
    """What a head says."""

    method: str
    target: bytes
    path: str
    query: str
    headers: list[Header]
    """Nobody changes them."""
    size: int
    """Bytes of the head; the body begins there."""
    whole: int
    """Bytes of head and body."""


class KnownHeads:
    """Those that were read last. For one thread."""

    def __init__(self) -> None:
        self._heads: dict[bytes, Head] = {}

    def find(self, data: bytes) -> Head | None:
        """The head at the beginning of `data`, if the rest of it is exactly the body."""
        end = data.find(END, 0, MOST_BYTES)
        if end < 0:
            return None
        head = self._heads.get(data[: end + len(END)])
        return head if head is not None and head.whole == len(data) else None

    def awaits_body(self, data: bytes) -> bool:
        """Whether `data` is such a head, and nothing of its body is there yet."""
        head = self._heads.get(data) if len(data) <= MOST_BYTES else None
        return head is not None and head.whole > head.size

    def learn(self, data: bytes, request: Request) -> None:
        """Keep the head of a request that `data`, and nothing before it, was parsed to.

        Not if there is more to it than a head and a body of so many bytes: what is kept must say
        the same wherever it stands.
        """
        size = data.find(END, 0, MOST_BYTES) + len(END)
        plain = request.version == "1.1" and request.keep_alive
        if size < len(END) or not plain or data[size:] != request.body:
            return
        if any(name in _NOT_PLAIN for name, _ in request.headers):
            return
        if len(self._heads) >= MOST:
            self._heads.clear()
        self._heads[data[:size]] = Head(
            request.method,
            request.target,
            request.path,
            request.query,
            request.headers,
            size,
            len(data),
        )
