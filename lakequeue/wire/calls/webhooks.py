"""Webhooks: what is registered, what is sent, and the signature, for both sides.

A delivery is signed as the Standard Webhooks specification says: `webhook-id`, `webhook-timestamp`
(seconds) and `webhook-signature`, which is `v1,` and the base64 of HMAC-SHA256 over
`<id>.<timestamp>.<body>`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import Field

from lakequeue.errors import InvalidRequest, SignatureInvalid
from lakequeue.wire.calls.groups import GroupOptions
from lakequeue.wire.limits import MAX_NAMED_TOPICS
from lakequeue.wire.shapes import AnswerShape, Items

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - the beginning of every secret, not one
_SECRET_BYTES: Final = (24, 64)
ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"


WebhookFormat = Literal["record", "cloudevents"]


class WebhookRequest(GroupOptions):
    """`PUT /v1/groups/{group}/webhook`: the records of a queue group are posted to `url`.

    The retry policy and the other options of the group go with it.
    """

    url: str = Field(min_length=1, max_length=2_000)
    topics: Items[str] = Field(min_length=1, max_length=MAX_NAMED_TOPICS)
    secret: str | None = None
    """`whsec_` and the base64 of 24 to 64 bytes; null: one is made."""
    concurrency: int = Field(8, ge=1, le=64)
    """Most requests under way at once."""
    timeout_ms: int = Field(10_000, ge=100, le=60_000)
    """For one request, from its beginning to the end of the answer."""
    format: WebhookFormat = "record"
    """record: the body is the record as JSON. cloudevents: the request is a CloudEvent in binary
    mode."""


class WebhookDescription(AnswerShape):
    """A registered webhook. The secret is only told by the answer to its registration."""

    group: str
    url: str
    topics: list[str]
    concurrency: int
    timeout_ms: int
    format: WebhookFormat = "record"
    secret: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    node: str | None = None
    """The node that posts now; null while none does."""


def new_secret() -> str:
    """A secret of 32 random bytes."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode("ascii")


def secret_bytes(secret: str) -> bytes:
    """The key that a secret stands for. Raises `InvalidRequest`."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    least, most = _SECRET_BYTES
    if not secret.startswith(SECRET_PREFIX) or not least <= len(key) <= most:
        raise InvalidRequest(
            "the secret is not valid",
            hint=f"{SECRET_PREFIX} and the base64 of {least} to {most} bytes, or leave it out",
            field="secret",
        )
    return key


def sign(key: bytes, delivery_id: str, timestamp_s: int, body: bytes) -> dict[str, str]:
    """The headers of a delivery."""
    signed = f"{delivery_id}.{timestamp_s}.".encode() + body
    mac = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode("ascii")
    return {ID: delivery_id, TIMESTAMP: str(timestamp_s), SIGNATURE: f"v1,{mac}"}


def verify(
    secret: str, headers: Mapping[str, str], body: bytes, now_s: float, tolerance_s: float = 300.0
) -> str:
    """Check a delivery that was received; its id, which is the same for every attempt at a record.

    `headers` with lower-case names. Raises `SignatureInvalid` for a wrong or missing signature,
    and for one made more than `tolerance_s` before or after `now_s` (a replay).
    """
    try:
        delivery_id, at, given = headers[ID], int(headers[TIMESTAMP]), headers[SIGNATURE]
    except (KeyError, ValueError) as e:
        raise SignatureInvalid(
            f"the header {e} is missing or not valid",
            hint="refuse the request: it is not from this queue, or something dropped its headers",
        ) from e
    if abs(now_s - at) > tolerance_s:
        raise SignatureInvalid(
            f"signed {now_s - at:+.0f} s ago, {tolerance_s:.0f} s are allowed",
            hint="check this machine's clock; else it is a replay",
        )
    expected = sign(secret_bytes(secret), delivery_id, at, body)[SIGNATURE]
    if not any(hmac.compare_digest(expected, one) for one in given.split()):
        raise SignatureInvalid(
            "the signature is not of this secret and body",
            hint="give the body exactly as it came, before any parsing",
        )
    return delivery_id
