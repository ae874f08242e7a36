"""Asks an OIDC issuer who somebody is: remembers who is on the way there, and redeems codes."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import orjson

from console.rules import oidc
from console.rules.oidc import Client, Endpoints, Token
from lakequeue.errors import Unauthenticated, Unreachable
from serving.tls import trusting

ON_THE_WAY_S = 600.0
"""Somebody has so long to sign in at the issuer."""
_MOST_ON_THE_WAY = 4_096
_KEPT_S = 300.0
_TIMEOUT_S = 5.0
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _OnTheWay:
    verifier: str
    there: str
    since: float


class Issuer:
    """Thread-safe. `secret`: of a client that has one; PKCE holds without."""

    def __init__(
        self,
        client: Client,
        secret: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        ca: Path | None = None,
    ) -> None:
        """`ca`: authorities that are trusted beside those of the system."""
        self.client = client
        self._ca = ca
        self._secret, self._clock = secret, clock
        self._lock = threading.Lock()
        self._on_the_way: OrderedDict[str, _OnTheWay] = OrderedDict()
        self._known: tuple[float, Endpoints] | None = None

    def begin(self, there: str) -> tuple[str, str]:
        """(where to send somebody who wants to see `there`, the state to come back with).

        Raises `Unauthenticated`, `Unreachable`.
        """
        at = self._endpoints()
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        with self._lock:
            self._on_the_way[state] = _OnTheWay(verifier, there, self._clock())
            while len(self._on_the_way) > _MOST_ON_THE_WAY:
                self._on_the_way.popitem(last=False)
        return oidc.authorization_url(at, self.client, state, verifier), state

    def end(self, answer: Mapping[str, str]) -> tuple[Token, str]:
        """(token, where they wanted to go) of somebody who comes back; works once.

        Raises `Unauthenticated`, `Unreachable`.
        """
        with self._lock:
            begun = self._on_the_way.pop(answer.get("state", ""), None)
        if begun is None or self._clock() - begun.since > ON_THE_WAY_S:
            raise Unauthenticated("that took too long, or was used before", hint="sign in again")
        code = oidc.code_in(answer, self.client.issuer)
        form, at = oidc.redemption(self.client, code, begun.verifier), self._endpoints()
        basic = None
        if self._secret is not None and at.secret_in_body:
            form["client_secret"] = self._secret
        elif self._secret is not None:
            basic = httpx2.BasicAuth(self.client.client_id, self._secret)
        return oidc.token_in(*_asked("POST", at.token, self._ca, form, basic)), begun.there

    def _endpoints(self) -> Endpoints:
        with self._lock:
            if self._known is not None and self._clock() - self._known[0] < _KEPT_S:
                return self._known[1]
        status, document = _asked("GET", oidc.metadata_url(self.client.issuer), self._ca)
        if status != httpx2.codes.OK or not isinstance(document, dict):
            raise _away(self.client.issuer, f"its description cannot be had: {status}")
        found = oidc.endpoints_in(document, self.client.issuer)
        with self._lock:
            self._known = (self._clock(), found)
        return found


def _asked(
    method: str,
    url: str,
    ca: Path | None,
    form: Mapping[str, str] | None = None,
    basic: httpx2.BasicAuth | None = None,
) -> tuple[int, Any]:
    """(status, JSON or None), within its time and its size, and of that address alone.

    Raises `Unreachable`.
    """
    until = time.monotonic() + _TIMEOUT_S
    try:
        with (
            httpx2.Client(timeout=_TIMEOUT_S, trust_env=False, verify=trusting(ca)) as http,
            http.stream(method, url, data=form, auth=basic, follow_redirects=False) as answer,
        ):
            whole = b""
            for piece in answer.iter_bytes():
                whole += piece
                if len(whole) > _MOST_BYTES or time.monotonic() > until:
                    raise _away(url, "it answers too much, or too slowly")
    except (httpx2.RequestError, httpx2.InvalidURL, OSError) as error:
        raise _away(url, type(error).__name__) from error
    try:
        return answer.status_code, orjson.loads(whole)
    except orjson.JSONDecodeError:
        return answer.status_code, None


def _away(url: str, why: str) -> Unreachable:
    return Unreachable(
        f"the issuer does not answer at {url}: {why}",
        hint="sign in with an API key meanwhile",
        stored="no",
    )
