"""How a worker of a queue group stays in its group: `Consuming`, with receipts for positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from lakequeue.calling.calls import CallPolicy, call
from lakequeue.calling.effects import Now, Request, Script, Wait
from lakequeue.calling.forks import check_process
from lakequeue.calling.nodes import Nodes
from lakequeue.client.consuming.core import Consuming
from lakequeue.client.consuming.keeping import OnLost, OnStatus
from lakequeue.client.consuming.membership import ConsumeOptions, Membership
from lakequeue.client.consuming.pace import Pace
from lakequeue.client.consuming.poll_answers import read_poll
from lakequeue.client.consuming.queue_fetch_buffer import Does, QueueFetchBuffer, ReceiptAction
from lakequeue.client.consuming.traces import settling
from lakequeue.client.message import Message
from lakequeue.errors import (
    AttemptSuperseded,
    Fenced,
    InvalidRequest,
    LakequeueError,
    TryAgain,
    Unreachable,
)
from lakequeue.wire import JoinRequest


class QueueConsuming(Consuming):
    """State and scripts of a worker."""

    is_worker = True
    buffer: QueueFetchBuffer  # type: ignore[assignment] # has what `Consuming` uses of a `FetchBuffer`

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
        renew_for_s: float,
    ) -> None:
        super().__init__(nodes, group, join, options, now, notify, on_lost, on_status)
        self.buffer = QueueFetchBuffer(group, now, renew_for_s)
        self._planned = float("inf")
        """When the wait of `keep` ends by itself."""
        self._saying = False
        """A request that settles is under way: what is said of one receipt stays in order."""
        self._brings = True
        """Polls may bring acknowledgements; services of an earlier release know no such poll."""
        self._got = 0
        self._in_flow = False
        """The last poll got all it had asked for: the next need not wait for records."""
        self._fetching = False
        self._gives_back = False
        """What is fetched ahead goes back at once."""
        self._takes_no_more = False
        """Answers that come now are too late: `leave` tells the service that nobody has them."""
        self._tells_unopened = True
        """Services of an earlier release do not know of it: there it counts as an attempt."""
        self._pace = Pace()

    def next(self) -> Message | None:
        """As `Consuming.next`; tells how long the application works on a record."""
        self._pace.asked(self._now())
        message = super().next()
        if message is not None:
            self._pace.handed(self._now())
        return message

    @property
    def _most_ahead(self) -> int:
        most = self._options.max_poll_records
        if not (self.iterates and self._options.paced):
            return most  # whoever polls says how much, and gets it at once
        return self._pace.most_ahead(most, self._now())

    def fetch(self) -> Script[None]:
        """As `Consuming.fetch`."""
        self._fetching = True
        try:
            yield from super().fetch()
        finally:
            self._fetching = False
            self._notify()

    @property
    def _hands_out_no_more(self) -> bool:
        """Stopped, and no poll is parked: it could bring more, and what we give back once again.

        Who closes does not wait for that.
        """
        return self.closing and (self._gives_back or not self._fetching)

    def last_said(self, timeout_s: float) -> Script[None]:
        """Give back what was fetched ahead; then nothing more is taken."""
        until = self._now() + timeout_s
        self._gives_back = True
        self._notify()
        while not self._takes_no_more:
            yield Wait(lambda: self._has_nothing, max(0.0, until - self._now()))
            with self.lock:
                self._takes_no_more = self._has_nothing or self._now() >= until

    @property
    def _has_nothing(self) -> bool:
        return self.is_given_back and not (self.member is not None and self.buffer.ready)

    @property
    def is_given_back(self) -> bool:
        """Also if nobody is left to say it."""
        return not self.buffer.returning or self.member is None or self.error is not None

    def _too_late(self, member: Membership) -> bool:
        return super()._too_late(member) or self._takes_no_more

    def _leave_query(self, member: Membership) -> dict[str, Any]:
        # An answer that could not be read has arrived all the same: its records must count, or
        # whoever comes next meets them again without end.
        return {} if self.error is not None else {"after": member.last_poll}

    def settle(self, does: Does, message: Message, ms: int | None) -> None:
        """Queue what the application says of a record."""
        check_process(self.made_in)
        self.settles = self.settles or does != "extend"
        with self.lock:
            first = self.buffer.queue_action(does, message, ms)
        if first:
            self._notify()

    def ack(self, message: Message, commit_through: bool) -> None:
        """Queue an acknowledgement; each record has its own."""
        self.settle("ack", message, None)

    def _received(self, records: list[dict[str, object]]) -> None:
        self._got = len(records)
        self.buffer.received(records, self.settle)

    def _joined(self, visibility_timeout_ms: int | None) -> None:
        if visibility_timeout_ms is not None:
            self.buffer.visibility_s = visibility_timeout_ms / 1_000

    # -- polls that bring acknowledgements --------------------------------------------------------

    def _poll(self, member: Membership) -> Script[None]:
        """As `Consuming._poll`. While records flow, a poll brings what is to be said.

        It does not wait for records: what became of an acknowledgement is known as soon as it is.
        """
        wants, self._got = self._wants(), 0
        sayings = self._to_bring()
        if sayings:
            try:
                yield from self._bring(member, sayings)
            finally:
                self._saying = False
                self._notify()
        else:
            yield from super()._poll(member)
        self._in_flow = self._got >= wants

    def _to_bring(self) -> list[ReceiptAction]:
        """Whoever waits in `commit` or closes does not wait for records to be read."""
        with self.lock:
            hurried = self.committing > 0 or self.closing
            if not (self._brings and self._in_flow) or self._saying or hurried:
                return []
            sayings = self.buffer.take(here=True)
            self._saying = bool(sayings)
        return sayings

    def _bring(self, member: Membership, sayings: list[ReceiptAction]) -> Script[None]:
        began = self._last_acks = self._now()
        body = self._body_of(sayings) | self._poll_query(member, 0)
        try:
            with settling(self.group, *_named(sayings)) as span:
                request = Request(
                    "POST",
                    f"{self._path(member)}/records",
                    body=orjson.dumps(body),
                    headers={**span.request_headers(), **self._told_before(member)},
                )
                answer = yield from self._ask(member, request)
        except (TryAgain, Fenced) as error:
            with self.lock:
                if error.stored == "yes":  # only the poll has failed
                    self.buffer.answered(sayings, error.extra.get("refused", []))
                else:
                    self.buffer.again(sayings, error)
            raise
        except LakequeueError as error:
            # They are said without a poll then, and judged there.
            self._brings = False
            with self.lock:
                self.buffer.again(sayings, error)
            return
        found = read_poll(answer.reply)
        with self.lock:
            self.buffer.answered(sayings, found.get("refused", []))
        self._take_in(member, found, began)

    # -- acknowledgements by themselves -----------------------------------------------------------

    def _acks_due(self) -> bool:
        with self.lock:
            if self._saying:
                return False
            if self._hands_out_no_more:
                self.buffer.give_back()
            self.buffer.renew()
        return super()._acks_due()

    def _next_work_in(self, member: Membership | None) -> float | None:
        work_in = super()._next_work_in(member)
        with self.lock:
            renewal_in = self.buffer.next_renewal_in()
        if work_in is not None and renewal_in is not None:
            work_in = max(0.001, min(work_in, renewal_in))
        if work_in is not None and self._saying:
            work_in = max(work_in, self._options.ack_interval_s)  # its end is told
        self._planned = float("inf") if work_in is None else self._now() + work_in
        return work_in

    def _keep_has_work(self, member: Membership | None, with_acks: bool) -> bool:
        if self._saying:
            # Nothing is said meanwhile, and its end is told.
            return self.leaving or self.member is not member
        if member is not None and self._hands_out_no_more and self.buffer.ready:
            return True
        with self.lock:
            renewal_in = self.buffer.next_renewal_in()
        # Records that came meanwhile may have to be renewed before the wait ends.
        planned = self._planned - self._now() - 0.001
        if member is not None and renewal_in is not None and renewal_in < planned:
            return True
        return super()._keep_has_work(member, with_acks)

    def _send_acks(self, member: Membership) -> Script[None]:
        with self.lock:
            if self._saying or not self.buffer.has_acks:
                return  # a poll has just taken them
            sayings, self._saying = self.buffer.take(), True
        try:
            yield from self._say(member, sayings)
        finally:
            self._saying = False
            self._notify()

    def _say(self, member: Membership, sayings: list[ReceiptAction]) -> Script[None]:
        self._last_acks = self._now()
        nodes = member.nodes if sayings[0].url is None else Nodes(sayings[0].url)
        try:
            with settling(self.group, *_named(sayings)) as span:
                request = self._acks_request(member, self._body_of(sayings), span)
                if nodes is member.nodes:
                    yield from self._ask(member, request)
                else:
                    policy = CallPolicy(5.0, lambda: self.leaving)
                    yield from call(nodes, request, self._now, policy)
            with self.lock:
                self.buffer.answered(sayings, [])
        except AttemptSuperseded as error:
            with self.lock:
                self.buffer.answered(sayings, error.extra.get("refused", []))
        except (TryAgain, Fenced) as error:
            with self.lock:
                for saying in sayings:
                    # Wherever it was sent: the partition may have moved on.
                    saying.url = None
                self.buffer.again(sayings, error)
            if nodes is member.nodes:
                self._forget(member, error)
        except LakequeueError as error:
            returns = self._tells_unopened and any(s.does == "return" for s in sayings)
            with self.lock:
                if returns and isinstance(error, InvalidRequest):
                    self._tells_unopened = False
                    self.buffer.again(sayings, error)
                else:
                    self.buffer.failed(sayings, error)

    def _forget(self, member: Membership, error: LakequeueError) -> None:
        if isinstance(error, Unreachable):
            self.nodes.leave(member.nodes.current)
        super()._forget(member, error)

    def _body_of(self, sayings: list[ReceiptAction]) -> dict[str, Any]:
        body: dict[str, Any] = {"acks": [], "nacks": [], "extend": []}
        for saying in sayings:
            receipt = saying.message.receipt
            if saying.does == "ack":
                body["acks"].append(receipt)
            elif saying.does == "return":
                back = {"receipt": receipt, "delay_ms": 0}
                body["nacks"].append(back | {"unopened": True} if self._tells_unopened else back)
            elif saying.does == "nack":
                why = saying.message.nack_reason
                nack = {"receipt": receipt, "delay_ms": saying.ms}
                # Services of an earlier release do not know the field.
                body["nacks"].append(nack if why is None else nack | {"reason": why})
            else:
                body["extend"].append({"receipt": receipt, "visibility_timeout_ms": saying.ms})
        return body


def _named(sayings: list[ReceiptAction]) -> tuple[list[Message], set[str]]:
    """What a span tells of."""
    does: list[str] = ["nack" if saying.does == "return" else saying.does for saying in sayings]
    return [saying.message for saying in sayings], set(does)
