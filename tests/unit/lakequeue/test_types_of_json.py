"""What JSON says is taken as it is: a number is no text, and no truth value."""

from __future__ import annotations

from typing import Any

import pytest

from lakequeue import wire
from lakequeue.errors import InvalidRequest
from lakequeue.wire.parsing import Shape, valid


@pytest.mark.parametrize(
    ("shape", "given"),
    [
        (wire.AckRequest, {"commit_through": 0}),
        (wire.AckRequest, {"commit_through": "true"}),
        (wire.AckRequest, {"extend": [{"receipt": "r", "visibility_timeout_ms": True}]}),
        (wire.PurgeRequest, {"here": 1.0}),
        (wire.ReceiveRequest, {"max": "5"}),
        (wire.ReceiveRequest, {"wait_ms": False}),
        (wire.QueueGroupRequest, {"backoff_jitter_percent": False}),
        (wire.RedriveRequest, {"end_offsets": [1, "2"]}),
        (wire.PauseRequest, {"topic": "t", "partitions": [True]}),
    ],
)
def test_another_type_is_refused(shape: type[Shape], given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="Input should be"):
        valid(shape, given)


def test_the_same_type_is_taken() -> None:
    assert valid(wire.AckRequest, {"acks": ["r"], "commit_through": True}).commit_through
    assert valid(wire.ReceiveRequest, {"max": 5.0, "visibility_timeout_ms": None}).max == 5
    assert valid(wire.RedriveRequest, {"since": "2013-01-31T07:00:00Z", "end_offsets": [1]}).since


def test_a_query_is_all_text() -> None:
    assert valid(wire.PollQuery, {"max": "5"}, texts=True).max == 5
    assert valid(wire.StatusQuery, {"sent_on": "true"}, texts=True).sent_on
