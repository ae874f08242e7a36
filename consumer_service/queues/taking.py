"""What one round takes for its polls, one after the other, as if each came by itself.

What is there is counted once, and anew only where something was taken. So each poll gets its fair
share of what the polls before it have left.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from consumer_service.members import Member
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.polls.poll_batch import PartitionBatch
from consumer_service.queues.fetch import Chunk, fetch_again, fetch_new, skip_expired
from consumer_service.queues.rounds import Ticket
from consumer_service.queues.settling import give_back
from consumer_service.queues.waiters import Waiters
from consumer_service.reading.tailer import Tailer
from consumer_service.reading.undecodable import OnUndecodable
from lakequeue.clock import wall_micros
from lakequeue.errors import OffsetOutOfRange
from lakequeue.wire.limits import DEFAULT_MAX_IN_FLIGHT
from queue_rules.queues.attempts import MOST_MOVES, Attempt, Standing
from queue_rules.queues.fair_share import FULL, Demand

_TOGETHER: Final = 6
"""So many polls begin with the same partition."""


class Taking:
    """One round. In one thread, for polls of one group that want the same topics."""

    def __init__(
        self,
        tailer: Tailer,
        waiters: Waiters,
        on_undecodable: OnUndecodable,
        max_poll_bytes: int,
        owned_partitions: OwnedPartitions,
        tickets: Sequence[Ticket],
    ) -> None:
        self._tailer = tailer
        self._waiters = waiters
        self._on_undecodable = on_undecodable
        self._max_poll_bytes = max_poll_bytes
        self._tickets = tickets
        self._group = tickets[0].member.group
        topics = tickets[0].member.request.topics
        self._mine = [
            owned
            for owned in owned_partitions.of_group(self._group)
            if owned.delivers
            and not owned.paused
            and owned.queue is not None
            and owned.topic in topics
        ]
        self._leaving: defaultdict[OwnedPartition, list[Attempt]] = defaultdict(list)
        for ticket in tickets:
            for owned, attempts in ticket.leaving:
                self._leaving[owned] += attempts
        asking = waiters.members(self._group) | {one.member.member_id for one in tickets}
        self._demand = Demand(asking, wall_micros())
        for owned in self._mine:
            self._count(owned)
        wanted = sum(min(one.most, _limit(one.member)) for one in tickets)
        begins = min(len(self._mine), -(-len(tickets) // _TOGETHER))
        self._share = -(-wanted // max(1, begins))
        """About so many records of a partition are wanted."""
        self._chunks: dict[OwnedPartition, Chunk] = {}
        self._failed: set[OwnedPartition] = set()
        """Where reading has failed, as one of the polls is told: the others try elsewhere."""
        self._served = self._turn = 0
        self._moves = 0
        """What has to be committed of all that was taken, about: the journal has a bound."""

    def all(self, keeps: Callable[[Ticket, list[PartitionBatch]], bool]) -> None:
        """Take for each; `keeps` is told what it gets, and says whether it is still wanted."""
        if not self._mine:
            return
        news, full, taken = 0, 0, 0
        for ticket in self._tickets:
            if not ticket.wanted():
                continue
            if taken > 2 * self._max_poll_bytes or self._moves >= MOST_MOVES:
                # Nobody has to hold so much at once.
                ticket.again = True
                continue
            batches: list[PartitionBatch] = []
            try:
                room = self._demand.room(
                    ticket.member.member_id, _limit(ticket.member), ticket.most
                )
                if room > 0:
                    self._take_all(ticket.member, room, batches)
                news += room > 0 or room == FULL
                if room == 0:
                    # News that woke it are for somebody who holds less.
                    self._waiters.stand_back(self._group, ticket.wake)
                    full += 1
            except Exception as error:  # noqa: BLE001 -- its poll raises it
                ticket.error = error
                news += 1
            if ticket.error is not None or not keeps(ticket, batches):
                for batch in batches:
                    give_back(batch, unsaid=True)
                continue
            taken += sum([batch.bytes for batch in batches])
        self._pass_on(news, of_full=False)
        self._pass_on(full, of_full=True)

    def _pass_on(self, news: int, *, of_full: bool) -> None:
        """Whoever is woken may find that others were faster, and wakes the next if more is left."""
        while news > 0 and any(map(self._has_more, self._mine)):
            if not self._waiters.news(self._group, of_full=of_full):
                return
            news -= 1

    def _take_all(self, member: Member, room: int, batches: list[PartitionBatch]) -> None:
        """Fill `batches`, in two rounds: what is due anywhere would else wait for its turn."""
        turn = self._turn_of(member) % len(self._mine)
        order = self._mine[turn:] + self._mine[:turn]
        left_bytes = self._max_poll_bytes
        for new in (False, True):
            for owned in self._with_some(order, new=new):
                if room <= 0 or left_bytes <= 0:
                    return
                if self._moves >= MOST_MOVES:
                    # Perhaps there was nothing to deliver among them: it looks again.
                    batches[-1].more = True
                    return
                batch = self._take(owned, member, room, left_bytes, new=new)
                if batch is not None:
                    batches.append(batch)
                    room -= len(batch.deliver)
                    left_bytes -= batch.bytes
                    self._moves += len(batch.moves)

    def _turn_of(self, member: Member) -> int:
        """Where it begins. A few that follow each other begin together: what is read is shared."""
        member.turn += 1
        if self._served % _TOGETHER == 0:
            self._turn = member.turn
        self._served += 1
        return self._turn

    def _with_some(self, order: list[OwnedPartition], *, new: bool) -> Iterator[OwnedPartition]:
        for owned in order:
            queue = owned.queue
            if owned in self._failed:
                continue
            if self._demand.is_due(owned) or (
                new
                and queue is not None
                and (owned.unflushed or queue.scan < self._tailer.end(owned.where))
            ):
                yield owned

    def _take(
        self, owned: OwnedPartition, member: Member, most: int, max_bytes: int, *, new: bool
    ) -> PartitionBatch | None:
        with owned.fetching:
            queue = owned.queue
            if queue is None:
                return None
            batch = PartitionBatch(owned, owned.epoch, queue)
            with owned.lock:
                batch.moves, owned.unflushed = owned.unflushed, []
            name, now = member.member_id, wall_micros()
            try:
                if self._demand.is_due(owned):
                    fetch_again(self._tailer, batch, queue, now, name, most, max_bytes)
                if new:
                    found, share = self._on_undecodable, self._share
                    fetch_new(
                        self._tailer,
                        batch,
                        queue,
                        now,
                        name,
                        most,
                        max_bytes,
                        found,
                        self._chunks,
                        share,
                    )
            except OffsetOutOfRange as expired:
                skip_expired(batch, queue, expired)
            except BaseException:
                give_back(batch, unsaid=True)
                self._failed.add(owned)
                raise
            with owned.lock:
                if member.visibility_ms is not None:
                    batch.keep_until(queue, now + member.visibility_ms * 1_000)
                if self._demand.is_due(owned):
                    self._count(owned)
                else:
                    end = self._tailer.end(owned.where)
                    self._demand.took(owned, queue, end, name, len(batch.deliver))
            return batch if batch.moves or batch.more else None

    def _count(self, owned: OwnedPartition) -> None:
        end = self._tailer.end(owned.where)
        with owned.lock:
            if owned.queue is not None:
                leaving = Counter(
                    one.member
                    for one in self._leaving.get(owned, ())
                    if owned.queue.is_newest(one, Standing.SETTLING)
                )
                self._demand.count(owned, owned.queue, end, leaving)

    def _has_more(self, owned: OwnedPartition) -> bool:
        with owned.lock:
            queue = owned.queue
            if queue is None:
                return False
            new = queue.held_back is None and queue.scan < self._tailer.end(owned.where)
            return new or queue.next_due() == 0


def _limit(member: Member) -> int:
    return member.request.max_in_flight or DEFAULT_MAX_IN_FLIGHT
