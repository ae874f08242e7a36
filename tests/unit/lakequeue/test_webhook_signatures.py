"""Signatures of webhook deliveries, against the vector of the Standard Webhooks specification."""

from __future__ import annotations

import pytest

from lakequeue.errors import InvalidRequest, SignatureInvalid
from lakequeue.wire.calls.webhooks import (
    SIGNATURE,
    new_secret,
    secret_bytes,
    sign,
    verify,
)

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'


def test_the_vector_of_the_specification() -> None:
    headers = sign(secret_bytes(SECRET), ID, AT, BODY)
    assert headers[SIGNATURE] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert verify(SECRET, headers, BODY, AT + 10) == ID


def test_what_was_changed_or_replayed_is_refused() -> None:
    headers = sign(secret_bytes(SECRET), ID, AT, BODY)
    with pytest.raises(SignatureInvalid, match="not of this secret"):
        verify(SECRET, headers, BODY + b" ", AT)
    with pytest.raises(SignatureInvalid, match="not of this secret"):
        verify(new_secret(), headers, BODY, AT)
    with pytest.raises(SignatureInvalid, match=r"\+301 s ago"):
        verify(SECRET, headers, BODY, AT + 301)
    with pytest.raises(SignatureInvalid, match="webhook-id"):
        verify(SECRET, {}, BODY, AT)
    both = headers | {SIGNATURE: f"v1,AAAA {headers[SIGNATURE]}"}
    assert verify(SECRET, both, BODY, AT) == ID


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_AAAA", "whsec_%%%", "A" * 32])
def test_a_weak_or_malformed_secret_is_refused(secret: str) -> None:
    with pytest.raises(InvalidRequest):
        secret_bytes(secret)
