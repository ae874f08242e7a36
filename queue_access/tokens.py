"""Bearer tokens of an OIDC issuer (JWT, RFC 9068): what is accepted, and who it says one is. Pure.

The signature is checked by joserfc. The algorithm is one that the issuer is declared with, never
what the token says alone; only public keys are taken from an issuer, so that none of them can be
used as the secret of an HMAC.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from joserfc import jwt
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from lakequeue.errors import InvalidRequest, Unauthenticated

MOST_CHARS: Final = 8 << 10
_KEY_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "Ed25519": "OKP",
    "EdDSA": "OKP",
}
"""Algorithms that an issuer may be declared with, and the type of their keys."""
ALGORITHMS: Final = ("RS256", "ES256")
_MAKE: Final[Mapping[str, Any]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
_LEAST_RSA_BITS: Final = 2_048
MOST_GROUPS: Final = 200
_GROUPS: Final = "groups/"


@dataclass(frozen=True, slots=True)
class Issuer:
    """Whose tokens are taken."""

    name: str
    """Begins the names of its principals: `corp/ada`."""
    url: str
    """The claim `iss`, to the letter."""
    audience: str
    """Has to stand in the claim `aud`."""
    jwks_url: str
    algorithms: tuple[str, ...] = ALGORITHMS
    principal_claim: str = "sub"
    groups_claim: str = "groups"
    skew_s: int = 30

    def __post_init__(self) -> None:
        wrong = [one for one in self.algorithms if one not in _KEY_TYPES]
        if wrong or not self.algorithms:
            raise InvalidRequest(
                f"algorithm {(wrong or ['none'])[0]!r} is not taken",
                hint=f"one of {', '.join(_KEY_TYPES)}: those with a public key",
            )
        if not self.audience:
            raise InvalidRequest(
                "an issuer without an audience",
                hint="name the audience that tokens for this queue carry: tokens that the issuer "
                "makes for others would count otherwise",
            )


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a token says that is not verified yet: which issuer and which key it wants."""

    issuer: str
    algorithm: str
    key_id: str


@dataclass(frozen=True, slots=True)
class Verified:
    """Whom a token stands for, and how long."""

    principal: str
    groups: tuple[str, ...]
    until: float
    """Seconds since 1970, the allowed skew included."""


def is_token(text: str) -> bool:
    """Whether it has the form of a signed token."""
    return text.count(".") == 2


def claimed(text: str) -> Claimed:
    """Read, not verified. Raises `Unauthenticated`."""
    if len(text) > MOST_CHARS:
        raise _refused(f"a token of {len(text)} characters, at most {MOST_CHARS}")
    head, body, _ = text.split(".")
    header, claims = _json(head), _json(body)
    issuer = claims.get("iss")
    algorithm, key_id = header.get("alg"), header.get("kid", "")
    if not isinstance(issuer, str) or not isinstance(algorithm, str) or not isinstance(key_id, str):
        raise _refused("the token names no issuer or no algorithm")
    if "crit" in header:
        raise _refused("the token has critical extensions, of which none is known here")
    return Claimed(issuer, algorithm, key_id)


def _json(part: str) -> Mapping[str, Any]:
    try:
        found = orjson.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError):
        found = None
    if not isinstance(found, dict):
        raise _refused("the token cannot be read")
    return found


class PublicKeys:
    """The keys of an issuer that can be used, by their ids."""

    def __init__(self, keys: Iterable[Mapping[str, Any]]) -> None:
        self._keys: dict[str, list[RSAKey | ECKey | OKPKey]] = {}
        for given in keys:
            made = _public(given)
            if made is not None:
                self._keys.setdefault(str(given.get("kid", "")), []).append(made)

    @classmethod
    def read(cls, document: bytes) -> PublicKeys:
        """Of a JWKS document. Raises `ValueError`."""
        found = orjson.loads(document)
        if not isinstance(found, dict) or not isinstance(found.get("keys"), list):
            raise ValueError("this is not a JWKS document")  # noqa: TRY004 -- its content is wrong
        return cls(key for key in found["keys"] if isinstance(key, dict))

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key_id: str, algorithm: str) -> RSAKey | ECKey | OKPKey | None:
        """The key of that id, if it is of the algorithm's type; without an id the only key."""
        found = self._keys.get(key_id, [])
        if not key_id:
            found = [key for keys in self._keys.values() for key in keys]
            found = found if len(found) == 1 else []
        wanted = _KEY_TYPES.get(algorithm)
        return next((key for key in found if key.key_type == wanted), None)


def _public(given: Mapping[str, Any]) -> RSAKey | ECKey | OKPKey | None:
    """A key for signatures, without what is private of it; None for all others, secrets too."""
    make = _MAKE.get(str(given.get("kty")))
    if make is None or given.get("use", "sig") != "sig":
        return None
    if make is RSAKey and _bits(given.get("n")) < _LEAST_RSA_BITS:
        return None
    public = {name: given[name] for name in ("kty", "n", "e", "crv", "x", "y") if name in given}
    try:
        key: RSAKey | ECKey | OKPKey = make.import_key(public)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return key


def _bits(number: object) -> int:
    """Of a number in base64, rounded up: its digits have six bits each."""
    return 6 * len(str(number).rstrip("="))


def verified(text: str, issuer: Issuer, said: Claimed, keys: PublicKeys, now_s: float) -> Verified:
    """Check signature, issuer, audience and times. Raises `Unauthenticated`."""
    if said.algorithm not in issuer.algorithms:
        raise _refused(
            f"tokens signed with {said.algorithm[:20]!r} are not taken from {issuer.name}",
            f"{', '.join(issuer.algorithms)} are",
        )
    key = keys.find(said.key_id, said.algorithm)
    if key is None:
        raise _refused(f"{issuer.name} has no such key for {said.algorithm}", "get a new token")
    try:
        claims = jwt.decode(text, key, algorithms=list(issuer.algorithms)).claims
        jwt.JWTClaimsRegistry(
            now=int(now_s),
            leeway=issuer.skew_s,
            iss={"essential": True, "value": issuer.url},
            aud={"essential": True, "value": issuer.audience},
            exp={"essential": True},
        ).validate(claims)
    except ExpiredTokenError:
        raise _refused("the token has expired", "get a new one from the issuer") from None
    except ClaimError as e:
        raise _refused(
            f"the claim {e.claim!r} of the token does not fit: {e.description}"
        ) from None
    except Exception:  # noqa: BLE001 -- whatever a made-up token does in the library, it is refused
        raise _refused("the token is not signed by its issuer") from None
    principal = claims.get(issuer.principal_claim)
    if not isinstance(principal, str) or not principal or len(principal) > 249:
        raise _refused(f"the token has no name in {issuer.principal_claim!r}")
    if principal.startswith(_GROUPS):
        # It would have the rights of a group, whose name is built the same way.
        raise _refused(f"the name in {issuer.principal_claim!r} begins with {_GROUPS!r}")
    return Verified(
        f"{issuer.name}/{principal}",
        tuple(f"{issuer.name}/{_GROUPS}{group}" for group in _groups(claims, issuer)),
        float(claims["exp"]) + issuer.skew_s,
    )


def _groups(claims: Mapping[str, Any], issuer: Issuer) -> list[str]:
    given = claims.get(issuer.groups_claim, ())
    given = [given] if isinstance(given, str) else given
    if not isinstance(given, list | tuple):
        return []
    return [one for one in given if isinstance(one, str)][:MOST_GROUPS]


def _refused(
    detail: str, hint: str = "send a token that its issuer made for this queue"
) -> Unauthenticated:
    return Unauthenticated(detail, hint=hint, stored="no")
