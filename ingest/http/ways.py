"""What each kind of call may use of an ingest node, and the calls that need no thread."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial

from ingest.fresh_topics import NotInMemory
from ingest.http.producing import Parsed, Producing, asked_of
from ingest.node import IngestNode
from lakequeue.settings import Settings
from serving.doors.gate import ServiceGate
from serving.front.call import Call
from serving.front.limits.shares import Kind
from serving.front.mailbox import Rush
from serving.front.messages import json_of
from serving.front.routes import Way

MAX_CONFIG_BYTES = 1 << 20
_STATE_S = 2.0
_NO_BODY = 64 << 10
"""A call without a body: one that comes nevertheless is skipped."""
_INLINE_BYTES = 64 << 10
"""A body up to this is parsed by the event loop: to hand it to a thread would cost as much."""
_MOST_SENDS = 4_096
_ORDERED = "ordered"


class Ways:
    """The ways of a node."""

    def __init__(
        self, settings: Settings, node: IngestNode, producing: Producing, gate: ServiceGate
    ) -> None:
        self._gate = gate
        self._settings = settings
        self._node = node
        self._producing = producing
        self._in_memory = producing.in_memory()
        self._rush = Rush(node.committer.rush)

    def all(self) -> Sequence[Way]:
        """Health first, then the calls of each kind."""
        most = self._settings.ingest.threads
        # One that hangs stops neither of the others.
        state = Kind("state", 1, 64)
        send = Kind("send", max(2, most // 8), _MOST_SENDS, _MOST_SENDS)
        ordered = Kind(_ORDERED, max(2, most // 8), 256, self._settings.front.max_waits)
        admin = Kind(
            "admin", max(4, most // 8), 64, 256, self._settings.front.max_unread_bytes // 4
        )
        body = self._settings.ingest.max_request_bytes
        return [
            Way("GET", "/healthz/?", state, _NO_BODY, self._healthz),
            Way("GET", "/readyz/?", Kind("ready", 4, 64), _NO_BODY, within_s=_STATE_S),
            Way("GET", "/metrics/?", Kind("metrics", 4, 64), _NO_BODY, within_s=_STATE_S),
            Way("POST", "/v1/topics/[^/]+/records/?", send, body, self._one_topic),
            Way("POST", "/v1/records/?", send, body, self._many_topics),
            Way("POST", "/v1/producers/[^/]+/epochs/?", ordered, MAX_CONFIG_BYTES),
            Way("POST", "/v1/topics/[^/]+/settle/?", ordered, MAX_CONFIG_BYTES),
            Way("", ".*", admin, MAX_CONFIG_BYTES),
        ]

    def _healthz(self, call: Call) -> None:
        node = self._node
        call.done(json_of({"status": "alive", "node": node.node, "shard": node.appender.shard}))

    def _one_topic(self, call: Call) -> None:
        self._produce(call, call.request.path.split("/", 4)[3])

    def _many_topics(self, call: Call) -> None:
        self._produce(call, None)

    def _produce(self, call: Call, name: str | None) -> None:
        asked, request = asked_of(call.request), call.request
        lease = call.lease = call.lease or self._node.budget.lease()
        sender = id(request.seat) if asked.gathered else None
        request.headers = []
        body, request.body = request.body, b""
        if len(body) <= _INLINE_BYTES and not asked.encoding:
            try:
                parsed = self._in_memory.parse(name, asked, body, lease)
            except NotInMemory:
                pass
            else:
                self._commit(call, len(body), sender, parsed)
                return
        # Either it takes long, or it has to read from storage, which may hang.
        work = partial(self._producing.parse, name, asked, body, lease)
        call.in_thread(work, partial(self._commit, call, len(body), sender))

    def _commit(self, call: Call, received: int, sender: Hashable, parsed: Parsed) -> None:
        parsed.sender = sender
        records = sum(len(part.rows) for part in parsed.parts)
        self._gate.sends(call.request.caller, records, parsed.size - received)
        tell = None
        if parsed.parts[0].judged:
            for part in parsed.parts:
                if part.consumed is not None:
                    self._gate.settles(call.request, part.consumed.group)
            if (dead_letters := parsed.redrives) is not None:
                tell = self._gate.redrives(call.request, dead_letters)
        if parsed.waits:
            call.takes_from(_ORDERED)
        self._rush.came(call.loop)
        call.follow(self._producing.steps(parsed, tell), inline=not parsed.parts[0].judged)
