"""How facts of partitions that are owned here become durable, and what follows. The one way.

Whoever changes a partition holds its lock, judges, and submits the facts. A partition with facts on
their way is not handed over before they are settled. They are settled in the committer's thread:
a fence that they met is noted, and `then` is told whether they stand. A caller that gave up waiting
changes nothing of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Self

import structlog

from consumer_service.ownership.journal import Entry, Journal, committed
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.takeover import fact_of
from lakequeue.clock import wall_micros
from lakequeue.errors import CoordinationUnavailable, Stored
from queue_rules.queues.attempts import Move
from queue_rules.queues.record_facts import record_facts
from queue_tables.groups.facts import Fact, Kind
from serving.front.parking import Steps, finish

log = structlog.get_logger()

Then = Callable[[OwnedPartition, bool], object]
"""Called with the partition's lock held: (partition, whether its facts stand)."""


def _nothing(_held: OwnedPartition, _stands: bool) -> None:
    """What follows where nothing does."""


class Settlement:
    """One change of partitions. As a context manager it holds their locks, in one order for all."""

    def __init__(self, journal: Journal, owned: Iterable[OwnedPartition]) -> None:
        self._journal = journal
        self._held = sorted(owned, key=lambda one: one.key)
        self._entry = Entry([])
        self._durable: Future[object] | None = None
        self._settle: Callable[[Future[object]], None] = lambda _: None
        self._settled: Future[None] | None = None
        """Ends when all of it is settled here, and not only durable."""

    def __enter__(self) -> Self:
        for owned in self._held:
            owned.lock.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        for owned in reversed(self._held):
            owned.lock.release()
        settle, self._settle = self._settle, lambda _: None
        if self._durable is not None:
            # Not before: it may be durable by now, and would be settled in the midst of a change.
            self._durable.add_done_callback(settle)

    def submit(self, facts: list[Fact], then: Then = _nothing) -> None:
        """Queue facts of these partitions. Once; with the locks held.

        Raises `Overloaded` past the bound: then nothing is on its way.
        """
        self._entry, self._durable = self._journal.submit(facts)
        about = {fact.key for fact in facts}
        mine = [(owned, owned.epoch) for owned in self._held if owned.key in about]
        for owned, _ in mine:
            owned.pending += 1
        self._settled = Future()
        self._settle = partial(_settle, mine, self._entry, then, self._settled)

    def submit_moves(self, owned: OwnedPartition, moves: list[Move], then: Then = _nothing) -> None:
        """The same, of records of a queue group."""
        base = fact_of(Kind.TAKEN, owned, owned.generation, None, wall_micros())
        self.submit(record_facts(base, moves), then)

    def then(self, ended: Callable[[BaseException | None], object]) -> None:
        """Call `ended` when all is settled, with what it failed with, if there were any facts."""
        # As in `steps`.
        self._durable = None
        if self._settled is not None:
            self._settled.add_done_callback(lambda settled: ended(settled.exception()))

    @property
    def submitted(self) -> bool:
        """Whether there were any facts to make durable."""
        return self._settled is not None

    def steps(
        self, hint: str, stored: Stored | None = "unknown", *, gives_back: bool = False
    ) -> Steps[None]:
        """Until all is settled. Raises, and waits, as `committed`."""
        # Given up here: it has its callback, and that may have this object, a circle.
        self._durable = None
        if self._settled is not None:
            yield from committed(self._settled, hint, stored, gives_back=gives_back)

    def wait(self, hint: str, stored: Stored | None = "unknown") -> None:
        """`steps`, waiting in this thread."""
        finish(self.steps(hint, stored))

    def newer_epoch(self, owned: OwnedPartition) -> int | None:
        """Once it is settled: the epoch of whoever has fenced the partition; None: the facts stand.

        Somebody may have asked for their place without a newer epoch: then it is 0.
        """
        return self._entry.refused.get(owned.key)


def _settle(
    mine: Sequence[tuple[OwnedPartition, int]],
    entry: Entry,
    then: Then,
    settled: Future[None],
    submitted: Future[object],
) -> None:
    error = submitted.exception()
    stored = error is None
    for owned, epoch in mine:
        with owned.settled:
            owned.pending -= 1
            owned.superseded_by = entry.refused.get(owned.key, owned.superseded_by)
            try:
                if owned.epoch == epoch:
                    then(owned, stored and owned.key not in entry.refused)
            except Exception as e:
                # The other partitions are settled all the same, or none of them is let go again.
                log.exception("settlement.failed", partition=list(owned.key))
                error = error or e
            owned.settled.notify_all()
    if error is None:
        settled.set_result(None)
    else:
        settled.set_exception(error)


def check_trusted(owned: Iterable[OwnedPartition], hint: str) -> None:
    """Raise `CoordinationUnavailable` unless every lease is certainly held, after the commit.

    Otherwise a newer owner may have read the tables without it.
    """
    if not all(one.trusted() for one in owned):
        raise CoordinationUnavailable(
            "the lease could not be confirmed after the commit",
            hint=hint,
            stored="unknown",
            retry_after_s=1.0,
        )
