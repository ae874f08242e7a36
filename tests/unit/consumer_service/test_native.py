"""Which polls the event loop answers by itself."""

from __future__ import annotations

import pytest

from consumer_service.http.native import _query_of, _said


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("", {}),
        ("max=10", {"max": "10"}),
        ("wait_ms=2000&after=0&max=7", {"wait_ms": "2000", "after": "0", "max": "7"}),
    ],
)
def test_a_plain_query_is_read(text: str, given: dict[str, str]) -> None:
    assert _query_of(text) == given


@pytest.mark.parametrize(
    "text",
    [
        "max=1&max=2",
        "max=-1",
        "max=",
        "max=%31",
        "most=1",
        "max=1&",
        "&max=1",
        "max=1;after=2",
        "x",
    ],
)
def test_any_other_is_for_the_application(text: str) -> None:
    assert _query_of(text) is None


def test_what_a_client_takes_may_stand_in_several_headers() -> None:
    json, events = b"application/json", b"application/cloudevents-batch+json"
    assert _said([(b"host", b"x")], b"accept") is None
    headers = [(b"accept", json), (b"host", b"x"), (b"accept", events)]
    assert _said(headers, b"accept") == "application/json,application/cloudevents-batch+json"
