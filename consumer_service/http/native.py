"""Acks and polls, answered by the event loop without the application.

Only the plain ones, and nearly all are: whatever says more than that, or may have to wait for
storage or ZooKeeper, goes to a thread.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from consumer_service.calls.groups import Groups
from consumer_service.http.delivering import Settle, acked, counting_refusals, polled
from consumer_service.members import Member
from consumer_service.metrics import Metrics
from consumer_service.node import Node
from lakequeue import wire
from lakequeue.tracing import spans
from lakequeue.wire.cloud_events import BATCH, wants
from lakequeue.wire.parsing import valid
from queue_access.rights import Kind, Right
from serving.front.call import Call
from serving.front.mailbox import Rush
from serving.front.messages import Header
from serving.requests import media_type_of, parsed

MOST_BODY: Final = 16 << 10
"""A body up to this is parsed by the event loop: to hand it to a thread would cost as much."""
_QUERY = re.compile(r"(max|wait_ms|after)=(\d{1,18})(?:&|$)")


class Native:
    """For the event loop's thread."""

    def __init__(self, node: Node, metrics: Metrics) -> None:
        self._node = node
        self._groups = Groups(node)
        self._metrics = metrics
        self._acks = Rush(node.journal.rush)
        self._polls = Rush(node.queue_delivery.rush)

    def poll(self, call: Call) -> None:
        """`GET …/records`."""
        request = call.request
        query = _query_of(request.query) if request.method == "GET" else None
        member = None if query is None or b"%" in request.target else self._member(request.path)
        if query is None or member is None or self._node.tailer.failing_since is not None:
            call.to_application()
            return
        for topic in member.request.topics:  # its rights may have changed since it joined
            request.caller.must(Right.CONSUME, Kind.TOPIC, topic)
            request.also.append((Right.CONSUME, Kind.TOPIC, topic))
        asked = valid(wire.PollQuery, query, texts=True)
        accept = _accept_of(request.headers)
        events = wants(accept, BATCH)
        member.columns = not events and wants(accept, wire.ARROW_STREAM)
        request.headers, request.body = [], b""
        limit = min(asked.max, self._node.settings.consumer.max_poll_records)
        if member.request.mode == "queue":
            self._polls.came(call.loop)
        steps = polled(
            self._node, self._groups, self._metrics, member, limit, asked, call.gone, events=events
        )
        call.follow(steps, inline=True)

    def acks(self, call: Call) -> None:
        """`POST …/acks`."""
        request = call.request
        _, _, _, group, *rest = request.path.split("/")
        if (
            len(request.body) > MOST_BODY
            or b"%" in request.target
            or spans.tracer() is not None
            or media_type_of(request.header(b"content-type") or None) != wire.JSON
        ):
            call.to_application()
            return
        if rest[0] == "members" and self._node.members.find(group, rest[1]) is not None:
            settle: Settle = partial(self._groups.acks, group, rest[1])
        elif rest[0] == "acks" and self._is_queue(group):
            settle = partial(self._groups.settle, group)
        else:
            call.to_application()
            return
        body, request.body, request.headers = request.body, b"", []
        with counting_refusals(self._metrics):
            asked = valid(wire.AckRequest, parsed(body))
        self._acks.came(call.loop)
        steps = acked(self._metrics, group, None, lambda: settle(asked))
        call.follow(steps, inline=True)

    def _member(self, path: str) -> Member | None:
        """The member that is active here; the application says what else is so. And it serves those
        that commit before they get anything."""
        _, _, _, group, _, name, *_ = path.split("/")
        member = self._node.members.find(group, name)
        if member is None or member.request.mode == "queue":
            return member
        return None if member.request.delivery == "at_most_once" else member

    def _is_queue(self, group: str) -> bool:
        owned = self._node.owned_partitions.of_group(group)
        return bool(owned) and owned[0].mode == "queue"


def _query_of(text: str) -> dict[str, str] | None:
    """What stands in a query, if it is plain: each name once, and numbers."""
    found = _QUERY.findall(text)
    given = dict(found)
    if len(given) != len(found) or len(text) != sum(len(k) + len(v) + 2 for k, v in found) - 1:
        return {} if not text else None
    return given


def _accept_of(headers: Sequence[Header]) -> str | None:
    """All that the client takes, however many headers say so."""
    said = [value.decode("latin-1") for name, value in headers if name == b"accept"]
    return ",".join(said) if said else None
