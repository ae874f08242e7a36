"""Records as server-sent events: what polls deliver, as one endless answer.

Each record is an event `record` whose id is its receipt. A client that reconnects sends the last
one it got as `Last-Event-ID`, and what was lost with the connection comes again. Stream groups:
delivery goes on behind that record in its partition, and in the others behind what is acked. Queue
groups: the records of later events are given back, so that any worker may get them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from consumer_service.calls.groups import IDLE_WAIT_S, Groups
from consumer_service.members import Member
from consumer_service.node import Node
from consumer_service.polls.sent_events import START
from consumer_service.polls.served import Answered, take_back
from consumer_service.polls.traces import handed_out
from lakequeue.errors import LakequeueError, SentOn, UnknownMember, UnknownTopic
from lakequeue.wire import parse_receipt
from serving.front.parking import Pieces, Until, Wake

if TYPE_CHECKING:
    from consumer_service.metrics import Metrics

BATCH = 500
KEEP_ALIVE_S = 10.0
"""Silence is broken by a comment, so that proxies and clients see that the stream lives."""
_NOTHING_LOST = 1 << 62
"""What a stream's polls follow: the connection says what was lost, not the next poll."""


def event_stream(
    node: Node,
    groups: Groups,
    member: Member,
    last: str | None,
    call: Streaming,
    metrics: Metrics,
    as_event: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Pieces:
    """The body of the answer; ends when the client hangs up, the member goes or a newer one begins.

    The last event tells a member that is sent on where to join.

    `as_event`: what the data of an event is; None: the record as it is.

    Raises `InvalidRequest` for a damaged `last`: here, and not when the body has begun.
    """
    number = _begin(node, member, last)
    return _Stream(node, groups, member, number, call, metrics, as_event).body(last)


class Unlimited:
    """A request of a server that knows no quotas, and does not tell who hangs up."""

    def gone(self) -> bool:
        """See `Streaming`."""
        return False

    def owes_s(self) -> float:
        """See `Streaming`."""
        return 0.0

    def pauses(self) -> None:
        """See `Streaming`."""


class Streaming(Protocol):
    """The request that a stream answers."""

    def gone(self) -> bool:
        """Its client has hung up."""

    def owes_s(self) -> float:
        """How long nothing more may be read: a quota is used up."""

    def pauses(self) -> None:
        """Nothing is read for that reason."""


@dataclass(frozen=True, slots=True)
class _Stream:
    """One connection's events."""

    node: Node
    groups: Groups
    member: Member
    number: int
    call: Streaming
    metrics: Metrics
    as_event: Callable[[dict[str, Any]], dict[str, Any]] | None

    def body(self, last: str | None) -> Pieces:
        # The id makes a client tell us, when it reconnects, that it has got nothing at all.
        yield b"retry: 1000\n\n" if last else b"id: %b\nretry: 1000\n\n" % START.encode()
        try:
            yield from self._events()
        except (SentOn, UnknownTopic) as e:
            yield _end(e)
            return
        member = self.member
        yield b"event: end\ndata: {}\n\n" if member.active else _end(_gone_from(member))

    def _events(self) -> Pieces:
        """Raises `SentOn`, `UnknownTopic`."""
        node, groups, member = self.node, self.groups, self.member
        mode = node.mode_of(member)
        while not self._over():
            if (owed := self.call.owes_s()) > 0:
                # Nothing is taken meanwhile, and nobody's deadline runs.
                self.call.pauses()
                with member.polling():
                    yield Until(Wake(), min(owed, KEEP_ALIVE_S))
                if owed > KEEP_ALIVE_S:
                    yield b": alive\n\n"
                continue
            groups.send_away(member)
            idle = groups.has_nothing(member)
            wait_s = IDLE_WAIT_S if idle else KEEP_ALIVE_S
            began = time.perf_counter()
            delivered = yield from mode.steps(
                member, BATCH, wait_s, self._breaks_off, _NOTHING_LOST
            )
            if not _leaves(node, member, delivered, self.number, self.call.gone):
                break
            if not delivered.records:
                if self._breaks_off():
                    continue
                if idle:
                    groups.send_on(member)
                groups.check_topics(member)
                yield b": alive\n\n"
                continue
            mode.before_leaving(member, delivered)
            handed_out(member.group, delivered.records, time.perf_counter() - began)
            as_event = self.as_event or dict
            written = b"".join(
                b"id: %b\nevent: record\ndata: %b\n\n"
                % (record["receipt"].encode(), orjson.dumps(as_event(record)))
                for record in delivered.records
            )
            self.metrics.delivered(member.group, len(delivered.records), len(written))
            yield written

    def _over(self) -> bool:
        return (
            self.call.gone() or not self.member.active or self.member.polls.streams != self.number
        )

    def _breaks_off(self) -> bool:
        """Nothing more is waited for."""
        return self._over() or self.node.read_failover.better_node() is not None


def _leaves(
    node: Node,
    member: Member,
    delivered: Answered,
    number: int,
    gone: Callable[[], bool],
) -> bool:
    """Whether this may be written: remember it then; else it is delivered again."""
    if gone():
        take_back(member, delivered)
        return False
    with member.polls.lock:
        if member.polls.streams != number:
            # The newer stream has taken it back.
            return False
        member.polls.answered.clear()
        node.mode_of(member).events_leave(member, delivered)
    return True


def _begin(node: Node, member: Member, last: str | None) -> int:
    """Number of a new stream of the member; what was lost with the ones before is taken back."""
    if last and last != START:
        parse_receipt(last)
    polls = member.polls
    with polls.lock:
        # An older stream may sit on a dead connection, and must take nothing any more.
        polls.streams += 1
        polls.begin(-1)
        node.mode_of(member).begin_events(member, last)
        number = polls.streams
    member.wake.set()
    return number


def _gone_from(member: Member) -> LakequeueError:
    return UnknownMember(
        f"member {member.member_id} has left group {member.group}", hint="join the group again"
    )


def _end(error: LakequeueError) -> bytes:
    """The last event: why, and for `sent_on` where to join."""
    return b"event: end\ndata: %b\n\n" % orjson.dumps(error.to_problem())
