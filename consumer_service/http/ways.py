"""What each kind of call may use of a consumer-service node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from lakequeue.settings import Settings
from serving.front.call import Call
from serving.front.limits.shares import Kind
from serving.front.messages import json_of
from serving.front.routes import Way

MAX_BODY_BYTES = 4 << 20
_STATE_S = 2.0
_MOST_ACKS = 4_096
"""Acks that wait for the journal."""
_NO_BODY = 64 << 10
"""A call without a body: one that comes nevertheless is skipped."""
_GROUP = r"/v1/groups/[^/]+"
_MEMBER = rf"{_GROUP}/members/[^/]+"


class Plain(Protocol):
    """Answers plain calls in the event loop."""

    def poll(self, call: Call) -> None:
        """Of a member."""

    def work(self, call: Call) -> None:
        """Acks of a member, and its next poll."""

    def acks(self, call: Call) -> None:
        """By a member, or by receipts alone."""


def ways_of(settings: Settings, alive: Callable[[], dict[str, str]], plain: Plain) -> Sequence[Way]:
    """Health first, then the calls of each kind; `alive` is the answer of `/healthz`."""
    most = settings.consumer.threads
    # One that hangs stops neither of the others.
    state = Kind("state", 1, 64)
    unread = settings.front.max_unread_bytes
    poll = Kind("poll", max(2, most // 4), 4_096, settings.front.max_parked, unread)
    ack = Kind("ack", max(4, most // 2), 1_024, _MOST_ACKS)
    member = Kind("member", max(4, most // 8), 1_024)
    browse = Kind("browse", 2, 32, answer_bytes=unread // 4)
    admin = Kind("admin", max(4, most // 8), 64, answer_bytes=unread // 4)

    def healthz(call: Call) -> None:
        call.done(json_of(alive()))

    return [
        Way("GET", "/healthz/?", state, _NO_BODY, healthz),
        Way("GET", "/readyz/?", Kind("ready", 4, 64), _NO_BODY, within_s=_STATE_S),
        Way("GET", "/metrics/?", Kind("metrics", 4, 64), _NO_BODY, within_s=_STATE_S),
        Way("GET", rf"{_MEMBER}/records/?", poll, _NO_BODY, plain.poll),
        Way("POST", rf"{_MEMBER}/records/?", poll, MAX_BODY_BYTES, plain.work),
        Way("GET", rf"{_MEMBER}/events/?", poll, _NO_BODY),
        Way("POST", rf"{_GROUP}/receive/?", poll, MAX_BODY_BYTES),
        Way("POST", rf"({_MEMBER}|{_GROUP})/acks/?", ack, MAX_BODY_BYTES, plain.acks),
        Way("", rf"{_GROUP}/members(/.*)?", member, MAX_BODY_BYTES),
        Way("GET", "/v1/topics/.*", browse, _NO_BODY),
        Way("", ".*", admin, MAX_BODY_BYTES),
    ]
