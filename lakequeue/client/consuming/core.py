"""What a consumer does in its group: the core that both consumers share.

Two scripts run side by side: `fetch` joins and polls one answer ahead, `keep` sends
acknowledgements and heartbeats (`keeping.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from lakequeue.calling.calls import Answer, CallPolicy, call
from lakequeue.calling.discovery import find
from lakequeue.calling.effects import Now, Request, Script, Wait
from lakequeue.calling.forks import check_process
from lakequeue.calling.nodes import Nodes
from lakequeue.client.consuming.keeping import Keeping, OnLost, OnStatus
from lakequeue.client.consuming.membership import ConsumeOptions, Membership
from lakequeue.client.consuming.poll_answers import ACCEPT, read_poll
from lakequeue.client.consuming.traces import received
from lakequeue.client.fetched import Run
from lakequeue.client.message import Message
from lakequeue.client.producing.produce_responses import read_answer
from lakequeue.errors import (
    Fenced,
    InvalidRequest,
    LakequeueError,
    TryAgain,
)
from lakequeue.wire import MINIMAL, PREFER, Assigned, JoinAnswer, JoinRequest

MANY: Final = 256
"""Records that take milliseconds to be made and looked at."""


class Consuming(Keeping):
    """State and scripts of a consumer. `lock` protects all of it; `notify` says that it changed."""

    def __init__(
        self,
        nodes: Nodes,
        group: str,
        join: JoinRequest,
        options: ConsumeOptions,
        now: Now,
        notify: Callable[[], None],
        on_lost: OnLost | None,
        on_status: OnStatus | None,
    ) -> None:
        super().__init__(nodes, group, options, now, notify, on_lost, on_status)
        self.predicate = join.predicate
        """Of the group, once it is joined: members may leave it out."""
        self.handed_out = 0
        """Records that the application has got, one by one."""
        self.settles = False
        """The application has acknowledged a record, or given one back; or it is told that it has
        not."""
        self.to_be_taken = 0
        """Records that are about to be taken: so many that the next poll leaves first."""
        self._poll_is_out = False
        self.iterates = False
        """A worker that takes one record at a time: what is fetched ahead is kept from others."""
        self._join_request = join

    # -- the application's side -----------------------------------------------------------------

    is_worker = False
    """Of a queue group."""

    def go_gapless(self) -> None:
        """The position goes with results: the node is told so when this consumer joins."""
        if not self._join_request.gapless:
            self._join_request = self._join_request.model_copy(update={"gapless": True})

    @property
    def has_news(self) -> bool:
        """`next` will not be in vain: a record, an error, the end, or we are to join again."""
        return self.buffer.ready > 0 or self.error is not None or self.closing or self.expelled

    def next(self) -> Message | None:
        """The next record; None: there is none now, or (see `closing`) never again."""
        with self.lock:
            if self.closing:
                return None
            message = self.buffer.next()
            if message is None and self.error is not None:
                raise self.error
            if message is not None:
                self.handed_out += 1
                if self.handed_out == self._options.stop_after:
                    self.stop()
            room = self.iterates or self.buffer.ready == self._options.max_poll_records - 1
            returned, self.expelled = self.expelled, False
        if room or returned:
            self._notify()
        return message

    def will_take(self, most: int) -> None:
        """Have the next poll leave, if so many of the records that are ready make room for it."""
        with self.lock:
            ahead, ready = self._options.max_poll_records, self.buffer.ready
            taken = min(most, ready)
            # Whoever is cancelled meanwhile takes nothing. He finds more than a poll ahead then, or
            # one that is out, and is kept waiting no more.
            room = 2 * ahead > ready >= ahead > ready - taken
            if taken < MANY or not room or self._poll_is_out:
                return
            self.to_be_taken = taken
        self._notify()

    def take(self, most: int) -> list[Run]:
        """The next records, at most so many, as `next` would hand them out one by one."""
        with self.lock:
            if self.closing:
                return []
            if self._options.stop_after is not None:
                most = min(most, self._options.stop_after - self.handed_out)
            ahead, before = self._options.max_poll_records, self.buffer.ready
            taken = self.buffer.take(most)
            if not taken and self.error is not None:
                raise self.error
            self.handed_out += sum(map(len, taken))
            if taken and self.handed_out == self._options.stop_after:
                self.stop()
            room = self.iterates or before >= ahead > self.buffer.ready
            self.to_be_taken = 0
            returned, self.expelled = self.expelled, False
        if room or returned:
            self._notify()
        return taken

    def ack(self, message: Message, commit_through: bool) -> None:
        """Queue an acknowledgement."""
        check_process(self.made_in)
        self.settles = True
        with self.lock:
            first = self.buffer.ack(message, commit_through)
        if first:
            self._notify()

    def settled(self, number: int) -> bool:
        """The acknowledgements up to `number` are decided, or nobody is left to send them."""
        return self.buffer.settled >= number or self.error is not None

    def stop(self) -> None:
        """Hand out nothing more. Acknowledgements still go out."""
        self.closing = True
        self._notify()

    def end(self) -> None:
        """Both scripts are to end."""
        self.leaving = True
        self.stop()

    # -- fetch ----------------------------------------------------------------------------------

    def fetch(self) -> Script[None]:
        """Join, and keep one poll ahead of the application."""
        try:
            yield from self._join(self._options.connect_timeout_s)
            while not self.closing and self.error is None:
                member = self.member
                if self.expelled:
                    yield Wait(lambda: not self.expelled or self.closing, None)
                    continue
                if member is None:
                    yield from self._join(None)
                    continue
                if not self._has_room():
                    yield Wait(lambda: self._has_room() or self.closing, None)
                    continue
                try:
                    yield from self._poll(member)
                except (TryAgain, Fenced) as error:
                    self._forget(member, error)
            if self.leaving:  # `close` has left before this join was answered
                yield from self.leave()
        except LakequeueError as error:
            if not self.closing:
                self.error = error
        except Exception as error:  # noqa: BLE001 - a thread that ends in silence hangs the application
            self._broken(error)
        finally:
            self._notify()

    def _has_room(self) -> bool:
        return self.buffer.ready - self.to_be_taken < self._most_ahead and self._wants() > 0

    @property
    def _most_ahead(self) -> int:
        """Records that may be ready, and that one poll may bring."""
        return self._options.max_poll_records

    def _wants(self) -> int:
        """How many records a poll may bring."""
        most, in_all = self._most_ahead, self._options.stop_after
        # What is handed out meanwhile is ready now: the sum stays.
        return most if in_all is None else min(most, in_all - self.handed_out - self.buffer.ready)

    def _join(self, deadline_s: float | None) -> Script[None]:
        policy = CallPolicy(deadline_s, lambda: self.closing, between=self._find)
        yield from self._find()
        try:
            answer = yield from self._ask_to_join(self._join_request, policy)
        except InvalidRequest as error:
            if error.extra.get("field") != "gapless":
                raise
            # A node of release 0.1: it delivers what has expired, so there is nothing to tell.
            plain = self._join_request.model_copy(update={"gapless": None})
            answer = yield from self._ask_to_join(plain, policy)
        joined = read_answer(JoinAnswer, answer.reply)
        member = Membership(
            joined.member_id, Nodes(answer.node), joined.session_timeout_ms / 1000, self._now()
        )
        with self.lock:
            self.member = member
            self.predicate = joined.predicate
            self._joined(joined.visibility_timeout_ms)
            self.buffer.joined(joined.assignment_version, joined.assignment)
        self._status(f"joined {self._group_path} at {answer.node} as {member.member_id}")
        self._notify()

    def _find(self) -> Script[None]:
        return find(self.nodes.nodes, "consumer", self._now)

    def _ask_to_join(self, join: JoinRequest, policy: CallPolicy) -> Script[Answer]:
        body = join.model_dump(by_alias=True, exclude_none=True)
        request = Request("POST", f"{self._group_path}/members", body=orjson.dumps(body))
        answer = yield from call(self.nodes, request, self._now, policy)
        return answer

    def _poll(self, member: Membership) -> Script[None]:
        wait_ms = self._options.wait_ms
        request = Request(
            "GET",
            f"{self._path(member)}/records",
            self._poll_query(member, wait_ms),
            read_timeout_s=wait_ms / 1000 + 15.0,
            headers={"accept": ACCEPT} | self._told_before(member),
        )
        if self.to_be_taken:
            self.to_be_taken = 0
            self._notify()
        began = self._now()
        self._poll_is_out = True
        try:
            answer = yield from self._ask(member, request)
        finally:
            self._poll_is_out = False
        self._take_in(member, read_poll(answer.reply), began)

    def _poll_query(self, member: Membership, wait_ms: int) -> dict[str, int]:
        # If an answer is lost on the way, what it held is delivered again.
        return {"max": self._wants(), "wait_ms": wait_ms, "after": member.last_poll}

    @staticmethod
    def _told_before(member: Membership) -> dict[str, str]:
        return {PREFER: MINIMAL} if member.assignment else {}

    def _take_in(self, member: Membership, body: dict[str, Any], began: float) -> None:
        """An answer to a poll that was asked at that time."""
        received(self.group, body["records"], self._now() - began)
        number = body.get("poll", 0)
        told = body.get("assignment")
        assignment = member.assignment
        if told is not None:
            assignment = [Assigned.model_validate(a) for a in told]
        with self.lock:
            if self._too_late(member):
                return
            member.last_poll = max(member.last_poll, number)
            # What an answer without a number has told, the service does not remember.
            member.assignment = assignment if number else None
            member.told += 1
            version = body.get("assignment_version", 0)
            lost = self.buffer.assigned(version, assignment, in_turn=True)
            self._received(body["records"])
        self._tell_lost(lost)
        self._notify()

    def _too_late(self, member: Membership) -> bool:
        """An answer to this member is of no use any more: nobody is handed its records."""
        return self.member is not member

    def _received(self, records: Any) -> None:
        self.buffer.received(records, self.ack)

    def _joined(self, visibility_timeout_ms: int | None) -> None:
        """A group with receipts tells how long one is good."""
