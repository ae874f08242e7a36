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
from consumer_service.http.delivering import Settle, acked, counting_refusals, polled, worked
from consumer_service.members import Member
from consumer_service.metrics import Metrics
from consumer_service.node import Node
from consumer_service.reading.columns import Form
from lakequeue import wire
from lakequeue.tracing import spans
from lakequeue.wire.cloud_events import BATCH, wants
from lakequeue.wire.parsing import valid
from serving.front.call import Call
from serving.front.mailbox import Rush
from serving.front.messages import Header, Request
from serving.requests import is_minimal, media_type_of, parsed

MOST_BODY: Final = 16 << 10
"""A body up to this is parsed by the event loop: to hand it to a thread would cost as much."""
_PREFER = wire.PREFER.encode()
_QUERY = re.compile(r"(max|wait_ms|after)=(\d{1,18})(?:&|$)")


class Native:
    """For the event loop's thread."""

    def __init__(self, node: Node, metrics: Metrics) -> None:
        self._node = node
        self._groups = Groups(node)
        self._metrics = metrics
        self._acks = Rush(node.journal.rush)
        self._polls = Rush(self._rush)

    def poll(self, call: Call) -> None:
        """`GET …/records`."""
        request = call.request
        query = _query_of(request.query) if request.method == "GET" else None
        member = None if query is None else self._member(request)
        if query is None or member is None:
            call.to_application()
            return
        asked = valid(wire.PollQuery, query, texts=True)
        accept = _said(request.headers, b"accept")
        minimal = is_minimal(_said(request.headers, _PREFER))
        events = wants(accept, BATCH)
        form: Form = "arrow" if wants(accept, wire.ARROW_STREAM) else "json"
        request.headers, request.body = [], b""
        limit = min(asked.max, self._node.settings.consumer.max_poll_records)
        if member.request.mode == "queue":
            self._polls.came(call.loop)
        steps = polled(
            self._node,
            self._groups,
            self._metrics,
            member,
            limit,
            asked,
            call.gone,
            events=events,
            form=form,
            minimal=minimal,
        )
        call.follow(steps, inline=True)

    def work(self, call: Call) -> None:
        """`POST …/members/{member}/records`."""
        request = call.request
        member = self._member(request) if _is_plain(request) else None
        if member is None or member.request.mode != "queue":
            call.to_application()
            return
        body, request.body, request.headers = request.body, b"", []
        with counting_refusals(self._metrics):
            asked = valid(wire.WorkRequest, parsed(body))
        self._polls.came(call.loop)
        steps = worked(self._node, self._groups, self._metrics, member, asked, None, call.gone)
        call.follow(steps, inline=True)

    def acks(self, call: Call) -> None:
        """`POST …/acks`."""
        request = call.request
        _, _, _, group, *rest = request.path.split("/")
        if not _is_plain(request):
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

    def _rush(self, on: bool) -> None:
        """More polls are just being read, or no more: some bring acks along."""
        if on:
            self._node.journal.rush(True)
        # A round that begins now has the journal wait for what it takes.
        self._node.queue_delivery.rush(on)
        if not on:
            self._node.journal.rush(False)

    def _member(self, request: Request) -> Member | None:
        """The member that is active here and may poll now.

        None: the application says what else is so. And it serves those that commit before they get
        anything. Raises `Forbidden`.
        """
        if b"%" in request.target or self._node.tailer.failing_since is not None:
            return None
        _, _, _, group, _, name, *_ = request.path.split("/")
        member = self._node.members.find(group, name)
        if member is None:
            return None
        if member.request.mode != "queue" and member.request.delivery == "at_most_once":
            return None
        may_consume(request, member)
        return member

    def _is_queue(self, group: str) -> bool:
        owned = self._node.owned_partitions.of_group(group)
        return bool(owned) and owned[0].mode == "queue"


def may_consume(request: Request, member: Member) -> None:
    """Raise `Forbidden` unless the caller may consume the member's topics now.

    Their rights may have changed since it joined. A member may have thousands of topics, so the
    same rights are judged once: they are replaced if they change.
    """
    if member.allowed is not request.caller.rights:
        for need in member.needs:
            request.caller.must(*need)
        member.allowed = request.caller.rights
    request.also.extend(member.needs)


def _is_plain(request: Request) -> bool:
    """Whether its body is small JSON, and nobody wants to know of it."""
    return (
        len(request.body) <= MOST_BODY
        and b"%" not in request.target
        and spans.tracer() is None
        and media_type_of(request.header(b"content-type") or None) == wire.JSON
    )


def _query_of(text: str) -> dict[str, str] | None:
    """What stands in a query, if it is plain: each name once, and numbers."""
    found = _QUERY.findall(text)
    given = dict(found)
    if len(given) != len(found) or len(text) != sum(len(k) + len(v) + 2 for k, v in found) - 1:
        return {} if not text else None
    return given


def _said(headers: Sequence[Header], asked: bytes) -> str | None:
    """All that headers of that name say, however many there are."""
    said = [value.decode("latin-1") for name, value in headers if name == asked]
    return ",".join(said) if said else None
