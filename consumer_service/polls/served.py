"""What a mode of groups does for its members: an interface, beside that of ownership."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from consumer_service.members import Member
from consumer_service.ownership.modes import Mode
from consumer_service.polls.traces import handed_out
from consumer_service.reading.columns import InColumns
from lakequeue.wire import ARROW_STREAM, JSON, AckAnswer, AckRequest, SettleAnswer
from lakequeue.wire.cloud_events import BATCH, batch_of
from serving.front.messages import Answer, json_of
from serving.front.parking import Steps

Settling = Steps[AckAnswer] | Steps[SettleAnswer]
"""What acks come to."""


class Answered(Protocol):
    """The records of one answer."""

    records: Any
    """Dictionaries, or `InColumns`."""
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

    def ack(self, member: Member, request: AckRequest) -> Settling:
        """Make acks durable."""

    def before_leaving(self, member: Member, delivered: Answered) -> None:
        """Records are about to leave; at most once: they are done by then."""

    def begin_events(self, member: Member, last: str | None) -> None:
        """A stream of events begins, whose client got `last` last. The lock of polls is held."""

    def events_leave(self, member: Member, delivered: Answered) -> None:
        """These leave as events. The lock of polls is held."""


def take_back(member: Member, delivered: Answered) -> None:
    """The client of this poll has hung up, or did not read: deliver the same again.

    For a numbered poll if its answer is still remembered. Else a newer one has taken it back
    already, and may have delivered the same since.
    """
    if not delivered.number:
        delivered.take_back()
    else:
        with member.polls.lock:
            if all(number != delivered.number for number, _ in member.polls.answered):
                return
            delivered.take_back()
            member.polls.answered.clear()
    # A poll of its that waits has something to look at.
    member.wake.set()


def answer_of(
    member: Member,
    delivered: Answered,
    count: Callable[[str, int, int], object],
    beside: Mapping[str, object] = MappingProxyType({}),
    seconds: float = 0.0,
    *,
    events: bool = False,
) -> Answer:
    """What leaves with these records, `beside` with them. If nobody gets it, they come again.

    `count` is told the group, how many they are, and their bytes. `seconds`: since it was asked.
    `events`: as CloudEvents, and of `beside` only the number of the poll, in a header. `InColumns`
    leave in their form.
    """
    if events:
        number = [("Lakequeue-Poll", str(beside["poll"]))] if "poll" in beside else []
        answer = Answer(200, batch_of(delivered.records), BATCH, number)
    elif delivered.records and isinstance(delivered.records, InColumns):
        kind = ARROW_STREAM if delivered.records.form == "arrow" else JSON
        answer = Answer(200, delivered.records.body(beside), kind)
    else:
        answer = json_of({"records": list(delivered.records), **beside})
    handed_out(member.group, delivered.records, seconds)
    count(member.group, len(delivered.records), len(answer.body))
    if delivered.records:
        # To take them back they need no memory of their own, beside the answer's.
        delivered.records = []
        answer.lost = partial(take_back, member, delivered)
    return answer
