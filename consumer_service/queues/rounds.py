"""Polls of one group that come together are served together: one round takes for all of them.

To count what is there, to lock the partitions, to read ahead and to commit costs as much for one
poll as for fifty. While a round takes, those who come wait for the next one; what a round has taken
is committed while the next one takes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from consumer_service.members import Member
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.polls.poll_batch import PartitionBatch
from lakequeue.clock import boot_seconds
from queue_rules.queues.attempts import Attempt

Leaving = Sequence[tuple[OwnedPartition, Sequence[Attempt]]]
"""Attempts that are being settled."""
MOST: Final = 64
"""Polls of a round."""
RUSH_S: Final = 0.015
"""So long a round waits at most for polls that are just being read."""


@dataclass(slots=True, eq=False)
class Ticket:
    """One poll."""

    member: Member
    wake: threading.Event
    """Its place among those that wait."""
    most: int
    """Records that it wants."""
    round: Round
    """Where it is served."""
    wanted: Callable[[], bool]
    """Whether anybody would get what it takes."""
    leaving: Leaving
    """What is out no more when its member gets others: acks that came with the poll."""
    batches: list[PartitionBatch] = field(default_factory=list)
    """What it has got."""
    error: BaseException | None = None
    """Why it gets nothing."""
    again: bool = False
    """The round is full: it comes first in the next one."""
    gone: bool = False
    """Nobody waits for it any more."""

    @property
    def once(self) -> bool:
        """What it gets is done when it leaves."""
        return self.member.request.delivery == "at_most_once"


@dataclass(slots=True, eq=False)
class Round:
    """Polls that are served together, in the order in which they came."""

    kind: Hashable
    tickets: list[Ticket] = field(default_factory=list)
    end: Future[None] = field(default_factory=Future)
    """When what was taken is durable, or never will be; nothing is told here."""
    submitted_at: float | None = None

    def ended(self) -> None:
        """All that was taken is settled: tell its polls."""
        # They know it, and what they have got must not live on in a circle.
        self.tickets = []
        self.end.set_result(None)


@dataclass(slots=True, eq=False)
class _Line:
    """The rounds of one kind of polls."""

    waiting: list[Round] = field(default_factory=list)
    """Those that have not begun; polls may join the last."""
    taking: bool = False


class Rounds:
    """Thread-safe. One round of a kind takes at a time."""

    def __init__(
        self, serve: Callable[[Round], object], run: Callable[[Callable[[], object]], object]
    ) -> None:
        """`serve` takes for all tickets of a round and raises nothing; `run` does work, elsewhere
        or at once."""
        self._serve = serve
        self._run = run
        self._lock = threading.Lock()
        self._lines: dict[Hashable, _Line] = {}
        self._rush = False
        self._rush_at = 0.0

    def rush(self, on: bool) -> None:
        """Whether more polls are just being read: they had better come into one round."""
        with self._lock:
            self._rush, self._rush_at = on, boot_seconds()
            begin = [] if on else self._all_that_can()
        self._run_all(begin)

    def join(
        self,
        kind: Hashable,
        member: Member,
        wake: threading.Event,
        most: int,
        wanted: Callable[[], bool] = lambda: True,
        leaving: Leaving = (),
    ) -> Ticket:
        """A place in the next round of the kind."""
        with self._lock:
            line = self._lines.setdefault(kind, _Line())
            if not line.waiting or len(line.waiting[-1].tickets) >= MOST:
                line.waiting.append(Round(kind))
            joined = line.waiting[-1]
            ticket = Ticket(member, wake, most, joined, wanted, leaving)
            joined.tickets.append(ticket)
            if self._rush and boot_seconds() - self._rush_at > RUSH_S:
                # It lasts, and must not hold up those who came first.
                self._rush = False
                begin = self._all_that_can()
            else:
                begin = [kind] if self._can_begin(line) else []
                line.taking |= bool(begin)
        self._run_all(begin)
        return ticket

    def put_back(self, served: Round) -> None:
        """Those of a round under way that it has no room for come first in the next.

        Before its end is told: from then on they wait for that of the other.
        """
        left = [ticket for ticket in served.tickets if ticket.again]
        if not left:
            return
        served.tickets = [ticket for ticket in served.tickets if not ticket.again]
        following = Round(served.kind, left)
        for ticket in left:
            ticket.round, ticket.again = following, False
        with self._lock:
            self._lines[served.kind].waiting.insert(0, following)

    def leave(self, ticket: Ticket) -> None:
        """Nobody waits for it any more: what it has got has to be given back."""
        with self._lock:
            ticket.gone = True

    def keeps(self, ticket: Ticket, batches: list[PartitionBatch]) -> bool:
        """It has got this; False: nobody wants it."""
        with self._lock:
            if not ticket.gone:
                ticket.batches = batches
            return not ticket.gone

    def _can_begin(self, line: _Line) -> bool:
        return not line.taking and self._waits(line)

    def _waits(self, line: _Line) -> bool:
        """Whether its next round waits for nobody."""
        if not line.waiting:
            return False
        return not self._rush or len(line.waiting[0].tickets) >= MOST

    def _all_that_can(self) -> list[Hashable]:
        """The kinds that somebody has to take for now; who asks does."""
        some = [kind for kind, line in self._lines.items() if self._can_begin(line)]
        for kind in some:
            self._lines[kind].taking = True
        return some

    def _run_all(self, kinds: Iterable[Hashable]) -> None:
        for kind in kinds:
            self._run(partial(self._take, kind))

    def _take(self, kind: Hashable) -> None:
        """Serve the next round of a kind. Then it is the turn of other kinds, if it has more."""
        with self._lock:
            served = self._lines[kind].waiting.pop(0)
        self._serve(served)
        with self._lock:
            line = self._lines[kind]
            line.taking = self._waits(line)
            if not line.waiting:
                del self._lines[kind]
            begin = [kind] if line.taking else []
        self._run_all(begin)
