"""A small OIDC issuer on this machine: describes itself, lets `ada` in, gives tokens for codes.

It is strict where a real one is: a code works once, for its client, its callback and its verifier.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import orjson
from joserfc import jwt
from joserfc.jwk import RSAKey

AUDIENCE = "lakequeue"
CLIENT_ID = "console"
SIGN_IN = b"""<!doctype html><title>Issuer</title><form method="post">
<input name="user" value="ada"><button name="do" value="yes">Let me in</button>
<button name="do" value="no">No</button></form>"""


class SmallIssuer:
    """Its `url` is the claim `iss`."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one"})
        self.codes: dict[str, dict[str, str]] = {}
        self.lasts_s = 3_600
        self.opaque = False
        """Its tokens are no JWT."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path == "/.well-known/openid-configuration":
                    issuer.answer(self, 200, issuer.described())
                elif parts.path == "/jwks":
                    issuer.answer(self, 200, {"keys": [issuer.key.as_dict(private=False)]})
                elif parts.path == "/authorize":
                    issuer.answer(self, 200, SIGN_IN)
                else:
                    issuer.answer(self, 404, {})

            def do_POST(self) -> None:
                form = _fields(self.rfile.read(int(self.headers.get("content-length", 0))).decode())
                parts = urlsplit(self.path)
                if parts.path == "/token":
                    issuer.answer(self, *issuer.redeemed(form))
                else:
                    self.send_response(303)
                    self.send_header("location", issuer.let_in(_fields(parts.query), form))
                    self.send_header("content-length", "0")
                    self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        # Another site than 127.0.0.1, as issuers are.
        self.url = f"http://localhost:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def described(self) -> dict[str, Any]:
        """What it says of itself."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "code_challenge_methods_supported": ["S256"],
        }

    def let_in(self, asked: dict[str, str], form: dict[str, str]) -> str:
        """Where somebody goes who has said who they are."""
        back = {"state": asked["state"], "iss": self.url}
        if form["do"] != "yes":
            return f"{asked['redirect_uri']}?{urlencode(back | {'error': 'access_denied'})}"
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked | {"user": form["user"]}
        return f"{asked['redirect_uri']}?{urlencode(back | {'code': code})}"

    def redeemed(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """(status, answer) to whoever has a code."""
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        shown = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (
            asked is None
            or form.get("grant_type") != "authorization_code"
            or asked["code_challenge_method"] != "S256"
            or asked["code_challenge"] != shown
            or (form.get("client_id"), form.get("redirect_uri"))
            != (asked["client_id"], asked["redirect_uri"])
        ):
            return 400, {"error": "invalid_grant"}
        token = "opaque" if self.opaque else self.token(asked["user"])
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.lasts_s}

    def token(self, user: str) -> str:
        """An access token."""
        now = int(time.time())
        said = {"iss": self.url, "aud": AUDIENCE, "sub": user, "exp": now + self.lasts_s}
        return jwt.encode({"alg": "RS256", "kid": "one"}, said, self.key, algorithms=["RS256"])

    def answer(
        self, handler: BaseHTTPRequestHandler, status: int, body: dict[str, Any] | bytes
    ) -> None:
        """Send it."""
        whole = body if isinstance(body, bytes) else orjson.dumps(body)
        handler.send_response(status)
        handler.send_header(
            "content-type", "text/html" if isinstance(body, bytes) else "application/json"
        )
        handler.send_header("content-length", str(len(whole)))
        handler.end_headers()
        handler.wfile.write(whole)

    def close(self) -> None:
        """End."""
        self._server.shutdown()
        self._server.server_close()


def _fields(text: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(text).items()}


@contextmanager
def small_issuer() -> Iterator[SmallIssuer]:
    """One, for as long as it is used."""
    issuer = SmallIssuer()
    try:
        yield issuer
    finally:
        issuer.close()
