"""What a gate counts of sends, reads and acks, each apart."""

from __future__ import annotations

import pytest

from lakequeue.errors import OverQuota
from lakequeue.settings import AccessSettings
from queue_access.keys import new_key
from queue_access.quotas import Quota
from queue_access.registry import (
    LOCKED,
    Entry,
    Registry,
    entry_of_grant,
    entry_of_key,
    entry_of_quota,
)
from queue_access.rights import checked_grant
from serving.doors.gate import ServiceGate
from serving.front.messages import Request, Seat

MEMBER = "/v1/groups/g/members/m"


class Doors:
    """A gate of the consumer service whose clock stands, and one principal who may have 100 B/s."""

    def __init__(self) -> None:
        self.gate = ServiceGate("consumer", AccessSettings(), [], wall_s=lambda: 0.0)
        text, key = new_key("ada")
        grants = [checked_grant("consume", "group", "g"), checked_grant("read", "topic", "t")]
        entries = [entry_of_grant("ada", one) for one in grants]
        quota = entry_of_quota("ada", Quota(bytes_per_s=100))
        self.gate.replace(Registry([Entry(LOCKED, LOCKED), entry_of_key(key), quota, *entries]))
        self._shown = f"Bearer {text}".encode()
        self._seat = Seat()

    def call(self, method: str, path: str, body: int = 0) -> Request:
        """A request that is let in, with so many bytes. Raises `OverQuota`."""
        heads = [
            (b"host", b"127.0.0.1"),
            (b"authorization", self._shown),
            (b"content-type", b"application/json"),
            (b"content-length", str(body).encode()),
        ]
        request = Request(method, path.encode(), path, "", heads, "127.0.0.1", seat=self._seat)
        self.gate.admit(request)
        request.body = b"x" * body
        self.gate.begins(request)
        return request


def test_who_has_read_too_much_reads_no_more_and_does_everything_else() -> None:
    doors = Doors()
    poll = doors.call("GET", f"{MEMBER}/records")
    doors.gate.reads(poll, 1_000)
    assert doors.gate.owes_s(poll) == pytest.approx(9.0)
    for path in (f"{MEMBER}/records", f"{MEMBER}/events", "/v1/topics/t/records"):
        with pytest.raises(OverQuota) as refused:
            doors.call("GET", path)
        assert refused.value.retry_after_s == pytest.approx(9.0)
    for method, path, body in (
        ("POST", f"{MEMBER}/acks", 50),
        ("POST", f"{MEMBER}/heartbeat", 0),
        ("GET", "/v1/groups/g", 0),
        ("DELETE", MEMBER, 0),
    ):
        doors.call(method, path, body)


def test_acks_are_held_up_by_acks_alone_and_heartbeats_by_nothing() -> None:
    doors = Doors()
    doors.call("POST", f"{MEMBER}/acks", 1_000)
    with pytest.raises(OverQuota, match="bytes of acks"):
        doors.call("POST", f"{MEMBER}/acks", 10)
    doors.call("POST", f"{MEMBER}/heartbeat")
    doors.call("GET", f"{MEMBER}/records")
    doors.call("POST", "/v1/groups/g/receive", 10)


def test_the_size_of_an_answer_counts_for_nobody_while_there_is_no_limit() -> None:
    doors = Doors()
    open_gate = ServiceGate("consumer", AccessSettings(), [], wall_s=lambda: 0.0)
    open_gate.replace(Registry([]))
    poll = doors.call("GET", f"{MEMBER}/records")
    poll.caller = Request("GET", b"", "", "", [], "").caller
    open_gate.reads(poll, 1 << 40)
    assert open_gate.owes_s(poll) == 0.0
