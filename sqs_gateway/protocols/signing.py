"""Signatures of requests (Signature Version 4): in a header, in the URL, or of chunks. Pure.

Every step is that of AWS's description of the algorithm: a canonical form of the request, a text
that names it, and a chain of keys that begins at the secret.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl, quote, unquote

from sqs_gateway.protocols.incoming import Raw
from sqs_gateway.rules.errors import (
    BAD_SIGNATURE,
    INCOMPLETE_SIGNATURE,
    NO_SIGNATURE,
    UNKNOWN_KEY,
    SqsError,
)

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_CHUNKS: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
_MOST_SKEW_S: Final = 900
_MOST_EXPIRES_S: Final = 604_800
_EMPTY: Final = hashlib.sha256(b"").hexdigest()
_TIME: Final = "%Y%m%dT%H%M%SZ"
_SCOPE: Final = re.compile(r"([^/]+)/(\d{8})/([a-z0-9-]+)/sqs/aws4_request\Z", re.ASCII)
_PART: Final = re.compile(r"(Credential|SignedHeaders|Signature)=([^,\s]+)")
_CHUNK: Final = re.compile(rb"([0-9a-fA-F]{1,8});chunk-signature=([0-9a-f]{64})\r\n")
_SIGNED_IF_THERE: Final = ("x-amz-target", "x-amz-date", "x-amz-content-sha256")


@dataclass(frozen=True, slots=True)
class Signed:
    """A request whose signature is good."""

    access_key: str
    body: bytes
    """What was signed, without the frames of its chunks."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a request says of its signature."""

    access_key: str
    scope: str
    date: str
    region: str
    time: str
    headers: tuple[str, ...]
    signature: str
    expires_s: int | None = None
    """Of one in the URL."""


def verified(raw: Raw, secret_of: Callable[[str], str | None], now: datetime) -> Signed:
    """Who has signed the request. Raises `SqsError`."""
    claim = _claim_in(raw)
    secret = secret_of(claim.access_key)
    if secret is None:
        said = "The security token included in the request is invalid."
        raise SqsError(UNKNOWN_KEY, said)
    _check_time(claim, now)
    payload = _payload(raw, claim)
    canonical = "\n".join(
        (
            raw.method,
            quote(raw.target.partition("?")[0] or "/", safe="/~"),
            _query(raw.query),
            *(f"{name}:{_value(raw.headers.get(name))}" for name in claim.headers),
            "",
            ";".join(claim.headers),
            payload,
        )
    )
    key = _key(secret, claim)
    hashed = hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
    expected = _signed(key, f"{_ALGORITHM}\n{claim.time}\n{claim.scope}\n{hashed}")
    if not hmac.compare_digest(expected.encode(), claim.signature.encode()):
        raise _wrong()
    body = _unchunked(raw.body, key, claim) if payload == _CHUNKS else raw.body
    return Signed(claim.access_key, body)


def _claim_in(raw: Raw) -> _Claim:
    header = raw.headers.get("authorization", "")
    if header.startswith(_ALGORITHM):
        parts = dict(_PART.findall(header[len(_ALGORITHM) :]))
        return _claim(parts, raw.headers.get("x-amz-date", ""), None, raw)
    asked = dict(parse_qsl(raw.query, keep_blank_values=True))
    if asked.get("X-Amz-Algorithm") == _ALGORITHM:
        names = ("Credential", "SignedHeaders", "Signature")
        parts = {name: asked.get(f"X-Amz-{name}", "") for name in names}
        return _claim(parts, asked.get("X-Amz-Date", ""), asked.get("X-Amz-Expires", "0"), raw)
    raise SqsError(NO_SIGNATURE, "Request is missing Authentication Token")


def _claim(parts: dict[str, str], time: str, expires: str | None, raw: Raw) -> _Claim:
    scope = _SCOPE.match(parts.get("Credential", ""))
    headers = tuple(parts.get("SignedHeaders", "").split(";"))
    missing = [name for name in _SIGNED_IF_THERE if name in raw.headers and name not in headers]
    good = (
        scope is not None
        and parts.get("Signature")
        and time.startswith(scope[2])
        and "host" in headers
        and list(headers) == sorted(set(headers))
        and not missing
        and (expires is None or (expires.isascii() and expires.isdigit() and len(expires) < 8))
    )
    if scope is None or not good:
        raise SqsError(
            INCOMPLETE_SIGNATURE,
            "The signature has to name a credential for the service sqs, the time, and the signed"
            " headers: host, and those of x-amz- that are there.",
        )
    return _Claim(
        scope[1],
        scope[0].partition("/")[2],
        scope[2],
        scope[3],
        time,
        headers,
        parts["Signature"],
        None if expires is None else int(expires),
    )


def _check_time(claim: _Claim, now: datetime) -> None:
    try:
        signed_at = datetime.strptime(claim.time, _TIME).replace(tzinfo=UTC)
    except ValueError:
        raise SqsError(INCOMPLETE_SIGNATURE, f"{claim.time[:40]} is no time.") from None
    age_s = (now - signed_at).total_seconds()
    longest_s = _MOST_SKEW_S if claim.expires_s is None else claim.expires_s
    if age_s > longest_s or age_s < -_MOST_SKEW_S or longest_s > _MOST_EXPIRES_S:
        raise SqsError(
            BAD_SIGNATURE, f"Signature expired: {claim.time} is too far from the current time."
        )


def _payload(raw: Raw, claim: _Claim) -> str:
    """The hash of the body, or the word that stands for one in signed chunks."""
    said = raw.headers.get("x-amz-content-sha256")
    if said == _CHUNKS and claim.expires_s is None:
        return _CHUNKS
    return hashlib.sha256(raw.body).hexdigest()


def _query(text: str) -> str:
    pairs = [part.partition("=")[::2] for part in text.split("&") if part]
    encoded = sorted(
        (
            quote(unquote(name.replace("+", " ")), safe="~"),
            quote(unquote(value.replace("+", " ")), safe="~"),
        )
        for name, value in pairs
    )
    return "&".join(f"{name}={value}" for name, value in encoded if name != "X-Amz-Signature")


def _value(text: str | None) -> str:
    return " ".join((text or "").split())


def _key(secret: str, claim: _Claim) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (claim.date, claim.region, "sqs", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def _signed(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _wrong() -> SqsError:
    return SqsError(
        BAD_SIGNATURE,
        "The request signature we calculated does not match the signature you provided. Check your"
        " secret access key and the signing method.",
    )


def _unchunked(body: bytes, key: bytes, claim: _Claim) -> bytes:
    """What the chunks hold. Each is signed with the signature before it; the last one is empty."""
    before, at = claim.signature, 0
    parts: list[bytes] = []
    while (frame := _CHUNK.match(body, at)) is not None:
        size = int(frame[1], 16)
        data = body[frame.end() : frame.end() + size]
        at = frame.end() + size + 2
        named: Iterable[str] = (
            "AWS4-HMAC-SHA256-PAYLOAD",
            claim.time,
            claim.scope,
            before,
            _EMPTY,
            hashlib.sha256(data).hexdigest(),
        )
        expected = _signed(key, "\n".join(named))
        given = frame[2].decode()
        whole = len(data) == size and body[at - 2 : at] == b"\r\n"
        if not whole or not hmac.compare_digest(expected.encode(), given.encode()):
            raise _wrong()
        if not size:
            return b"".join(parts)
        parts.append(data)
        before = given
    raise _wrong()
