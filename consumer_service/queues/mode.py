"""Queue groups, for ownership and for the calls of members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from consumer_service.members import Member, Members
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.positions import Consumed, Position
from consumer_service.polls.poll_batch import QueuePollResult
from consumer_service.polls.sent_events import SentEvents
from consumer_service.polls.served import Answered
from consumer_service.polls.traces import settled
from consumer_service.polls.waiting import turn_of
from consumer_service.queues.acks import Change, QueueAcks
from consumer_service.queues.brought import Brought
from consumer_service.queues.delivery import QueueDelivery
from consumer_service.queues.waiters import Waiters
from lakequeue.tracing.context import TraceContext
from lakequeue.wire import AckRequest, SettleAnswer
from lakequeue.wire.limits import DEFAULT_MAX_IN_FLIGHT
from queue_rules.queues.partition import QueuePartition
from queue_rules.queues.retry_policy import RetryPolicy, policy_of
from queue_rules.streams.cursor import Cursor
from queue_tables.groups.facts import GroupState, Key
from queue_tables.groups.record_states import NOTHING, RecordStates, join_records
from queue_tables.topics import TopicStore
from serving.front.parking import Steps


class Queues:
    """Each record to one of any number of members, which settle it by itself."""

    shares = True

    def __init__(
        self,
        node: str,
        members: Members,
        waiters: Waiters,
        delivery: QueueDelivery,
        acks: QueueAcks,
        topics: TopicStore,
        policy: Callable[[OwnedPartition], RetryPolicy],
    ) -> None:
        self._node = node
        self._members = members
        self._waiters = waiters
        self.steps = delivery.steps
        """With what was brought along, if anything was."""
        self._acks = acks
        self._topics = topics
        self._policy = policy

    def holder(self, _member_id: str) -> str:
        """The node, for all members that joined here."""
        return self._node

    def consumed(
        self, _state: GroupState | None, _key: Key, _marks: Mapping[str, int]
    ) -> Consumed | None:
        """None: records are settled one by one, and a mark says nothing of those that are open."""
        return None

    def open(self, owned: OwnedPartition, state: GroupState | None, position: Position) -> None:
        """With what the tables say of its records."""
        records = NOTHING if state is None else state.records
        if position.make_durable:
            records = join_records(records, RecordStates.settled((0, position.offset)))
        owned.cursor = Cursor(position.offset)
        owned.queue = QueuePartition(self._policy(owned), records)

    def taken(self, some: Sequence[OwnedPartition]) -> None:
        """All members of these groups may get something."""
        self._members.wake_groups({owned.key.group for owned in some})

    def grown(self, some: Sequence[OwnedPartition]) -> None:
        """Wake as many as there is something for."""
        for group in {owned.key.group for owned in some}:
            self._waiters.news(group)

    def visibility_ms(self, options: Mapping[str, Any]) -> int | None:
        """As the options of the group say."""
        return policy_of(options, None).visibility_ms

    def ack(self, member: Member, request: AckRequest) -> Steps[SettleAnswer]:
        """By receipts, whoever sends them.

        Who gives back unopened hands out no more: a poll of his that waits would get the same.
        """
        if any(nack.unopened for nack in request.nacks):
            yield from turn_of(member.polls.lock)
            member.polls.begun += 1
            member.polls.lock.release()
            member.wake.set()
        return (yield from self.settle(member.group, request))

    def settle(self, group: str, request: AckRequest) -> Steps[SettleAnswer]:
        """Acks, nacks and extensions; see `QueueAcks.settle` for the errors."""
        return self._acks.settle(group, request, self._topics.names)

    def brought(self, group: str, request: AckRequest, trace: TraceContext | None) -> Brought:
        """The same, brought along by a poll: receipts that are not good are no error of it."""
        changes: list[Change] = []
        steps = self._acks.outcome(group, request, self._topics.names, changes, brief=True)
        return Brought(settled(group, trace, steps), changes)

    def before_leaving(self, _member: Member, _delivered: Answered) -> None:
        """At most once: they were committed as acked when they were taken."""

    def begin_events(self, member: Member, last: str | None) -> None:
        """Give back what left and did not arrive."""
        polls = member.polls
        most = member.request.max_in_flight or DEFAULT_MAX_IN_FLIGHT
        polls.sent = polls.sent or SentEvents(most)
        polls.sent.begin(last or None).take_back()

    def events_leave(self, member: Member, delivered: Answered) -> None:
        """Remember them, until the client says which it got."""
        if isinstance(delivered, QueuePollResult) and member.polls.sent is not None:
            member.polls.sent.add(delivered)
