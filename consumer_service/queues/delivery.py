"""What a poll of a queue group does: take records, make their deliveries durable, hand them out.

The facts *delivered*, with deadline and attempt, are committed before the answer leaves; so
whoever takes the partition over knows every attempt that a consumer can have seen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from consumer_service.members import Member
from consumer_service.ownership.journal import Journal
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.ownership.settlement import Settlement
from consumer_service.polls.poll_batch import PartitionBatch, QueuePollResult, picked
from consumer_service.polls.waiting import begin, wait_for_records
from consumer_service.queues.due_timer import DueTimer
from consumer_service.queues.fetch import fetch_again, fetch_new, skip_expired
from consumer_service.queues.settling import condemn, owed_of, pass_unread, settle
from consumer_service.queues.waiters import Waiters
from consumer_service.reading.encode import queue_records_of
from consumer_service.reading.tailer import Tailer
from consumer_service.reading.undecodable import OnUndecodable, ignore
from lakequeue.clock import wall_micros
from lakequeue.errors import OffsetOutOfRange
from lakequeue.steps import Step, reach
from lakequeue.wire import UNDECODABLE
from lakequeue.wire.limits import DEFAULT_MAX_IN_FLIGHT
from queue_rules.queues.attempts import Attempt
from queue_rules.queues.fair_share import FULL, Demand
from queue_rules.queues.undecodable_policy import policy_in
from queue_tables.groups.facts import Kind
from serving.front.parking import Steps


class QueueDelivery:
    """Serves polls of queue groups; thread-safe."""

    def __init__(
        self,
        tailer: Tailer,
        owned_partitions: OwnedPartitions,
        journal: Journal,
        waiters: Waiters,
        timer: DueTimer,
        max_poll_bytes: int,
        on_dying: Callable[[], None],
        on_undecodable: OnUndecodable = ignore,
    ) -> None:
        self._tailer = tailer
        self._owned_partitions = owned_partitions
        self._journal = journal
        self._waiters = waiters
        self._timer = timer
        self._max_poll_bytes = max_poll_bytes
        self._on_dying = on_dying
        self._on_undecodable = on_undecodable

    def steps(
        self,
        member: Member,
        max_records: int,
        wait_s: float,
        gone: Callable[[], bool],
        after: int | None = None,
    ) -> Steps[QueuePollResult]:
        """Up to `max_records` records; waits at most `wait_s` seconds for the first.

        As `Delivery.steps`; `after` gives back what was in answers that got lost.
        """
        number = begin(member, after)
        enter = partial(self._waiters.enter, member.group, member.wake)
        look = partial(self._look, member, max_records, number)
        with self._waiters.asking(member.group, member.wake, member.member_id):
            found = yield from wait_for_records(member, wait_s, gone, enter, look)
        return found or QueuePollResult()

    def _look(self, member: Member, max_records: int, number: int) -> Steps[QueuePollResult | None]:
        """What there is now; None when a newer poll has begun."""
        if number and member.polls.begun != number:
            return None
        delivered = yield from self._gather(member, max_records)
        if not number or not delivered.records:
            return delivered
        # Remember the answer until the next poll says that it has arrived.
        with member.polls.lock:
            if member.polls.begun != number:
                delivered.take_back()
                return None
            delivered.number = number
            unconfirmed = QueuePollResult([], delivered.taken, number, news=delivered.news)
            member.polls.answered.append((number, unconfirmed))
        return delivered

    # -- one look ---------------------------------------------------------------------------------

    def _gather(self, member: Member, max_records: int) -> Steps[QueuePollResult]:
        news = partial(self._waiters.news, member.group)
        mine = [
            owned
            for owned in self._owned_partitions.of_group(member.group)
            if owned.delivers
            and not owned.paused
            and owned.queue is not None
            and owned.topic in member.request.topics
        ]
        if not mine:
            return QueuePollResult()
        room = self._room(member, mine, max_records)
        if room <= 0:
            if room == FULL and any(self._has_more(owned) for owned in mine):
                news()  # it was for somebody who holds less
            return QueuePollResult()
        member.turn += 1
        turn = member.turn % len(mine)
        batches: list[PartitionBatch] = []
        try:
            self._take_all(mine[turn:] + mine[:turn], member, room, batches)
            if any(self._has_more(owned) for owned in mine):
                news()
            return (yield from self._commit(member, batches, news))
        except BaseException:
            for batch in batches:
                self._give_back(batch)
            news()
            raise

    def _take_all(
        self, order: list[OwnedPartition], member: Member, room: int, batches: list[PartitionBatch]
    ) -> None:
        """Fill `batches`, in two rounds: what is due anywhere would else wait for its turn."""
        left_bytes = self._max_poll_bytes
        for new in (False, True):
            for owned in order if new else filter(_is_due, order):
                if room <= 0 or left_bytes <= 0:
                    return
                batch = self._take(owned, member, room, left_bytes, new=new)
                if batch is not None:
                    batches.append(batch)
                    room -= len(batch.deliver)
                    left_bytes -= batch.bytes

    def _room(self, member: Member, mine: list[OwnedPartition], most: int) -> int:
        """How many records this poll may take: its own bound, and a fair share; `FULL`: none."""
        limit = member.request.max_in_flight or DEFAULT_MAX_IN_FLIGHT
        asking = self._waiters.members(member.group) | {member.member_id}
        demand = Demand(member.member_id, asking, wall_micros())
        for owned in mine:
            with owned.lock:
                if owned.queue is not None:
                    demand.count(owned.queue, self._tailer.end(owned.where))
        return demand.room(limit, most)

    def _has_more(self, owned: OwnedPartition) -> bool:
        with owned.lock:
            queue = owned.queue
            if queue is None:
                return False
            new = queue.held_back is None and queue.scan < self._tailer.end(owned.where)
            return new or queue.next_due() == 0

    def _take(
        self, owned: OwnedPartition, member: Member, most: int, max_bytes: int, *, new: bool
    ) -> PartitionBatch | None:
        with owned.fetching:
            epoch, queue = owned.epoch, owned.queue
            if queue is None:
                return None
            batch = PartitionBatch(owned, epoch)
            with owned.lock:
                batch.moves, owned.unflushed = owned.unflushed, []
            name = member.member_id
            now = wall_micros()
            try:
                fetch_again(self._tailer, batch, queue, now, name, most, max_bytes)
                if new:
                    bad = self._on_undecodable
                    fetch_new(self._tailer, batch, queue, now, name, most, max_bytes, bad)
            except OffsetOutOfRange as expired:
                skip_expired(batch, queue, expired)
            except BaseException:
                self._give_back(batch, unsaid=True)
                raise
            if not batch.moves:
                return batch if batch.more else None
            if member.visibility_ms is not None:
                with owned.lock:
                    batch.keep_until(queue, now + member.visibility_ms * 1_000)
            try:
                submitted = self._submit(batch, member)
            except BaseException:
                self._give_back(batch, unsaid=True)
                raise
            if not submitted:
                self._give_back(batch, unsaid=True)
            return batch if submitted else None

    # -- making it durable ------------------------------------------------------------------------

    def _submit(self, batch: PartitionBatch, member: Member) -> bool:
        owned = batch.owned
        once = member.request.delivery == "at_most_once"
        moves = batch.moves
        if once:
            moves = [m._replace(kind=Kind.ACKED) if m.kind is Kind.DELIVERED else m for m in moves]
        with Settlement(self._journal, [owned]) as settlement:
            # Whoever leaves has had his records returned under this lock: none may follow.
            idle = owned.paused or not owned.delivers or not member.active
            if idle or owned.epoch != batch.epoch or not owned.trusted():
                # Mostly the partition goes away, and this state with it; but trust can come back.
                return False
            settlement.submit_moves(owned, moves, partial(settle, batch, once))
            batch.settlement = settlement
            if once and owned.queue is not None:
                # They may be done by now: if their consumer goes meanwhile, no other gets them.
                for one in batch.deliver:
                    owned.queue.begin(one.offset, one.attempt, 0)
        for move in moves:
            if move.kind in {Kind.DELIVERED, Kind.PARKED}:
                self._timer.expect(move.until)
        return True

    def _commit(
        self, member: Member, batches: list[PartitionBatch], news: Callable[[], object]
    ) -> Steps[QueuePollResult]:
        """Wait for the facts; the records whose delivery is durable and still ours."""
        delivered = QueuePollResult(news=news, more=any(batch.more for batch in batches))
        once = member.request.delivery == "at_most_once"
        hint = "nothing was delivered; poll again"
        for batch in batches:
            if batch.settlement is not None:
                # At most once: they are done with this, and nobody else would get them.
                yield from batch.settlement.steps(hint, stored=None, gives_back=not once)
        if any(batch.deliver for batch in batches):
            reach(Step.QUEUE_DELIVERED)
        for batch in batches:
            owned = batch.owned
            settlement, batch.settlement = batch.settlement, None
            if (
                settlement is None
                or settlement.newer_epoch(owned) is not None
                or not owned.trusted()
            ):
                self._give_back(batch)
                continue
            if any(move.kind is Kind.DYING for move in batch.moves):
                self._on_dying()
            if batch.deliver:
                self._hand_out(batch, delivered, once=once)
        return delivered

    def _hand_out(self, batch: PartitionBatch, delivered: QueuePollResult, *, once: bool) -> None:
        """Add the records, but for those that went to another while the commit was awaited."""
        owned, rows = batch.owned, pa.concat_tables(batch.rows)
        with owned.lock:
            queue = owned.queue
            kept = [
                place
                for place, one in enumerate(batch.deliver)
                if once or (queue is not None and queue.is_newest(one))
            ]
            if owned.paused and not once and queue is not None:
                # Paused while the commit was awaited: the attempt counts, and nobody gets it.
                queue.give_back((one.offset, one.attempt) for one in batch.deliver)
                return
        some = [batch.deliver[place] for place in kept]
        rows = picked(rows, kept)
        records = queue_records_of(rows, owned.key, owned.generation, some)
        if any(UNDECODABLE in record for record in records):
            self._on_undecodable(owned.key.group, records)
            records, some = self._without_unread(owned, records, some, once=once)
        delivered.records += records
        attempts = [(one.offset, one.attempt) for one in some]
        delivered.taken.append((owned, batch.epoch, attempts))

    def _without_unread(
        self,
        owned: OwnedPartition,
        records: list[dict[str, Any]],
        some: list[Attempt],
        *,
        once: bool,
    ) -> tuple[list[dict[str, Any]], list[Attempt]]:
        """Those that are handed out, as the group has it of what cannot be read."""
        policy = policy_in(owned.options, "queue")
        if policy == "tombstone" or (policy == "dead_letter" and once):
            return records, some
        unread = [one for one, r in zip(some, records, strict=True) if UNDECODABLE in r]
        if policy == "dead_letter":
            condemn(owned, unread)
            self._on_dying()
        elif not once:
            pass_unread(owned, unread, self._journal)
        readable = [at for at, record in enumerate(records) if UNDECODABLE not in record]
        return [records[at] for at in readable], [some[at] for at in readable]

    @staticmethod
    def _give_back(batch: PartitionBatch, *, unsaid: bool = False) -> None:
        """No answer has these records; `unsaid`: and its facts are not on their way."""
        owned = batch.owned
        with owned.lock:
            if owned.epoch == batch.epoch and owned.queue is not None:
                owned.queue.never_left(batch.deliver)
                if unsaid:
                    owned.unflushed += owed_of(batch)


def _is_due(owned: OwnedPartition) -> bool:
    """Whether something that was seen before can be delivered again now."""
    with owned.lock:
        due = None if owned.queue is None else owned.queue.next_due()
    return due is not None and due <= wall_micros()
