"""Stream groups, for ownership and for the calls of members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from consumer_service.members import Member, Members
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.ownership.positions import Consumed, Position, consumed_of
from consumer_service.polls.sent_events import START
from consumer_service.polls.served import Answered
from consumer_service.reading.tailer import Tailer
from consumer_service.streams.acks import Acks
from consumer_service.streams.delivery import Delivery
from lakequeue.records import TopicPartition
from lakequeue.wire import AckAnswer, AckRequest, parse_receipt
from queue_rules.streams.commit_request import commit_requests_of
from queue_rules.streams.cursor import Cursor
from queue_tables.groups.facts import GroupState, Key
from queue_tables.topics import TopicStore
from serving.front.parking import BLOCKS, Steps, finish


class Streams:
    """Partitions in order; each belongs to one member, and a position is committed."""

    shares = False

    def __init__(
        self,
        members: Members,
        owned_partitions: OwnedPartitions,
        delivery: Delivery,
        acks: Acks,
        topics: TopicStore,
        tailer: Tailer,
    ) -> None:
        self._members = members
        self._owned_partitions = owned_partitions
        self.steps = delivery.steps
        self._acks = acks
        self._topics = topics
        self._tailer = tailer

    def holder(self, member_id: str) -> str:
        """The member."""
        return member_id

    def consumed(
        self, state: GroupState | None, key: Key, marks: Mapping[str, int]
    ) -> Consumed | None:
        """By the marks of transforms."""
        return consumed_of(state, key, marks)

    def open(self, owned: OwnedPartition, _state: GroupState | None, position: Position) -> None:
        """With a cursor at the position."""
        owned.cursor = Cursor(position.offset)

    def taken(self, some: Sequence[OwnedPartition]) -> None:
        """Their members may wait for them."""
        self._members.wake({owned.member for owned in some})

    def grown(self, some: Sequence[OwnedPartition]) -> None:
        """Their members may wait for records."""
        for owned in some:
            owned.look_again()
        self._members.wake({owned.member for owned in some})

    def visibility_ms(self, _options: Mapping[str, Any]) -> int | None:
        """None: a record is the member's for as long as the partition is."""
        return None

    def ack(self, member: Member, request: AckRequest) -> Steps[AckAnswer]:
        """See `Acks.commit` for the errors."""
        if any(self._topics.known(name) is None for name in member.request.topics):
            yield BLOCKS
        wanted = commit_requests_of(member.group, request, self._ids(member))
        places = {key: TopicPartition(key.topic_id, key.partition) for key in wanted}
        if None in map(self._tailer.known_end, places.values()):
            # It is owned by another node, or was not polled here yet.
            yield BLOCKS
        ends = {key: self._tailer.end(where) for key, where in places.items()}
        through = request.commit_through
        answer = yield from self._acks.commit(member.member_id, wanted, ends, through=through)
        member.liveness.progress(member.liveness.seen)
        return answer

    def before_leaving(self, member: Member, delivered: Answered) -> None:
        """At most once: what is about to leave is committed first."""
        if member.request.delivery != "at_most_once" or not delivered.records:
            return
        request = AckRequest(acks=[record["receipt"] for record in delivered.records])
        wanted = commit_requests_of(member.group, request, self._ids(member))
        finish(self._acks.commit(member.member_id, wanted, {}, through=True))

    def begin_events(self, member: Member, last: str | None) -> None:
        """Take back what was delivered after `last`, in other partitions what is not acked."""
        if not last:
            return
        arrived = None if last == START else parse_receipt(last)
        for owned in self._owned_partitions.of_member(member.group, member.member_id):
            with owned.fetching, owned.lock:
                after = owned.cursor.accepted
                if arrived is not None:
                    topic_id, partition, offset, epoch, _ = arrived
                    key = owned.key
                    if (key.topic_id, key.partition, owned.epoch) == (topic_id, partition, epoch):
                        after = offset + 1
                owned.rewind(after)

    def events_leave(self, _member: Member, _delivered: Answered) -> None:
        """The cursors know."""

    def _ids(self, member: Member) -> dict[str, str]:
        return {name: self._topics.get(name).topic_id for name in member.request.topics}
