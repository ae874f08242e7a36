"""Names and ages as people write them on the command line."""

from __future__ import annotations

import pytest

from lakequeue.errors import InvalidName, InvalidRequest
from queue_access.asked import age_s, checked_jwks_url, checked_principal, checked_subject

RESERVED = ["everybody", "nodes-of-this-queue", "cert"]
SUBJECTS = ["corp/ada", "corp/groups/analysts", "cert/prometheus", "*"]


@pytest.mark.parametrize("name", ["till", "till-7", "A_b", "x" * 100])
def test_a_principal_has_a_plain_name(name: str) -> None:
    assert checked_principal(name) == name
    assert checked_subject(name) == name


@pytest.mark.parametrize("name", ["", "a.b", "a b", "ä", "x" * 101, "a\n", *SUBJECTS, *RESERVED])
def test_another_name_is_no_principal(name: str) -> None:
    with pytest.raises(InvalidName):
        checked_principal(name)


@pytest.mark.parametrize("name", SUBJECTS)
def test_grants_are_also_for_principals_of_others_their_groups_and_everybody(name: str) -> None:
    assert checked_subject(name) == name


@pytest.mark.parametrize("name", ["", "/ada", "corp/", "corp/ ada", "corp/a\x00", "**", *RESERVED])
def test_other_names_are_nobody(name: str) -> None:
    with pytest.raises(InvalidName):
        checked_subject(name)


@pytest.mark.parametrize("url", ["https://id.example.org/jwks", "http://127.0.0.1:8090/jwks"])
def test_keys_of_an_issuer_come_by_https_or_from_this_machine(url: str) -> None:
    assert checked_jwks_url(url) == url


@pytest.mark.parametrize(
    "url",
    ["http://id.example.org/jwks", "http://127.0.0.1.example.org/", "file:///jwks", "https://", ""],
)
def test_keys_that_others_could_change_on_the_way_are_not_taken(url: str) -> None:
    with pytest.raises(InvalidRequest, match="fetched by https"):
        checked_jwks_url(url)


@pytest.mark.parametrize(("text", "seconds"), [("30m", 1_800), ("12h", 43_200), ("90d", 7_776_000)])
def test_an_age_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert age_s(text) == seconds


@pytest.mark.parametrize("text", ["", "0d", "90", "d", "-1d", "1w", "1.5h", "1234567d", "90d "])
def test_anything_else_is_no_age(text: str) -> None:
    with pytest.raises(InvalidRequest):
        age_s(text)
