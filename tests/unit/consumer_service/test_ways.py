"""What each kind of call may use of a consumer-service node."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from consumer_service.http.ways import ways_of
from lakequeue.settings import Settings


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/groups/g/members/m/records"),
        ("POST", "/v1/groups/g/members/m/records"),
        ("GET", "/v1/groups/g/members/m/events"),
        ("POST", "/v1/groups/g/receive"),
        ("POST", "/v1/groups/g/acks"),
        ("POST", "/v1/groups/g/members/m/acks"),
    ],
)
def test_calls_that_wait_have_places_for_it_and_no_more(method: str, path: str) -> None:
    plain = SimpleNamespace(poll=lambda _: None, work=lambda _: None, acks=lambda _: None)
    ways = ways_of(Settings(), dict, plain)
    kind = next(
        way.kind for way in ways if way.method in ("", method) and re.fullmatch(way.path, path)
    )
    assert kind.parked > 0, "0: nothing bounds them"
