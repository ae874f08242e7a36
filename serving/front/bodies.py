"""A body that is being read: what is wanted is counted and kept, what is refused is passed over."""

from __future__ import annotations

from serving.front.limits.budget import Budget, Lease
from serving.front.limits.refusals import body_too_large

MAX_DISCARDED = 64 << 20
"""A refused body is read to its end and thrown away, up to this: a client that is still sending
would else find the connection closed in place of the answer."""
_SMALL_BYTES, _LARGE_BYTES = 4 << 10, 64 << 10
"""Pieces of a body that are put together, and until when: what has become large is not copied."""


class Body:
    """The body of one request."""

    __slots__ = ("_bare", "_budget", "_lease", "_pieces", "most", "refused", "taken")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._lease: Lease | None = None
        self._pieces: list[bytes | bytearray] = []
        self._bare = 0
        self.most = 0
        """Bytes that it may have."""
        self.taken = 0
        """Bytes of content that have come, wanted or not."""
        self.refused = False
        """What is still to come is thrown away."""

    @property
    def exhausted(self) -> bool:
        """It is refused, and more came of it than is worth reading."""
        return self.refused and self.taken > MAX_DISCARDED

    def add(self, piece: bytes) -> None:
        """A piece has come. Raises `TooLarge` and `Overloaded`."""
        self.taken += len(piece)
        if self.refused:
            return
        if self.taken > self.most:
            raise body_too_large(self.most)
        if self._lease is None:
            self._lease = self._budget.lease()
        self._lease.grow(len(piece))
        _keep(self._pieces, piece)

    def bare_bytes(self, read: int, content: int) -> int:
        """Bytes in a row that were no content, at most, after a read with so much content.

        The parser keeps a trailer until it is whole, however long it becomes.
        """
        self._bare = read - content + (0 if content else self._bare)
        return self._bare

    def refuse(self) -> None:
        """Nothing of it is wanted any more."""
        self.refused = True
        self.drop()

    def drop(self) -> None:
        """Give its memory back."""
        self._pieces = []
        if self._lease is not None:
            self._lease.shrink_to(0)
            self._lease = None

    def whole(self) -> tuple[bytes, Lease | None]:
        """All of it, and what it takes of the budget: that is the caller's now."""
        pieces, lease, self._lease = self._pieces, self._lease, None
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces), lease


def _keep(body: list[bytes | bytearray], piece: bytes) -> None:
    """Put a piece to the others: small ones into one, as each would take fifty bytes of its own.

    A body of two bytes a chunk took thirty times what was counted.
    """
    if body and len(piece) < _SMALL_BYTES and len(last := body[-1]) < _LARGE_BYTES:
        if not isinstance(last, bytearray):
            body[-1] = last = bytearray(last)
        last += piece
        return
    body.append(piece)
