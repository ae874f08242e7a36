"""Which dead records a redrive takes."""

from __future__ import annotations

import pytest

from lakequeue.client.redrive import Wanted

HEADERS = [("lakequeue.dead.reason", b"expired"), ("a", b"1"), ("a", b"2"), ("n", None)]


@pytest.mark.parametrize(
    ("wanted", "takes"),
    [
        (Wanted(), True),
        (Wanted({"lakequeue.dead.reason": "expired"}), True),
        (Wanted({"a": "1"}), True),
        (Wanted({"a": "2", "lakequeue.dead.reason": "expired"}), True),
        (Wanted({"a": "3"}), False),
        (Wanted({"n": ""}), False),
        (Wanted({"other": "1"}), False),
        (Wanted(since=100), True),
        (Wanted(since=101), False),
        (Wanted(until=101), True),
        (Wanted(until=100), False),
        (Wanted({"a": "1"}, since=100, until=101), True),
    ],
)
def test_headers_and_time_choose(wanted: Wanted, takes: bool) -> None:
    assert wanted.takes(HEADERS, 100) is takes
