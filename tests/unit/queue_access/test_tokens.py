"""Tokens of an issuer: every way in which one can be wrong."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from lakequeue.errors import InvalidRequest, IssuerUnavailable, Unauthenticated
from queue_access.issuer_keys import FRESH_S, LOOK_EVERY_S, STALE_S, IssuerKeys, Look
from queue_access.tokens import (
    MOST_CHARS,
    Issuer,
    PublicKeys,
    Verified,
    claimed,
    is_token,
    verified,
)

NOW = 1_700_000_000.0
ISSUER = Issuer("corp", "https://id.example.org/", "lakequeue", "https://id.example.org/jwks")
RSA = RSAKey.generate_key(2048, {"kid": "rsa-1"}, private=True)
EC = ECKey.generate_key("P-256", {"kid": "ec-1"}, private=True)
KEYS = PublicKeys.read(
    json.dumps({"keys": [RSA.as_dict(private=False), EC.as_dict(private=False)]}).encode()
)


def claims(**other: Any) -> dict[str, Any]:
    usual = {"iss": ISSUER.url, "aud": "lakequeue", "sub": "ada", "exp": int(NOW) + 600}
    return {k: v for k, v in (usual | other).items() if v is not None}


def token(key: Any = RSA, alg: str = "RS256", kid: str = "rsa-1", **other: Any) -> str:
    return jwt.encode({"alg": alg, "kid": kid}, claims(**other), key, algorithms=[alg])


def check(text: str, keys: PublicKeys = KEYS) -> Verified:
    return verified(text, ISSUER, claimed(text), keys, NOW)


def test_a_good_token_says_who_and_how_long() -> None:
    found = check(token(groups=["analysts"]))
    assert found.principal == "corp/ada"
    assert found.groups == ("corp/groups/analysts",)
    assert found.until == int(NOW) + 600 + ISSUER.skew_s
    assert check(token(EC, "ES256", "ec-1")).principal == "corp/ada"
    assert check(token(aud=["other", "lakequeue"])).principal == "corp/ada"
    assert is_token(token())


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"exp": int(NOW) - 31}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": "tomorrow"}, "exp"),
        ({"nbf": int(NOW) + 31}, "nbf"),
        ({"iat": int(NOW) + 31}, "iat"),
        ({"aud": "billing"}, "aud"),
        ({"aud": None}, "aud"),
        ({"iss": "https://id.example.com/"}, "iss"),
        ({"sub": None}, "name"),
        ({"sub": ""}, "name"),
        ({"sub": 7}, "sub"),
    ],
)
def test_a_claim_that_does_not_fit_is_refused(other: dict[str, Any], said: str) -> None:
    with pytest.raises(Unauthenticated, match=said):
        check(token(**other))


def test_clocks_may_differ_by_the_skew() -> None:
    assert check(token(exp=int(NOW) - 29)).principal
    assert check(token(nbf=int(NOW) + 29)).principal


def _part(said: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")


def test_no_algorithm_is_none() -> None:
    for alg in ("none", "None", "NONE", ""):
        text = f"{_part({'alg': alg, 'kid': 'rsa-1'})}.{_part(claims())}."
        with pytest.raises(Unauthenticated):
            check(text)


def test_a_public_key_is_no_secret_of_an_hmac() -> None:
    signed = f"{_part({'alg': 'HS256', 'kid': 'rsa-1'})}.{_part(claims())}"
    for material in (RSA.as_pem(private=False), RSA.as_der(private=False)):
        mac = hmac.digest(material, signed.encode(), "sha256")
        signature = base64.urlsafe_b64encode(mac).decode().rstrip("=")
        with pytest.raises(Unauthenticated, match="not taken"):
            check(f"{signed}.{signature}")


def test_a_secret_in_a_key_set_is_skipped() -> None:
    secret = OctKey.generate_key(256, {"kid": "rsa-1"}, private=True)
    keys = PublicKeys([secret.as_dict(private=True)])
    assert len(keys) == 0
    with pytest.raises(InvalidRequest, match="HS256"):
        Issuer("corp", "i", "a", "u", algorithms=("HS256",))
    with pytest.raises(InvalidRequest, match="none"):
        Issuer("corp", "i", "a", "u", algorithms=())


def test_a_key_for_encryption_and_a_short_one_are_skipped() -> None:
    assert len(PublicKeys([RSA.as_dict(private=False) | {"use": "enc"}])) == 0
    modulus = base64.urlsafe_b64encode((1 << 1_023 | 1).to_bytes(128, "big")).decode()
    assert len(PublicKeys([{"kty": "RSA", "n": modulus.rstrip("="), "e": "AQAB"}])) == 0


def test_a_key_of_another_type_does_not_verify() -> None:
    with pytest.raises(Unauthenticated, match="no such key"):
        check(token(EC, "ES256", "rsa-1"))


def test_another_signer_and_a_changed_body_are_refused() -> None:
    other = RSAKey.generate_key(2048, {"kid": "rsa-1"}, private=True)
    with pytest.raises(Unauthenticated, match="not signed"):
        check(token(other))
    head, _, signature = token().split(".")
    with pytest.raises(Unauthenticated, match="not signed"):
        check(f"{head}.{_part(claims(sub='root'))}.{signature}")


@pytest.mark.parametrize("text", ["..", "a.b.c", "e30.e30.e30", "é.é.é", f"{'a' * MOST_CHARS}.b.c"])
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(Unauthenticated):
        check(text)


@pytest.mark.parametrize("crit", [["b64"], [], None, 7])
def test_critical_extensions_are_refused(crit: object) -> None:
    text = f"{_part({'alg': 'RS256', 'kid': 'rsa-1', 'crit': crit})}.{_part(claims())}.AA"
    with pytest.raises(Unauthenticated, match="critical"):
        check(text)


@pytest.mark.parametrize(
    "header",
    [
        {"b64": False},
        {"b64": None},
        {"zip": "DEF"},
        {"enc": "A256GCM"},
        {"typ": 7},
        {"jwk": [], "jku": 7, "x5u": {}, "x5c": None},
        {"x": [[[]]] * 300},
    ],
)
def test_a_made_up_token_with_an_odd_header_is_refused(header: dict[str, object]) -> None:
    text = f"{_part({'alg': 'RS256', 'kid': 'rsa-1'} | header)}.{_part(claims())}.AA"
    with pytest.raises(Unauthenticated):
        check(text)


def test_nobody_has_the_name_of_a_group() -> None:
    with pytest.raises(Unauthenticated, match="groups/"):
        check(token(sub="groups/analysts"))
    assert check(token(sub="groups")).principal == "corp/groups"


def test_an_issuer_needs_an_audience() -> None:
    with pytest.raises(InvalidRequest, match="audience"):
        Issuer("corp", "i", "", "u")


# -- the keys of an issuer ------------------------------------------------------------------------


def test_keys_are_fetched_once_and_anew_when_they_are_old() -> None:
    known = IssuerKeys()
    with pytest.raises(IssuerUnavailable):
        known.use("rsa-1", "RS256", NOW)
    assert known.look(NOW) is Look.FETCH
    assert known.look(NOW) is Look.NOT_NOW
    known.came(KEYS, NOW)
    assert known.use("rsa-1", "RS256", NOW) is KEYS
    assert known.look(NOW + FRESH_S) is Look.NOT_NOW
    assert known.look(NOW + FRESH_S + 1) is Look.FETCH


def test_an_issuer_that_is_down_leaves_its_keys_for_a_day() -> None:
    known = IssuerKeys()
    known.came(KEYS, NOW)
    known.failed("it does not answer")
    assert known.use("rsa-1", "RS256", NOW + STALE_S) is KEYS
    with pytest.raises(IssuerUnavailable, match="does not answer"):
        known.use("rsa-1", "RS256", NOW + STALE_S + 1)


def test_an_issuer_that_rolls_its_keys_is_asked_before_a_token_is_refused() -> None:
    known = IssuerKeys()
    known.came(KEYS, NOW)
    later = NOW + LOOK_EVERY_S + 1
    with pytest.raises(IssuerUnavailable):
        known.use("rsa-2", "RS256", later)
    assert known.use("rsa-1", "RS256", later) is KEYS  # the others go on
    assert known.look(later) is Look.FETCH
    new = PublicKeys([RSA.as_dict(private=False) | {"kid": "rsa-2"}])
    known.came(new, later)
    assert known.use("rsa-2", "RS256", later) is new


def test_a_key_that_the_issuer_has_not_is_asked_for_seldom() -> None:
    known = IssuerKeys()
    known.came(KEYS, NOW)
    looks = 0
    for tenth in range(1_000):
        now = NOW + tenth / 10
        try:
            assert known.use("made-up", "RS256", now).find("made-up", "RS256") is None
        except IssuerUnavailable:
            if known.look(now) is Look.FETCH:
                looks += 1
                known.came(KEYS, now)
    assert looks <= 100 / LOOK_EVERY_S


def test_a_document_without_keys_replaces_none() -> None:
    known = IssuerKeys()
    known.came(KEYS, NOW)
    known.came(PublicKeys([]), NOW + 1)
    assert known.use("rsa-1", "RS256", NOW + 1) is KEYS
    for document in (b"[]", b"{}", b"{", b'{"keys": 1}'):
        with pytest.raises(ValueError):
            PublicKeys.read(document)
