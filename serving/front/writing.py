"""What is written on one connection, and how much of it its client has not taken yet."""

from __future__ import annotations

import asyncio

from serving.front.hub import Hub, Peer
from serving.front.limits.deadlines import body_due
from serving.front.limits.shares import Share
from serving.front.messages import Answer, head_of

_LONG = 64 << 10
"""A shorter body is written with its head: the second write costs more than to copy it."""
_PIECE = 256 << 10
"""A transport copies what a client does not take at once: of a piece, not of a whole answer."""
_NOTHING = memoryview(b"")
_STALLED_S = 1.0
"""An answer that has waited to be read for so long makes room for others when it has to."""


class Writing:
    """The way out of one connection."""

    __slots__ = ("_began", "_hub", "_peer", "_rest", "_sent", "_transport", "_unread", "share")

    def __init__(self, hub: Hub, peer: Peer, transport: asyncio.Transport) -> None:
        self._hub = hub
        self._peer = peer
        self._transport = transport
        # So that `resume_writing` says that everything has left.
        transport.set_write_buffer_limits(high=0)
        self._began = 0.0
        self._sent = 0
        self._rest = _NOTHING
        """What was not given to the transport yet."""
        self.share: Share | None = None
        """Whose answer is written."""
        self._unread = 0
        """Bytes of answers that are counted as not read yet."""

    def head(self, answer: Answer, *, close: bool, chunked: bool = False) -> bytes:
        """The status line and headers."""
        return head_of(answer, close=close, chunked=chunked, date=self._hub.date())

    def send(self, head: bytes, body: bytes | memoryview = b"") -> bool:
        """Write; whether all of it has left at once."""
        transport = self._transport
        if transport.is_closing():
            return False
        if len(body) < _LONG:
            head, body = head + body, b""
        if head:
            transport.write(head)
        if body:
            # Put together with its head it would be there twice.
            self._rest = memoryview(body)
        left = self._go_on()
        if not left:
            # A client that has reset the connection leaves nothing to write either.
            return not transport.is_closing()
        self._began, self._sent = self._hub.now(), len(head) + len(body)
        self.count(left)
        self._hub.wheel.put(self._peer, self._began + self._hub.limits.write_s)
        return False

    def more(self) -> bool:
        """The transport has nothing left: write on; whether something stays again."""
        left = self._go_on()
        self.count(left)
        return left > 0

    def _go_on(self) -> int:
        """Write until the client takes no more at once; how much has not left."""
        transport = self._transport
        while self._rest and not transport.get_write_buffer_size() and not transport.is_closing():
            piece, self._rest = self._rest[:_PIECE], self._rest[_PIECE:]
            transport.write(piece)
        return transport.get_write_buffer_size() + len(self._rest)

    def count(self, left: int) -> None:
        """So many bytes wait for the client to take them."""
        if not left:
            self._rest = _NOTHING
        if left == self._unread:
            return
        if self.share is not None:
            self.share.unread += left - self._unread
            self.share.answers.count(left - self._unread)
        self._hub.stalled.pop(self._peer, None)
        if left:
            self._hub.stalled[self._peer] = None
        self._unread = left

    def due(self) -> float | None:
        """When more must have been taken; None: all of it has."""
        left = self._transport.get_write_buffer_size() + len(self._rest)
        if not left:
            return None
        limits = self._hub.limits
        taken = self._sent - left
        return body_due(self._began, taken, limits.write_s, limits.write_bytes_per_s)

    def stalls(self, share: Share, now: float) -> bool:
        """An answer of this kind has waited to be read for a while."""
        return self.share is share and now - self._began > _STALLED_S
