"""What a mode of groups does for its members: an interface, beside that of ownership."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from consumer_service.members import Member
from consumer_service.ownership.modes import Mode
from lakequeue.wire import AckAnswer, AckRequest, SettleAnswer
from serving.front.parking import Steps


class Answered(Protocol):
    """The records of one answer."""

    records: list[dict[str, Any]]
    number: int
    """Number of the poll, of those that say which answer they follow."""

    def take_back(self) -> None:
        """Nobody got the answer: the same is delivered again."""

    def keep_only(self, told: Mapping[tuple[str, int], int | None]) -> None:
        """Drop what must not leave, though it was gathered: `told` are the epochs in the answer."""


class Served(Mode, Protocol):
    """One mode, as the calls of members see it."""

    shares: bool
    """Any member that joined here works on whatever partition the node has."""

    def visibility_ms(self, options: Mapping[str, Any]) -> int | None:
        """How long a record is kept for a member; None: in this mode it is not."""

    def steps(
        self,
        member: Member,
        max_records: int,
        wait_s: float,
        gone: Callable[[], bool],
        after: int | None = None,
    ) -> Steps[Answered]:
        """Up to `max_records` records; waits at most `wait_s` seconds for the first."""

    def ack(self, member: Member, request: AckRequest) -> AckAnswer | SettleAnswer:
        """Make acks durable."""

    def before_leaving(self, member: Member, delivered: Answered) -> None:
        """Records are about to leave; at most once: they are done by then."""

    def begin_events(self, member: Member, last: str | None) -> None:
        """A stream of events begins, whose client got `last` last. The lock of polls is held."""

    def events_leave(self, member: Member, delivered: Answered) -> None:
        """These leave as events. The lock of polls is held."""


def take_back(member: Member, delivered: Answered) -> None:
    """The client of this poll has hung up: deliver the same again.

    For a numbered poll unless a newer one has begun: that has taken it back already, and may have
    delivered the same since.
    """
    if not delivered.number:
        delivered.take_back()
        return
    with member.polls.lock:
        if member.polls.begun == delivered.number:
            delivered.take_back()
            member.polls.answered.clear()
