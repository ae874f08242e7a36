"""Signing in at an OIDC issuer: the authorization code with PKCE (RFC 6749, 7636, 9207). Pure.

The console needs no identity of its own: the access token that it gets is what the services judge.
So it has to be a JWT for the audience that the queue knows the issuer by (RFC 9068).
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from lakequeue.errors import Unauthenticated
from queue_access.tokens import MOST_CHARS, is_token

_METADATA = "/.well-known/openid-configuration"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class Client:
    """The console, as the issuer knows it."""

    issuer: str
    """As in the claim `iss`, to the letter."""
    client_id: str
    callback: str
    """The URL of the console to which the issuer sends people back."""
    scope: str = "openid"
    audience: str | None = None
    """Is asked for, if the issuer does not choose it by the client alone."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Of an issuer."""

    authorization: str
    token: str
    secret_in_body: bool = False
    """It takes the client's secret in the form alone, not as basic authentication."""


@dataclass(frozen=True, slots=True)
class Token:
    """What somebody has signed in with."""

    text: str
    lasts_s: float | None
    """None: the issuer does not say."""


def metadata_url(issuer: str) -> str:
    """Where an issuer describes itself."""
    return issuer.rstrip("/") + _METADATA


def endpoints_in(document: Mapping[str, Any], issuer: str) -> Endpoints:
    """Raises `Unauthenticated` for a description of another issuer, or one without PKCE."""
    if document.get("issuer") != issuer:
        raise _refused(f"{metadata_url(issuer)} describes {str(document.get('issuer'))[:100]!r}")
    methods = document.get("code_challenge_methods_supported")
    if isinstance(methods, list) and "S256" not in methods:
        raise _refused(f"{issuer} does not know PKCE with S256")
    found = [str(document.get(f"{name}_endpoint", "")) for name in ("authorization", "token")]
    for url in found:
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise _refused(f"{issuer} names {url[:100]!r}, which is not https")
    ways = document.get("token_endpoint_auth_methods_supported")
    in_body = isinstance(ways, list) and "client_secret_basic" not in ways
    return Endpoints(found[0], found[1], in_body)


def challenge_of(verifier: str) -> str:
    """What the issuer is told of a verifier that it is shown later."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def authorization_url(at: Endpoints, client: Client, state: str, verifier: str) -> str:
    """Where somebody is sent to sign in."""
    asked = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": client.callback,
        "scope": client.scope,
        "state": state,
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
    }
    if client.audience:
        asked |= {"audience": client.audience, "resource": client.audience}
    mark = "&" if urlsplit(at.authorization).query else "?"
    return f"{at.authorization}{mark}{urlencode(asked)}"


def code_in(answer: Mapping[str, str], issuer: str) -> str:
    """The code with which somebody comes back. Raises `Unauthenticated`."""
    if "error" in answer:
        said = answer.get("error_description") or answer["error"]
        raise _refused(f"the issuer did not let you in: {said[:200]}")
    if answer.get("iss", issuer) != issuer:
        raise _refused("that answer is of another issuer")
    code = answer.get("code", "")
    if not code:
        raise _refused("the issuer sent no code")
    return code


def redemption(client: Client, code: str, verifier: str) -> dict[str, str]:
    """The form that gets a token for a code."""
    return {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": client.callback,
        "client_id": client.client_id,
        "code_verifier": verifier,
    }


def token_in(status: int, answer: Any) -> Token:
    """The token of an answer. Raises `Unauthenticated`."""
    said = answer if isinstance(answer, dict) else {}
    text, kind = said.get("access_token"), str(said.get("token_type", "")).lower()
    if status != 200 or not isinstance(text, str) or kind != "bearer":
        why = said.get("error_description") or said.get("error") or f"it answers {status}"
        raise _refused(f"the issuer gave no token: {str(why)[:200]}")
    if not is_token(text) or len(text) > MOST_CHARS:
        raise _refused(
            "the issuer's access tokens are no JWT, which the services could check",
            "let the issuer make JWT access tokens (RFC 9068) for the queue's audience; "
            "`console.oidc_audience` asks for them",
        )
    lasts = said.get("expires_in")
    return Token(text, float(lasts) if isinstance(lasts, int | float) and lasts > 0 else None)


def name_in(token: str) -> str | None:
    """Whom a token names, for its owner to see. Read, not verified: the services do that."""
    try:
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        found = claims.get("preferred_username") or claims.get("email") or claims.get("sub")
    except (ValueError, IndexError, AttributeError):
        return None
    return found[:80] if isinstance(found, str) and found else None


def _refused(detail: str, hint: str = "sign in again, or with an API key") -> Unauthenticated:
    return Unauthenticated(detail, hint=hint, stored="no")
