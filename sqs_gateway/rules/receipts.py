"""Receipt handles: a receipt of the queue, when it was given out, and a checksum. Pure.

A handle holds all that is needed, so it is good at every gateway. The checksum is over the name of
the queue as well: a handle that was altered, or is of another queue, is refused. It keeps out
mistakes, not attacks: what a caller may delete is decided by the rights of the caller.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from sqs_gateway.rules.errors import RECEIPT_INVALID, SqsError

_CHECK_BYTES: Final = 12


@dataclass(frozen=True, slots=True)
class Handle:
    """What a handle says."""

    receipt: str
    """The receipt of the queue's services."""
    received_ms: int
    """When the message was received, in milliseconds since 1970."""

    def text(self, queue: str) -> str:
        """As a client gets it."""
        plain = f"{self.received_ms}/{self.receipt}".encode()
        return base64.urlsafe_b64encode(_check(queue, plain) + plain).decode("ascii")


def handle_of(text: str, queue: str) -> Handle:
    """Read it back. Raises `SqsError`."""
    try:
        raw = base64.b64decode(text.encode("ascii"), b"-_", validate=True)
        plain = raw[_CHECK_BYTES:]
        # Bits behind the last byte mean nothing: of two texts for one handle, one is made up.
        if raw[:_CHECK_BYTES] != _check(queue, plain) or base64.urlsafe_b64encode(
            raw
        ) != text.encode("ascii"):
            raise ValueError(text)
        received, receipt = plain.decode().split("/", 1)
        return Handle(receipt, int(received))
    except (ValueError, UnicodeError, binascii.Error):
        raise SqsError(
            RECEIPT_INVALID,
            f'The input receipt handle "{text[:200]}" is not a valid receipt handle.',
        ) from None


def _check(queue: str, plain: bytes) -> bytes:
    return blake2b(
        plain, digest_size=_CHECK_BYTES, person=b"lq-sqs", key=queue.encode()[:64]
    ).digest()
