"""Which polls the event loop answers by itself."""

from __future__ import annotations

import pytest

from consumer_service.http.native import _query_of


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
