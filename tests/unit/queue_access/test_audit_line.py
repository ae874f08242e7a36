"""What the audit keeps of a request: never a secret, and not more than fits."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_access.audit_line import MOST_CHARS, Line, Nowhere, kept, without_secrets

SECRET = "whsec_do-not-show"
names = st.sampled_from(["secret", "Secret", "authorization", "password", "token", "API_KEY"])


@given(names, st.recursive(st.none(), lambda inside: st.lists(inside, max_size=3), max_leaves=5))
def test_no_secret_is_kept_however_deep_it_stands(name: str, beside: object) -> None:
    said = {"options": [{"beside": beside}, {name: SECRET, "topics": ["orders"]}]}
    text = kept(orjson.dumps(said))
    assert text is not None
    assert SECRET not in text
    assert "orders" in text


def test_a_secret_that_is_not_given_is_told_from_one_that_is() -> None:
    assert without_secrets({"secret": None}) == {"secret": None}
    assert without_secrets({"secret": ""}) == {"secret": "(not shown)"}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ada:pw@example.com/hook?token=x", "https://example.com/…"),
        ("http://[::1", "(not shown)"),
        (7, 7),
    ],
)
def test_of_a_url_only_where_it_leads_is_kept(url: object, shown: object) -> None:
    assert without_secrets({"url": url}) == {"url": shown}


def test_which_headers_choose_dead_letters_is_kept_and_what_producers_wrote_is_not() -> None:
    said = {"headers": {"lakequeue-reason": "max_attempts", "customer": "alice"}, "to": "orders"}
    assert without_secrets(said) == {
        "headers": {"lakequeue-reason": "max_attempts", "customer": "(not shown)"},
        "to": "orders",
    }


@pytest.mark.parametrize("body", [b"", b"  \n", b"not JSON", b"\xff"])
def test_nothing_is_kept_of_a_body_that_says_nothing(body: bytes) -> None:
    assert kept(body) is None


def test_a_long_body_is_cut() -> None:
    text = kept(orjson.dumps(["x" * 2 * MOST_CHARS]))
    assert text is not None
    assert (len(text), text[-1]) == (MOST_CHARS + 1, "…")


def test_a_sink_without_a_table_takes_lines() -> None:
    line = Line("ada", "PUT /v1/topics/{topic}", "allowed")
    Nowhere().changed(line)
    Nowhere().refused(line)


@pytest.mark.parametrize("depth", [100, 500, 1_000])
def test_a_deep_body_is_kept_as_far_as_anybody_would_read_it(depth: int) -> None:
    said = kept(
        b'{"partitions":7,"value_schema":' + b'{"not":[' * depth + b"1" + b"]}" * depth + b"}"
    )
    if said is None:
        # JSON that no service takes either.
        assert depth == 1_000
    else:
        assert said.startswith('{"partitions":7')
        assert "…" in said
