"""Tokens of an OIDC issuer that answers, rolls its keys, is slow, and goes away: at a real node."""

from __future__ import annotations

import base64
import hmac
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from jobs.streaming.driver_metrics import DriverMetrics
from lakequeue.settings import Settings
from queue_access.registry import entry_of_grant, entry_of_issuer
from queue_access.rights import checked_grant
from queue_access.tokens import MOST_CHARS, Issuer, PublicKeys
from serving.doors.issuers import fetched
from tests.support.access.certificates import Authority
from tests.support.access.locked import Locks, as_, locks
from tests.support.faults.patching import environ
from tests.support.services.ingest_service import IngestService
from tests.support.services.zookeeper import MakeSession, wait_for

pytestmark = pytest.mark.timeout(180)
ISS, AUDIENCE = "https://id.example.org/", "lakequeue"


class OidcServer:
    """Answers with its keys, or with whatever `answer` does."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.keys: list[RSAKey | ECKey] = [RSAKey.generate_key(2048, {"kid": "one"})]
        self.answer: Callable[[BaseHTTPRequestHandler], None] = self.document
        self.asked = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked += 1
                server.answer(self)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}/jwks"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def document(self, handler: BaseHTTPRequestHandler) -> None:
        body = orjson.dumps({"keys": [key.as_dict(private=False) for key in self.keys]})
        handler.send_response(200)
        handler.send_header("content-length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def token(
        self, key: RSAKey | ECKey | None = None, alg: str | None = None, **claims: Any
    ) -> str:
        """A token of ada's, good for an hour, but for what is given."""
        key = key or self.keys[-1]
        alg = alg or ("ES256" if isinstance(key, ECKey) else "RS256")
        now = int(time.time())
        said = {"iss": ISS, "aud": AUDIENCE, "sub": "ada", "exp": now + 3_600, **claims}
        said = {name: value for name, value in said.items() if value is not None}
        return jwt.encode({"alg": alg, "kid": key.kid}, said, key, algorithms=[alg])


@pytest.fixture(scope="module")
def oidc() -> Iterator[OidcServer]:
    server = OidcServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory, oidc: OidcServer) -> Locks:
    made = locks(tmp_path_factory.mktemp("issuers") / "root")
    made.put(
        [
            entry_of_issuer(Issuer("corp", ISS, AUDIENCE, oidc.url)),
            entry_of_grant("corp/ada", checked_grant("produce", "topic", "orders")),
            entry_of_grant("corp/groups/makers", checked_grant("manage", "topic", "made-*")),
        ]
    )
    return made


@pytest.fixture(scope="module")
def http(locked: Locks, oidc: OidcServer) -> Iterator[httpx2.Client]:
    with IngestService(Path(locked.root.uri), **environ("quick_looks")) as running:
        admin = as_(locked.keys["admin"])
        assert running.http.put("/v1/topics/orders", json={}, headers=admin).status_code == 201
        # The first token finds no keys: the issuer is asked beside the request.
        first = send(running.http, oidc.token())
        assert first.status_code in {200, 503}, first.text
        assert first.status_code == 200 or int(first.headers["Retry-After"]) >= 1
        wait_for(lambda: send(running.http, oidc.token()).status_code == 200, "keys", every_s=0.2)
        yield running.http
        told = running.stderr()
        assert oidc.token().rpartition(".")[2] not in told
        assert "eyJ" not in told


def send(http: httpx2.Client, token: str) -> httpx2.Response:
    records = {"records": [{"value": 1}]}
    return http.post("/v1/topics/orders/records", json=records, headers=as_(token))


def test_a_token_may_what_its_principal_and_its_groups_may(
    http: httpx2.Client, oidc: OidcServer
) -> None:
    assert send(http, oidc.token()).status_code == 200
    assert send(http, oidc.token(sub="bob")).status_code == 403
    for groups, status in ((["makers"], 201), (["others"], 403), ("makers", 200), (7, 403)):
        shown = as_(oidc.token(sub="bob", groups=groups))
        assert http.put("/v1/topics/made-1", json={}, headers=shown).status_code == status, groups
    # A key of the principal `corp` is nobody of the issuer's, and the other way round.
    assert send(http, oidc.token(sub="../admin")).status_code == 403


def wrong_tokens(oidc: OidcServer) -> dict[str, str]:
    now = int(time.time())
    good = oidc.token()
    head, body, signature = good.split(".")
    stranger = RSAKey.generate_key(2048, {"kid": "one"})
    # By hand: no library signs so.
    said = b'{"alg":"HS256","kid":"%b"}' % str(oidc.keys[0].kid).encode()
    confused = f"{base64.urlsafe_b64encode(said).decode().rstrip('=')}.{body}"
    public = oidc.keys[0].as_pem(private=False)
    mac = hmac.digest(public, confused.encode(), "sha256")
    confused += f".{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"
    none = "eyJhbGciOiJub25lIiwia2lkIjoib25lIn0"
    return {
        "expired": oidc.token(exp=now - 60),
        "without an end": oidc.token(exp=None),
        "not yet good": oidc.token(nbf=now + 600),
        "issued in the future": oidc.token(iat=now + 600),
        "for others": oidc.token(aud="somebody-else"),
        "for nobody": oidc.token(aud=None),
        "of another issuer": oidc.token(iss="https://id.example.com/"),
        "almost of this issuer": oidc.token(iss=ISS.rstrip("/")),
        "without a name": oidc.token(sub=None),
        "alg none": f"{none}.{body}.",
        "alg none, signed": f"{none}.{body}.{signature}",
        "the public key as a secret": confused,
        "an algorithm that is not the issuer's": oidc.token(stranger, "RS512"),
        "another key of that name": oidc.token(stranger),
        "another body": f"{head}.{body[:-2]}AA.{signature}",
        "no signature": f"{head}.{body}.",
        "too long": oidc.token(more="x" * MOST_CHARS),
        "no token": "a.b.c",
        "nothing": "..",
    }


def test_wrong_tokens_are_refused(http: httpx2.Client, oidc: OidcServer) -> None:
    for what, token in wrong_tokens(oidc).items():
        answer = send(http, token)
        assert answer.status_code in {401, 431}, (what, answer.status_code, answer.text)
        assert token[-30:] not in answer.text, what


def test_a_token_that_expires_is_refused_from_then_on(
    http: httpx2.Client, oidc: OidcServer
) -> None:
    token = oidc.token(exp=int(time.time()) - 28)  # the skew is half a minute
    assert send(http, token).status_code == 200
    wait_for(lambda: send(http, token).status_code == 401, "it has expired", every_s=0.2)


def test_keys_roll_in_the_middle(http: httpx2.Client, oidc: OidcServer) -> None:
    old = oidc.token()
    oidc.keys.append(ECKey.generate_key("P-256", {"kid": "two"}))
    new = oidc.token(alg="ES256")
    status = send(http, new).status_code
    assert status in {200, 401, 503}, "the issuer is asked first"
    wait_for(lambda: send(http, new).status_code == 200, "the new key is known", every_s=0.2)
    assert send(http, old).status_code == 200
    # The old one is taken away: its tokens end with the next look.
    del oidc.keys[0]
    asked = oidc.asked
    unknown = ECKey.generate_key("P-256", {"kid": "three"})

    def looked() -> bool:
        status = send(http, oidc.token(unknown)).status_code
        return oidc.asked > asked and status == 401

    wait_for(looked, "the issuer was asked again, and knows no such key", every_s=0.2)
    assert send(http, old).status_code in {401, 503}
    assert send(http, new).status_code == 200


@contextmanager
def answering(oidc: OidcServer, answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[None]:
    before = oidc.answer
    oidc.answer = answer
    try:
        yield
    finally:
        oidc.answer = before


def fails(handler: BaseHTTPRequestHandler) -> None:
    handler.send_error(500)


def redirects(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(302)
    handler.send_header("location", "http://127.0.0.1:1/jwks")
    handler.end_headers()


def is_too_large(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b" " * (3 << 20))


def has_nothing(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b'{"keys": [{"kty": "oct", "kid": "nine", "k": "c2VjcmV0"}]}')


def test_an_issuer_that_is_down_or_slow_holds_nobody_up(
    http: httpx2.Client, oidc: OidcServer, locked: Locks
) -> None:
    known = oidc.token()
    fresh = ECKey.generate_key("P-256", {"kid": "nine"})
    release, came = threading.Event(), threading.Event()

    def hangs(handler: BaseHTTPRequestHandler) -> None:
        came.set()
        release.wait(60)
        handler.close_connection = True

    for answer in (hangs, fails):
        asked = oidc.asked

        def is_asked(before: int = asked) -> bool:
            return send(http, oidc.token(fresh)).status_code == 503 and (oidc.asked > before)

        with answering(oidc, answer):
            wait_for(is_asked, f"{answer.__name__}: it is asked", every_s=0.2)
            # Meanwhile: who is known comes in, who has a key too, and who lies is refused.
            assert send(http, known).status_code == 200, answer.__name__
            assert send(http, locked.keys["admin"]).status_code == 200, answer.__name__
            assert http.get("/healthz").status_code == 200
            refused = send(http, oidc.token(fresh))
            assert refused.status_code == 503, answer.__name__
            assert "Retry-After" in refused.headers
    release.set()
    assert came.is_set()
    oidc.keys.append(fresh)
    wait_for(lambda: send(http, oidc.token(fresh)).status_code == 200, "it is back", every_s=0.2)


@pytest.mark.parametrize("answer", [fails, redirects, is_too_large, has_nothing])
def test_what_is_no_document_of_keys_is_none(
    oidc: OidcServer, answer: Callable[[BaseHTTPRequestHandler], None]
) -> None:
    with answering(oidc, answer):
        try:
            keys = PublicKeys.read(fetched(oidc.url))
        except ValueError:
            return
    assert not len(keys), "a secret is no public key"


@pytest.mark.zookeeper
def test_a_driver_takes_tokens_too(locked: Locks, oidc: OidcServer, sessions: MakeSession) -> None:
    locked.put([entry_of_grant("corp/prometheus", checked_grant("read", "queue", "*"))])
    settings = Settings(root=locked.root.uri, driver={"port": 0})
    driver = DriverMetrics("driver", sessions("driver"), locked.root, settings)
    url = driver.start()
    try:
        shown = as_(oidc.token(sub="prometheus"))

        def status() -> int:
            return httpx2.get(f"{url}/metrics", headers=shown, timeout=60).status_code

        wait_for(lambda: status() == 200, "the keys are known", every_s=0.2)
    finally:
        driver.close()


def test_an_issuer_of_an_authority_of_our_own_is_trusted_if_that_is_named(
    oidc: OidcServer, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    files = authority.sign("id")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files.cert, files.key)
    server = OidcServer(tls)
    server.keys = oidc.keys
    with pytest.raises(httpx2.ConnectError):
        fetched(server.url)
    assert len(PublicKeys.read(fetched(server.url, authority.ca)))
    server.close()


def test_the_keys_of_an_issuer_are_fetched_from_http_alone(tmp_path: Path) -> None:
    (tmp_path / "jwks").write_text('{"keys": []}')
    with pytest.raises(ValueError, match="not an http address"):
        fetched(f"file://{tmp_path}/jwks")
