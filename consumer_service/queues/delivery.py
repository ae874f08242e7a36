"""What a poll of a queue group does: take records, make their deliveries durable, hand them out.

The facts *delivered*, with deadline and attempt, are committed before the answer leaves; so
whoever takes the partition over knows every attempt that a consumer can have seen.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from consumer_service.members import Member
from consumer_service.ownership.journal import COMMIT_TIMEOUT_S, Journal, hangs
from consumer_service.ownership.owned_partition import OwnedPartition, OwnedPartitions
from consumer_service.ownership.settlement import Settlement
from consumer_service.ownership.takeover import fact_of
from consumer_service.polls.poll_batch import PartitionBatch, QueuePollResult
from consumer_service.polls.waiting import begin, wait_for_records, woken
from consumer_service.queues.brought import Brought
from consumer_service.queues.due_timer import DueTimer
from consumer_service.queues.rounds import Round, Rounds, Ticket
from consumer_service.queues.settling import (
    condemn,
    done_of,
    give_back,
    hold,
    may_leave,
    next_due,
    pass_unread,
    settle,
)
from consumer_service.queues.taking import Taking
from consumer_service.queues.waiters import Waiters
from consumer_service.reading.encode import queue_delivered
from consumer_service.reading.tailer import Tailer
from consumer_service.reading.undecodable import OnUndecodable, ignore
from lakequeue.clock import boot_seconds, wall_micros
from lakequeue.steps import Step, reach
from lakequeue.wire import UNDECODABLE
from queue_rules.predicates.of_group import predicate_in
from queue_rules.queues.attempts import Attempt
from queue_rules.queues.record_facts import record_facts
from queue_rules.queues.undecodable_policy import policy_in
from queue_tables.groups.facts import Fact, Kind
from serving.front.parking import BLOCKS, Done, Steps, Until, Wake

_LONG_RECORDS, _LONG_BYTES = 1_000, 1 << 20
"""An answer of more is made in a thread: it takes up to 50 ms, and an event loop has others."""


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
        run: Callable[[Callable[[], object]], object] = lambda work: work(),
    ) -> None:
        """`run` does what may block: elsewhere, so that polls never do."""
        self._tailer = tailer
        self._owned_partitions = owned_partitions
        self._journal = journal
        self._waiters = waiters
        self._timer = timer
        self._max_poll_bytes = max_poll_bytes
        self._on_dying = on_dying
        self._on_undecodable = on_undecodable
        self._run = run
        self._rounds = Rounds(self._serve, self._soon)
        self.rush = self._rounds.rush
        """Whether more polls are just being read."""

    def steps(
        self,
        member: Member,
        max_records: int,
        wait_s: float,
        gone: Callable[[], bool],
        after: int | None = None,
        brought: Brought | None = None,
    ) -> Steps[QueuePollResult]:
        """Up to `max_records` records; waits at most `wait_s` seconds for the first.

        As `Delivery.steps`; `after` gives back what was in answers that got lost. What was
        `brought` along is durable before anything is waited for.
        """
        number = yield from begin(member, after)
        if brought is not None:
            yield from brought.begin()
        group = member.group
        with woken(member) as wake, self._waiters.asking(group, wake, member.member_id):
            enter = partial(self._waiters.enter, group, wake)
            look = partial(self._look, member, wake, max_records, number, gone, brought)
            found = yield from wait_for_records(member, wake, wait_s, gone, enter, look)
        return found or QueuePollResult()

    def _look(
        self,
        member: Member,
        wake: Wake,
        max_records: int,
        number: int,
        gone: Callable[[], bool],
        brought: Brought | None,
    ) -> Steps[QueuePollResult | None]:
        """What there is now; None when a newer poll has begun."""

        def wanted() -> bool:
            newest = not number or member.polls.begun == number
            return newest and member.active and not gone()

        if number and member.polls.begun != number:
            return None
        delivered = yield from self._gather(member, wake, max_records, wanted, brought)
        if brought is not None:
            try:
                yield from brought.end()
            except BaseException:
                delivered.take_back()
                raise
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

    def _gather(
        self,
        member: Member,
        wake: Wake,
        max_records: int,
        wanted: Callable[[], bool],
        brought: Brought | None,
    ) -> Steps[QueuePollResult]:
        news = partial(self._waiters.news, member.group)
        kind: Hashable = member.group, *member.request.topics
        if predicate_in(member.options) is not None:
            # A look can take long, and holds up nobody.
            kind = object()
        leaving = () if brought is None else brought.leaving()
        ticket = self._rounds.join(kind, member, wake, max_records, wanted, leaving)
        try:
            yield from self._served(ticket)
            if _is_long(ticket):
                yield BLOCKS
            return self._handed_out(ticket, news)
        except BaseException:
            self._rounds.leave(ticket)
            for batch in ticket.batches:
                give_back(batch)
            news()
            raise

    @staticmethod
    def _served(ticket: Ticket) -> Steps[None]:
        """Until what it has got is durable."""
        # At most once: they are done with this, and nobody else would get them.
        gives_back = ticket.member.request.delivery != "at_most_once"
        # It may be put into another round, before the end of this one.
        while not ((joined := ticket.round).end.done() and joined is ticket.round):
            since = joined.submitted_at
            left = COMMIT_TIMEOUT_S if since is None else since + COMMIT_TIMEOUT_S - boot_seconds()
            if left <= 0:
                raise hangs("nothing was delivered; poll again", None)
            yield Until(Done(joined.end), left, minds=False, gives_back=gives_back)
        if ticket.error is not None:
            raise ticket.error

    # -- a round, in a thread of its own ----------------------------------------------------------

    def _soon(self, work: Callable[[], object]) -> None:
        """Take for a round, elsewhere. A commit waits a moment for it, so that acks that came with
        its polls need none of their own."""

        def there() -> None:
            try:
                work()
            finally:
                self._journal.rush(False)

        self._journal.rush(True)
        try:
            self._run(there)
        except BaseException:
            self._journal.rush(False)
            raise

    def _serve(self, served: Round) -> None:
        """Take for all who have come, and have it committed."""
        try:
            Taking(
                self._tailer,
                self._waiters,
                self._on_undecodable,
                self._max_poll_bytes,
                self._owned_partitions,
                served.tickets,
            ).all(self._rounds.keeps)
            self._rounds.put_back(served)
            submitted = self._submit(served)
        except BaseException as error:  # noqa: BLE001 -- each of its polls raises it
            submitted = False
            for ticket in served.tickets:
                ticket.error = ticket.error or error
                for batch in ticket.batches:
                    give_back(batch, unsaid=True)
        if not submitted:
            served.ended()

    def _submit(self, served: Round) -> bool:
        """Have all that the polls take committed, by one submission; False: it is nothing."""
        given = [(one, batch) for one in served.tickets for batch in one.batches if batch.moves]
        facts: list[Fact] = []
        about: dict[OwnedPartition, list[tuple[PartitionBatch, bool]]] = {}
        with Settlement(self._journal, {batch.owned for _, batch in given}) as settlement:
            at = wall_micros()
            for ticket, batch in given:
                owned, once = batch.owned, ticket.once
                if ticket.gone or not may_leave(batch, ticket.member):
                    # Mostly it goes away, and this state with it; but trust can come back.
                    give_back(batch, unsaid=True)
                    ticket.batches = [one for one in ticket.batches if one is not batch]
                    continue
                batch.keep_newest()
                base = fact_of(Kind.TAKEN, owned, owned.generation, None, at)
                facts += record_facts(base, done_of(batch.moves) if once else batch.moves)
                about.setdefault(owned, []).append((batch, once))
            if not facts:
                return False
            settlement.submit(facts, partial(_settle_all, about))
            for batch, once in chain.from_iterable(about.values()):
                batch.settlement = settlement
                if once:
                    hold(batch)
        served.submitted_at = boot_seconds()
        settlement.then(partial(_ended, served))
        for batch, _ in chain.from_iterable(about.values()):
            if (due := next_due(batch)) is not None:
                self._timer.expect(due)
        return True

    # -- back at the poll -------------------------------------------------------------------------

    def _handed_out(self, ticket: Ticket, news: Callable[[], object]) -> QueuePollResult:
        """The records whose delivery is durable and still ours."""
        batches = ticket.batches
        delivered = QueuePollResult(news=news, more=any(batch.more for batch in batches))
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
                give_back(batch)
                continue
            if any(move.kind is Kind.DYING for move in batch.moves):
                self._on_dying()
            if batch.deliver:
                self._hand_out(batch, delivered, once=ticket.once)
        return delivered

    def _hand_out(self, batch: PartitionBatch, delivered: QueuePollResult, *, once: bool) -> None:
        """Add the records, but for those that went to another while the commit was awaited."""
        owned = batch.owned
        with owned.lock:
            queue = owned.queue
            kept = [
                place
                for place, one in enumerate(batch.deliver)
                if once or (queue is not None and queue.is_newest(one))
            ]
            if owned.paused and not once and queue is not None:
                # Paused while the commit was awaited: nobody gets it.
                queue.give_back((one.offset, one.attempt) for one in batch.deliver)
                return
        some = [batch.deliver[place] for place in kept]
        plain = [batch.records[place] for place in kept]
        records = queue_delivered(plain, owned.key, owned.generation, some)
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


def _is_long(ticket: Ticket) -> bool:
    batches = ticket.batches
    records = sum([len(batch.deliver) for batch in batches])
    return records > _LONG_RECORDS or sum([batch.bytes for batch in batches]) > _LONG_BYTES


def _settle_all(
    about: Mapping[OwnedPartition, Sequence[tuple[PartitionBatch, bool]]],
    owned: OwnedPartition,
    stands: bool,
) -> None:
    for batch, once in about[owned]:
        settle(batch, once, owned, stands)


def _ended(served: Round, failure: BaseException | None) -> None:
    """In the committer's thread: all of a round is settled."""
    if failure is not None:
        for ticket in served.tickets:
            if any(batch.settlement is not None for batch in ticket.batches):
                ticket.error = ticket.error or failure
    served.ended()
