"""Signature Version 4, against botocore's own signer."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from lakequeue.errors import InvalidSetting
from sqs_gateway.keys import KeyFile, keys_in
from sqs_gateway.protocols.incoming import Raw
from sqs_gateway.protocols.signing import verified
from sqs_gateway.rules.errors import SqsError

ACCESS, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
URL = "http://127.0.0.1:9324"
Altered = Callable[[Raw], Raw]


def secret_of(access_key: str) -> str | None:
    return SECRET if access_key == ACCESS else None


def now() -> datetime:
    return datetime.now(UTC)


def signed(
    method: str, url: str, body: bytes = b"", presigned: bool = False, access: str = ACCESS
) -> Raw:
    """A request as an SDK signs it."""
    headers = {} if presigned else {"X-Amz-Target": "AmazonSQS.SendMessage", "Odd": "  a   b "}
    request = AWSRequest(method=method, url=url, data=body, headers=headers)
    how = SigV4QueryAuth if presigned else SigV4Auth
    how(Credentials(access, SECRET), "sqs", "eu-central-1").add_auth(request)
    parts = urlsplit(request.url if presigned else request.prepare().url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    found = {name.lower(): value for name, value in request.headers.items()}
    return Raw(method, parts.path, target, parts.query, {"host": parts.netloc} | found, body)


@pytest.mark.parametrize(
    ("method", "path", "body", "presigned"),
    [
        ("POST", "/", b'{"QueueUrl":"x"}', False),
        ("POST", "/000000000000/orders.fifo", b"Action=ListQueues", False),
        ("GET", "/?Action=ListQueues&QueueNamePrefix=a%20b%2Fc&Version=2012-11-05", b"", False),
        ("GET", "/?Action=ListQueues&QueueNamePrefix=%C3%BC", b"", True),
    ],
)
def test_what_an_sdk_has_signed_is_good(
    method: str, path: str, body: bytes, presigned: bool
) -> None:
    raw = signed(method, URL + path, body, presigned)
    found = verified(raw, secret_of, now())
    assert (found.access_key, found.body) == (ACCESS, body)


def _header(name: str, value: str) -> Altered:
    return lambda raw: replace(raw, headers={**raw.headers, name: value})


def _authorization(old: str, new: str) -> Altered:
    return lambda raw: _header("authorization", raw.headers["authorization"].replace(old, new))(raw)


@pytest.mark.parametrize(
    ("altered", "code"),
    [
        (lambda raw: replace(raw, body=raw.body + b" "), "SignatureDoesNotMatch"),
        (lambda raw: replace(raw, method="GET"), "SignatureDoesNotMatch"),
        (lambda raw: replace(raw, target="/000000000000/other"), "SignatureDoesNotMatch"),
        (lambda raw: replace(raw, query="a=b"), "SignatureDoesNotMatch"),
        (_header("x-amz-target", "AmazonSQS.DeleteQueue"), "SignatureDoesNotMatch"),
        (_header("host", "elsewhere"), "SignatureDoesNotMatch"),
        (_header("x-amz-content-sha256", "0" * 64), "IncompleteSignature"),
        (_header("x-amz-date", "20260101T000000Z"), "IncompleteSignature"),
        (_header("authorization", ""), "MissingAuthenticationToken"),
        (_header("authorization", "Bearer lq_a_b"), "MissingAuthenticationToken"),
        (_header("authorization", "AWS4-HMAC-SHA256 x"), "IncompleteSignature"),
        (_authorization("/sqs/", "/s3/"), "IncompleteSignature"),
        (_authorization("host;", ""), "IncompleteSignature"),
        (_authorization("eu-central-1", "eu-central-2"), "SignatureDoesNotMatch"),
        (_authorization(ACCESS, "AKIDOTHER"), "InvalidClientTokenId"),
    ],
)
def test_what_was_altered_is_refused(altered: Altered, code: str) -> None:
    raw = altered(signed("POST", URL + "/", b"{}"))
    with pytest.raises(SqsError) as error:
        verified(raw, secret_of, now())
    assert error.value.code.query == code


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_signature_has_its_time(hours: int) -> None:
    with pytest.raises(SqsError, match="expired"):
        verified(signed("POST", URL + "/"), secret_of, now() + timedelta(hours=hours))


def chunked(pieces: list[bytes]) -> Raw:
    """As AWS describes it: each chunk with a signature that follows from the one before."""
    request = AWSRequest(
        method="POST",
        url=URL + "/",
        data=b"",
        headers={"x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"},
    )
    SigV4Auth(Credentials(ACCESS, SECRET), "sqs", "us-east-1").add_auth(request)
    time = request.headers["X-Amz-Date"]
    scope = f"{time[:8]}/us-east-1/sqs/aws4_request"
    key = f"AWS4{SECRET}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()

    def sign(text: str) -> str:
        return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()

    signature = request.headers["Authorization"].rpartition("=")[2]
    body, empty = b"", hashlib.sha256(b"").hexdigest()
    for piece in [*pieces, b""]:
        own = hashlib.sha256(piece).hexdigest()
        signature = sign(f"AWS4-HMAC-SHA256-PAYLOAD\n{time}\n{scope}\n{signature}\n{empty}\n{own}")
        body += f"{len(piece):x};chunk-signature={signature}\r\n".encode() + piece + b"\r\n"
    headers = {name.lower(): value for name, value in request.headers.items()}
    headers["host"] = "127.0.0.1:9324"
    return Raw("POST", "/", "/", "", headers, body)


def test_a_body_in_signed_chunks_is_put_together() -> None:
    raw = chunked([b"Action=", b"ListQueues"])
    assert verified(raw, secret_of, now()).body == b"Action=ListQueues"
    for wrong in (
        raw.body.replace(b"ListQueues", b"PurgeQueue"),
        raw.body[:-10],
        raw.body[: raw.body.index(b"0;chunk")],
        b"",
    ):
        with pytest.raises(SqsError):
            verified(replace(raw, body=wrong), secret_of, now())


def test_keys_come_from_a_file_that_may_change(tmp_path: Path) -> None:
    at = [0.0]
    path = tmp_path / "keys"
    path.write_text("# ours\nlq_abc_secret\n\nAKID:other+/secret\n")
    keys = KeyFile(path, lambda: at[0])
    own, static = keys.find("lq_abc"), keys.find("AKID")
    assert own is not None
    assert (own.secret, own.bearer) == ("lq_abc_secret", "lq_abc_secret")
    assert static is not None
    assert (static.secret, static.bearer) == ("other+/secret", None)
    assert "secret" not in repr(own)
    path.write_text("lq_new_secret\n")
    assert keys.find("AKID") is not None, "it is looked at once a second"
    at[0] = 1.0
    assert keys.find("AKID") is None
    assert keys.find("lq_new") is not None
    for wrong in ("no key", "lq_abc", ":secret", "name:"):
        with pytest.raises(InvalidSetting):
            keys_in(wrong)
