"""API keys: `lq_<id>_<secret>`. Pure, but for the randomness of a new one.

The secret has 256 random bits, so a fast hash is enough where it lies: nobody can try them all.
The id is no secret. It finds the key, so that ten thousand cost no more than one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final

PREFIX: Final = "lq_"
MOST_CHARS: Final = 128
_ID_BYTES, _SECRET_BYTES = 8, 32


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it lies in the table."""

    id: str
    principal: str
    secret_hash: str
    """SHA-256 of the whole key, in hexadecimal."""
    expires_at: int | None = None
    """Microseconds since 1970; None: never."""

    def fits(self, text: str) -> bool:
        """Whether `text` is this key; takes the same time whichever character is wrong."""
        return hmac.compare_digest(hashed(text), self.secret_hash)

    def expired(self, now: int) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now


def hashed(text: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(text.encode()).hexdigest()


def new_key(principal: str, expires_at: int | None = None) -> tuple[str, Key]:
    """(the key, shown once; what is kept of it)."""
    key_id = base64.b32encode(secrets.token_bytes(_ID_BYTES)).decode().rstrip("=").lower()
    secret = base64.urlsafe_b64encode(secrets.token_bytes(_SECRET_BYTES)).decode().rstrip("=")
    text = f"{PREFIX}{key_id}_{secret}"
    return text, Key(key_id, principal, hashed(text), expires_at)


def id_of(text: str) -> str | None:
    """The id in a key; None: it has not the form of one."""
    if not text.startswith(PREFIX) or len(text) > MOST_CHARS or not text.isascii():
        return None
    key_id, underscore, secret = text[len(PREFIX) :].partition("_")
    return key_id if underscore and key_id and secret else None
