"""How a consumer stays in its group: acknowledgements and heartbeats, until it leaves.

A member stays with its node while that answers. If the node does not answer, or does not know the
member, everything held is lost and the consumer joins again, through the next node.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson

from lakequeue.calling import forks
from lakequeue.calling.callbacks import FAULTS
from lakequeue.calling.calls import Answer, CallPolicy, call, pause_before
from lakequeue.calling.discovery import find
from lakequeue.calling.effects import Now, Request, Script, Wait
from lakequeue.calling.nodes import Nodes
from lakequeue.client.consuming.fetch_buffer import FetchBuffer, Lost
from lakequeue.client.consuming.membership import ConsumeOptions, Membership
from lakequeue.client.consuming.traces import settling
from lakequeue.client.producing.produce_responses import read_answer
from lakequeue.errors import (
    Broken,
    EpochSuperseded,
    Fenced,
    LakequeueError,
    NotReady,
    SentOn,
    TryAgain,
    UnknownMember,
    Unreachable,
)
from lakequeue.tracing.spans import Tracing
from lakequeue.wire import HeartbeatAnswer

_log = logging.getLogger("lakequeue.consumer")
OnLost = Callable[[list[Lost]], None]
OnStatus = Callable[[str], None]
_ELSEWHERE_AFTER_S = 1.0  # how long a node may not answer while there are others to go to


class Keeping:
    """The membership, and the script `keep`. `lock` protects all of it; `notify` tells changes."""

    def __init__(
        self,
        nodes: Nodes,
        group: str,
        options: ConsumeOptions,
        now: Now,
        notify: Callable[[], None],
        on_lost: OnLost | None,
        on_status: OnStatus | None,
    ) -> None:
        self.made_in = forks.process
        self.buffer = FetchBuffer(group)
        self.member: Membership | None = None
        self.closing = False
        self.leaving = False
        self.committing = 0
        """Callers that wait in `commit`: acknowledgements go out at once."""
        self.error: LakequeueError | None = None
        """Why consuming has ended by itself."""
        self.expelled = False
        """Dropped by the service, and not asked for a record since: it may be that we hang."""
        self.lock = threading.RLock()
        # Each consumer by a name of its own: a group spreads over the nodes.
        self.nodes = nodes.route(f"{group}/{uuid.uuid4().hex}")
        self.group = group
        self._group_path = f"/v1/groups/{group}"
        self._options = options
        self._now = now
        self._notify = notify
        self._on_lost = on_lost
        self._on_status = on_status
        self._last_acks = float("-inf")

    def keep(self) -> Script[None]:
        """Send acknowledgements and heartbeats, until `end`."""
        try:
            yield from self._keep()
        except Exception as error:  # noqa: BLE001 - as above
            self._broken(error)
            self._notify()

    def _keep(self) -> Script[None]:
        while True:
            member = self.member
            if member is not None and self._acks_due():
                yield from self._send_acks(member)
            elif self.leaving:
                return
            elif member is not None and self._heartbeat_in(member) <= 0:
                yield from self._heartbeat(member)
            elif member is not None and not self.nodes.nodes.find_in:
                # Its own node answers, and may be the only one that is known and still there.
                yield from find(self.nodes.nodes, "consumer", self._now, member.nodes)
            else:
                with_acks = self.buffer.has_acks
                yield Wait(
                    partial(self._keep_has_work, member, with_acks), self._next_work_in(member)
                )

    def _acks_due(self) -> bool:
        hurried = self.committing > 0 or self.closing
        waited = self._now() - self._last_acks >= self._options.ack_interval_s
        return self.buffer.has_acks and (hurried or waited)

    def _heartbeat_in(self, member: Membership) -> float:
        return member.last_contact + member.session_timeout_s / 3 - self._now()

    def _next_work_in(self, member: Membership | None) -> float | None:
        if member is None:
            return None
        next_acks = self._last_acks + self._options.ack_interval_s - self._now()
        until = min(self._heartbeat_in(member), self.nodes.nodes.find_in)
        return max(0.001, min(until, next_acks) if self.buffer.has_acks else until)

    def _keep_has_work(self, member: Membership | None, with_acks: bool) -> bool:
        """Whether the wait is over; `with_acks`: its timeout counts acknowledgements already."""
        if self.leaving or self.member is not member:
            return True
        if member is None:
            return False
        return self._acks_due() if with_acks else self.buffer.has_acks

    def _send_acks(self, member: Membership) -> Script[None]:
        with self.lock:
            acks, number = self.buffer.take_acks()
        self._last_acks = self._now()
        # Order was checked when they were made, so the highest of each partition says it all.
        body = {"acks": [m.receipt for m in acks], "commit_through": True}
        lost: list[Lost] = []
        try:
            with settling(self.group, acks) as span:
                yield from self._ask(member, self._acks_request(member, body, span))
        except EpochSuperseded as error:
            refused = error.extra.get("refused")
            if refused is None:
                refused = [{"topic": m.topic, "partition": m.partition} for m in acks]
            with self.lock:
                for item in refused:
                    place = (item["topic"], item["partition"])
                    lost += self.buffer.refused(place, item.get("current_epoch"))
        except (TryAgain, Fenced) as error:
            self._forget(member, error)
        except LakequeueError as error:
            with self.lock:
                self.buffer.refusal = self.buffer.refusal or error
        with self.lock:
            self.buffer.acks_settled(number)
        self._tell_lost(lost)
        self._notify()

    def _acks_request(self, member: Membership, body: object, span: Tracing) -> Request:
        return Request(
            "POST",
            f"{self._path(member)}/acks",
            body=orjson.dumps(body),
            headers=span.request_headers(),
        )

    def _heartbeat(self, member: Membership) -> Script[None]:
        request = Request("POST", f"{self._path(member)}/heartbeat", read_timeout_s=5.0)
        lost: list[Lost] = []
        told = member.told
        try:
            answer = yield from call(member.nodes, request, self._now, CallPolicy(0.0, sticky=True))
            member.last_contact = self._now()
            beat = read_answer(HeartbeatAnswer, answer.reply)
            with self.lock:
                # A poll that was answered meanwhile may know better, and its records must stay: the
                # service counts them as delivered.
                if self.member is member and member.told == told:
                    lost = self.buffer.assigned(beat.assignment_version, beat.assignment)
        except UnknownMember as error:
            self._forget(member, error)
        except LakequeueError as error:
            # The poll meets the same trouble and decides; here it is only tried again.
            _log.debug("heartbeat failed: %s", error)
            yield Wait(lambda: self.leaving, member.session_timeout_s / 10)
        self._tell_lost(lost)

    def leave(self) -> Script[None]:
        """Tell the service that we are gone, if it can be told at once."""
        with self.lock:
            member, self.member = self.member, None
            if member is None:
                return
            query = self._leave_query(member)
        request = Request("DELETE", self._path(member), query, read_timeout_s=5.0)
        try:
            yield from call(member.nodes, request, self._now, CallPolicy(0.0, sticky=True))
        except LakequeueError as error:
            _log.debug("leaving failed, the session timeout ends it as well: %s", error)

    def _leave_query(self, _member: Membership) -> dict[str, Any]:
        """What the service hears of a member that leaves."""
        return {}

    @property
    def is_given_back(self) -> bool:
        """Whoever may have what was given back has heard of it. In a stream there is nobody."""
        return True

    def last_said(self, _timeout_s: float) -> Script[None]:
        """What is to be said before it leaves, beside acknowledgements."""
        yield from ()

    # -- shared ---------------------------------------------------------------------------------

    def _ask(self, member: Membership, request: Request) -> Script[Answer]:
        """Ask the member's node, patiently while the membership may live."""
        failing_since: float | None = None
        attempt = 0
        while True:
            asked = self._now()
            try:
                answer = yield from call(
                    member.nodes, request, self._now, CallPolicy(0.0, sticky=True)
                )
                member.last_contact = self._now()
                return answer
            except TryAgain as error:
                attempt += 1
                elsewhere = len(self.nodes) > 1 and isinstance(error, Unreachable | NotReady)
                if failing_since is None:
                    # A hung node has had the whole read timeout already.
                    failing_since = asked if elsewhere else self._now()
                patience = _ELSEWHERE_AFTER_S if elsewhere else member.session_timeout_s
                pause = max(pause_before(attempt), error.retry_after_s or 0.0)
                if self.leaving or self._now() + pause - failing_since > patience:
                    raise
                if attempt == 1:
                    self._status(f"{error.detail}; trying again")
                yield Wait(lambda: self.leaving or self.member is not member, pause)
                if self.member is not member:
                    raise

    def _forget(self, member: Membership, error: LakequeueError) -> None:
        with self.lock:
            if self.member is not member:
                return
            self.member = None
            self.expelled = isinstance(error, UnknownMember)
            lost = self.buffer.lose_all(error.detail)
            if isinstance(error, Unreachable | NotReady):
                self.nodes.leave(member.nodes.current)
            elif isinstance(error, SentOn):
                parts = urlsplit(str(error.extra.get("location", "")))
                self.nodes.prefer(f"{parts.scheme}://{parts.netloc}")
        self._status(f"{error.detail}; joining again")
        self._tell_lost(lost)
        self._notify()

    def _path(self, member: Membership) -> str:
        return f"{self._group_path}/members/{member.member_id}"

    def _tell_lost(self, lost: list[Lost]) -> None:
        if not lost or self._on_lost is None:
            return
        try:
            self._on_lost(lost)
        except FAULTS:  # a fault of the user's callback must not end consuming
            _log.exception("on_lost failed")

    def _status(self, line: str) -> None:
        _log.info(line)
        if self._on_status is None:
            return
        try:
            self._on_status(line)
        except FAULTS:
            _log.exception("on_status failed")

    def _broken(self, error: Exception) -> None:
        # The application would wait for ever, and its partitions with it.
        _log.exception("consuming ends")
        self.error = self.error or Broken(f"unexpected {type(error).__name__}: {error}")
