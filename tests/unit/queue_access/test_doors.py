"""One decision for each request: who, and whether they may."""

from __future__ import annotations

from dataclasses import replace

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from lakequeue.errors import Forbidden, IssuerUnavailable, LakequeueError, Unauthenticated
from queue_access.calls import CALLS, CallRight, Calls, Service
from queue_access.doors import ANYBODY, Certificate, Doors, forbidden, owns_producer
from queue_access.issuer_keys import IssuerKeys
from queue_access.keys import new_key
from queue_access.registry import (
    LOCKED,
    Entry,
    Registry,
    described,
    entry_of_grant,
    entry_of_issuer,
    entry_of_key,
    newest,
)
from queue_access.rights import Grant, Kind, Right, checked_grant
from queue_access.tokens import Issuer, PublicKeys

NOW_S = 1_000.0
ON = Entry(LOCKED, LOCKED)
NAMES = {"topic": "orders", "group": "billing", "producer_id": "till", "member": "m"}
EVERY_CELL = [
    pytest.param(service, call, right, id=f"{service} {call.method} {call.path} {right}")
    for service, calls in CALLS.items()
    for call in calls
    for right in (None, *Right)
]


def path_of(call: CallRight) -> str:
    path = call.path
    for name, value in NAMES.items():
        path = path.replace(f"{{{name}}}", value)
    return path.replace("{partition}", "0").replace("{offset}", "0")


def doors(service: Service, *grants: Grant, now_s: float = NOW_S) -> tuple[Doors, str]:
    text, key = new_key("ada")
    found = Doors(Calls(CALLS[service]), lambda: now_s)
    entries = [ON, entry_of_key(key), *(entry_of_grant("ada", grant) for grant in grants)]
    found.registry = Registry(entries)
    return found, f"Bearer {text}"


@pytest.mark.parametrize(("service", "call", "right"), EVERY_CELL)
def test_each_call_is_open_to_exactly_the_rights_that_the_table_names(
    service: Service, call: CallRight, right: Right | None
) -> None:
    name = (
        NAMES["producer_id" if call.kind is Kind.PRODUCER else str(call.kind)]
        if call.name_at
        else "*"
    )
    grants = [] if right is None else [checked_grant(right, call.kind, name)]
    here, key = doors(service, *grants)
    allowed = (
        call.needs in (None, "known")
        or right is Right.ADMIN
        or (call.needs == "any" and right is not None)
        or call.needs == right
    )
    if allowed:
        here.admit(call.method, path_of(call), key)
    else:
        with pytest.raises(Forbidden) as refused:
            here.admit(call.method, path_of(call), key)
        assert "lakequeue auth grant ada" in refused.value.hint
    elsewhere, key = doors(service, *(replace(g, pattern="elsewhere") for g in grants))
    if call.name_at and isinstance(call.needs, Right) and right is not Right.ADMIN:
        with pytest.raises(Forbidden):
            elsewhere.admit(call.method, path_of(call), key)


@pytest.mark.parametrize("service", CALLS)
def test_without_credentials_nothing_but_liveness_and_readiness_answers(service: Service) -> None:
    here, key = doors(service)
    wrong = ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer lq_a_b", key[:-1], f"{key}x", key[7:]]
    for call in CALLS[service]:
        for authorization in wrong:
            if call.path in {"/healthz", "/readyz"}:
                here.admit(call.method, path_of(call), authorization)
                continue
            with pytest.raises(Unauthenticated):
                here.admit(call.method, path_of(call), authorization)
    assert {c.path for c in CALLS[service] if c.needs is None} == {"/healthz", "/readyz"}


@pytest.mark.parametrize("service", CALLS)
def test_while_authentication_is_off_everybody_may_do_everything(service: Service) -> None:
    here = Doors(Calls(CALLS[service]), lambda: NOW_S)
    for call in CALLS[service]:
        assert here.admit(call.method, path_of(call), "")[0] is ANYBODY


def test_a_call_that_is_not_in_the_table_is_refused() -> None:
    here, key = doors("ingest", checked_grant("admin", "queue", "*"))
    for method, path in [
        ("POST", "/v1/topics"),
        ("GET", "/v2/topics"),
        ("GET", "//v1/topics"),
        ("GET", "/v1//topics"),
        ("GET", "/v1/topics/a/b/c"),
        ("OPTIONS", "/v1/topics/orders"),
        ("GET", "/"),
        ("TRACE", "/metrics"),
    ]:
        with pytest.raises(Unauthenticated):
            here.admit(method, path, "")
        with pytest.raises(Forbidden, match="no call"):
            here.admit(method, path, key)


def test_a_slash_at_the_end_and_head_are_the_same_call() -> None:
    here, key = doors("ingest")
    for method, path in (("DELETE", "/v1/topics/orders/"), ("HEAD", "/metrics")):
        with pytest.raises(Forbidden):
            here.admit(method, path, key)


def test_an_expired_key_and_one_of_two_that_was_revoked_are_refused() -> None:
    old, old_key = new_key("ada")
    new, new_key_ = new_key("ada", expires_at=int(NOW_S * 1e6) + 1)
    here = Doors(Calls(CALLS["ingest"]), lambda: NOW_S)
    both = [ON, entry_of_key(old_key), entry_of_key(new_key_)]
    here.registry = Registry(both)
    for text in (old, new):
        assert here.caller(f"Bearer {text}").principal == "ada"
    here.registry = Registry([ON, replace(both[1], deleted=True), both[2]])
    with pytest.raises(Unauthenticated, match="not known"):
        here.caller(f"Bearer {old}")
    assert here.caller(f"bearer {new}").principal == "ada"
    late = Doors(Calls(CALLS["ingest"]), lambda: NOW_S + 1)
    late.registry = here.registry
    with pytest.raises(Unauthenticated, match="expired"):
        late.caller(f"Bearer {new}")


def test_a_client_certificate_is_a_name_of_its_own() -> None:
    here = Doors(Calls(CALLS["ingest"]), lambda: NOW_S)
    grant = checked_grant("read", "queue", "*")
    here.registry = Registry([ON, entry_of_grant("cert/prometheus", grant)])
    shown = Certificate("prometheus")
    assert here.admit("GET", "/metrics", "", shown)[0].principal == "cert/prometheus"
    with pytest.raises(Forbidden):
        here.admit("GET", "/metrics", "", Certificate("somebody"))
    # Whoever shows a wrong key is not let in by the certificate instead.
    with pytest.raises(Unauthenticated):
        here.admit("GET", "/metrics", "Bearer lq_a_b", shown)


def test_a_client_certificate_expires_though_its_connection_stays() -> None:
    now = [NOW_S]
    here = Doors(Calls(CALLS["ingest"]), lambda: now[0])
    grant = checked_grant("read", "queue", "*")
    here.registry = Registry([ON, entry_of_grant("cert/prometheus", grant)])
    shown = Certificate("prometheus", NOW_S + 1)
    caller, call, name = here.admit("GET", "/metrics", "", shown)
    now[0] += 1
    with pytest.raises(Unauthenticated, match="expired"):
        here.admit("GET", "/metrics", "", shown)
    assert isinstance(here.still(caller, call, name), Unauthenticated)


def test_the_command_that_a_refusal_advises_runs_nothing_else() -> None:
    refused = forbidden("corp/a; reboot", Right.READ, Kind.TOPIC, "$(reboot)")
    assert refused.hint == "lakequeue auth grant 'corp/a; reboot' read --topic '$(reboot)'"
    plain = forbidden("ada", Right.READ, Kind.TOPIC, "orders-eu")
    assert plain.hint == "lakequeue auth grant ada read --topic orders-eu"


def test_a_refusal_repeats_nothing_of_what_was_shown() -> None:
    here, key = doors("ingest")
    text = key.removeprefix("Bearer ")
    for shown in (text, f"Bearer\t{text}", f"Token {text}", f"Bearer {text}x"):
        with pytest.raises(Unauthenticated) as refused:
            here.caller(shown)
        assert text[:17] not in f"{refused.value} {refused.value.to_problem()}", shown


# -- tokens ---------------------------------------------------------------------------------------

ISSUER = Issuer("corp", "https://id.example.org/", "lakequeue", "https://id.example.org/jwks")
SIGNER = RSAKey.generate_key(2048, {"kid": "one"}, private=True)
TOKEN = jwt.encode(
    {"alg": "RS256", "kid": "one"},
    {"iss": ISSUER.url, "aud": "lakequeue", "sub": "ada", "exp": int(NOW_S) + 600},
    SIGNER,
)


def with_issuer() -> tuple[Doors, list[Entry]]:
    grant = entry_of_grant("corp/ada", checked_grant("consume", "group", "billing"))
    here = Doors(Calls(CALLS["consumer"]), lambda: NOW_S)
    here.registry = Registry([ON, grant, entry_of_issuer(ISSUER)])
    keys = here.issuer_keys[ISSUER.jwks_url] = IssuerKeys()
    keys.came(PublicKeys([SIGNER.as_dict(private=False)]), NOW_S)
    return here, [ON, grant]


def test_a_poll_ends_when_the_issuer_of_its_token_is_removed() -> None:
    here, others = with_issuer()
    caller, call, name = here.admit(
        "GET", "/v1/groups/billing/members/m/records", f"Bearer {TOKEN}"
    )
    assert here.still(caller, call, name) is None
    assert TOKEN not in repr(caller)
    here.registry = Registry(others)
    assert isinstance(here.still(caller, call, name), Unauthenticated)


def test_keys_of_the_address_that_an_issuer_had_before_count_no_more() -> None:
    here, others = with_issuer()
    assert here.caller(f"Bearer {TOKEN}").principal == "corp/ada"
    moved = replace(ISSUER, jwks_url="https://id.example.org/after-the-break-in")
    here.registry = Registry([*others, entry_of_issuer(moved)])
    with pytest.raises(IssuerUnavailable):
        here.caller(f"Bearer {TOKEN}")


def why_not(
    here: Doors, key: str, changed: Registry, now_s: float = NOW_S
) -> LakequeueError | None:
    caller, call, name = here.admit("GET", "/v1/groups/billing/members/m/records", key)
    here.registry = changed
    return here.still(caller, call, name)


def test_a_poll_ends_when_its_key_or_its_right_is_gone() -> None:
    grant = checked_grant("consume", "group", "billing")
    here, key = doors("consumer", grant)
    known = next(iter(here.registry.keys.values()))
    given = entry_of_grant("ada", grant)
    same = Registry([ON, entry_of_key(known), given])
    assert why_not(here, key, same) is None
    assert isinstance(why_not(here, key, Registry([ON, given])), Unauthenticated)
    here.registry = same
    assert isinstance(why_not(here, key, Registry([ON, entry_of_key(known)])), Forbidden)


def test_a_poll_ends_when_a_right_over_one_of_its_topics_is_gone() -> None:
    grants = [checked_grant("consume", *over) for over in (("group", "billing"), ("topic", "mail"))]
    here, key = doors("consumer", *grants)
    known = entry_of_key(next(iter(here.registry.keys.values())))
    also = [(Right.CONSUME, Kind.TOPIC, "mail")]
    caller, call, name = here.admit("GET", "/v1/groups/billing/members/m/records", key)
    caller.must(*also[0])
    assert here.still(caller, call, name, also) is None
    here.registry = Registry([ON, known, *(entry_of_grant("ada", one) for one in grants)])
    assert here.still(caller, call, name, also) is None, "other rights that allow the same"
    here.registry = Registry([ON, known, entry_of_grant("ada", grants[0])])
    assert isinstance(here.still(caller, call, name, also), Forbidden)


def test_a_poll_of_nobody_ends_when_authentication_is_switched_on() -> None:
    here = Doors(Calls(CALLS["consumer"]), lambda: NOW_S)
    assert isinstance(why_not(here, "", Registry([ON])), Unauthenticated)


def test_a_principal_owns_the_producers_that_begin_with_its_name() -> None:
    assert owns_producer("ada", "ada")
    assert owns_producer("ada", "ada.till-7")
    assert not owns_producer("ada", "adam")
    assert not owns_producer("ada", "ada-2.till")
    path = "/v1/producers/ada.till/epochs"
    here, key = doors("ingest", checked_grant("produce", "topic", "orders"))
    assert here.admit("POST", path, key)[0].principal == "ada"
    here, key = doors("ingest", checked_grant("read", "topic", "orders"))
    with pytest.raises(Forbidden):
        here.admit("POST", path, key)


def test_the_highest_version_of_an_entry_counts_and_hashes_are_not_shown() -> None:
    _, key = new_key("ada")
    first = entry_of_key(key)
    revoked = replace(first, version=1, deleted=True)
    assert [*newest([revoked, first]).values()] == [revoked]
    assert Registry([revoked]).keys == {}
    assert key.secret_hash not in repr(described(first))


def test_ten_thousand_keys_cost_no_more_than_one() -> None:
    here, key = doors("ingest", checked_grant("produce", "topic", "orders"))
    many = [entry_of_key(new_key(f"p{n}")[1]) for n in range(10_000)]
    more = Registry([*many, ON])
    looked = [len(more.keys), more.keys.get("nobody")]
    assert looked == [10_000, None]  # found by its id, none is tried
    assert here.admit("POST", "/v1/topics/orders/records", key)[0].principal == "ada"
