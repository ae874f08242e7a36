"""What a member of a group holds: partitions, records fetched ahead, acknowledgements to send.

Rules only. A record is handed out only while its partition is held under the epoch that it was
delivered under; an acknowledgement of anything else is refused here, before it is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from lakequeue.client.fetched import Batches, Given, Place, Run, parts_of
from lakequeue.client.message import Message
from lakequeue.errors import EpochSuperseded, LakequeueError, SkippedRecords
from lakequeue.wire import Assigned, Consumed, parse_receipt

_TAKEN_OVER = "the new owner gets its records again; no action is needed"
_STUCK = (
    "commit more often, or give the consumer a larger max_poll_interval_ms (the service's default "
    "is 300000, five minutes); its records are delivered again"
)


@dataclass(frozen=True, slots=True)
class Lost:
    """A partition that this consumer does not own any more."""

    topic: str
    """Name of the topic."""
    partition: int
    """Partition of the topic."""
    epoch: int | None
    """Epoch that we held it under."""
    current_epoch: int | None
    """Epoch of the new owner, when it is known."""
    reason: str
    """Why it went, in words."""

    def error(self, group: str) -> EpochSuperseded:
        """What an acknowledgement for it meets.

        Args:
            group: Name of the group, for the text.

        Returns:
            The error.
        """
        current = "a newer one" if self.current_epoch is None else self.current_epoch
        return EpochSuperseded(
            f"{self.topic}/{self.partition} of group {group}: epoch {self.epoch} presented, "
            f"{current} current ({self.reason})",
            hint=_STUCK if "max_poll_interval_ms" in self.reason else _TAKEN_OVER,
            topic=self.topic,
            partition=self.partition,
            epoch=self.epoch,
            current_epoch=self.current_epoch,
        )


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records of one partition that follow one another, and the offsets that they stand for."""

    group: str
    messages: list[Message]
    from_offset: int
    """Where the last range of offsets ended, or the ownership began."""
    next_offset: int
    generation: int

    @property
    def topic(self) -> str:
        """Name of the topic."""
        return self.messages[0].topic

    @property
    def topic_id(self) -> str:
        """Id of this incarnation of the topic."""
        return parse_receipt(self.messages[0].receipt)[0]

    @property
    def partition(self) -> int:
        """Partition of the topic."""
        return self.messages[0].partition

    def below(self, offset: int) -> OffsetRange | None:
        """The part of it below `offset`; None if there is none."""
        messages = [m for m in self.messages if m.offset < offset]
        if not messages:
            return None
        end = self.next_offset if len(messages) == len(self.messages) else offset
        return replace(self, messages=messages, next_offset=end)

    @property
    def consumed(self) -> Consumed:
        """As a produce request says it."""
        return Consumed(
            group=self.group,
            topic=self.topic,
            topic_id=self.topic_id,
            partition=self.partition,
            from_offset=self.from_offset,
            next_offset=self.next_offset,
            epoch=self.messages[0].epoch or 0,
            generation=self.generation,
        )


class FetchBuffer:
    """The partitions of one consumer, over all its memberships."""

    def __init__(self, group: str) -> None:
        self.membership = 0
        self.assignment: dict[Place, int | None] = {}
        self.refusal: LakequeueError | None = None
        """First acknowledgement that was refused since somebody last asked."""
        self.queued = 0
        """Acknowledgements made; the number of the newest."""
        self.settled = 0
        """All acknowledgements up to this number are durable or refused."""
        self.group = group
        self.ready = 0
        """Records that wait to be handed out."""
        self._starts: dict[Place, Assigned] = {}
        self._consumed_to: dict[Place, int] = {}
        self._version = -1
        self._ready: deque[Run] = deque()
        self._unacked: dict[Place, deque[int]] = {}
        self._marks: dict[Place, Message] = {}
        self._in_flight: dict[Place, Message] = {}
        self._lost: dict[Place, Lost] = {}

    # -- membership -----------------------------------------------------------------------------

    def joined(self, version: int, assignment: Iterable[Assigned]) -> None:
        """A new membership: a new term."""
        self.membership += 1
        self._version = -1
        self.assigned(version, assignment)

    def assigned(
        self, version: int, assignment: Iterable[Assigned] | None, *, in_turn: bool = False
    ) -> list[Lost]:
        """The service tells what we own; older news than what we know are ignored.

        `in_turn`: they cannot be older, whatever the version (a rebuilt ensemble counts anew).
        """
        if assignment is None or (version < self._version and not in_turn):
            return []
        self._version = version
        new = {(a.topic, a.partition): a.epoch for a in assignment}
        lost = [
            Lost(*place, epoch, new.get(place), "revoked" if place not in new else "newer epoch")
            for place, epoch in self.assignment.items()
            if place not in new or (epoch is not None and new[place] != epoch)
        ]
        self._forget(lost)
        self.assignment = new
        self._starts = {(a.topic, a.partition): a for a in assignment}
        return lost

    def lose_all(self, reason: str) -> list[Lost]:
        """The membership has ended: nothing of it counts any more."""
        lost = [Lost(*place, epoch, None, reason) for place, epoch in self.assignment.items()]
        unsent = {**self._in_flight, **self._marks}
        self._forget(lost)
        self.assignment = {}
        self._marks, self._in_flight = {}, {}
        self.settled = self.queued
        for message in unsent.values():
            self._refuse(self._loss_of(message, reason))
        return lost

    def refused(self, place: Place, current_epoch: int | None) -> list[Lost]:
        """The service refused an acknowledgement: somebody newer owns the partition."""
        message = self._in_flight.get(place)
        epoch = message.epoch if message else None
        lost = Lost(*place, epoch, current_epoch, "taken over")
        self._refuse(lost)
        if message is None:
            # Sent under a membership that has ended since: it says nothing about this one.
            return []
        if place not in self.assignment or self.assignment[place] != epoch:
            return []
        self._forget([lost])
        del self.assignment[place]
        return [lost]

    def _forget(self, lost: list[Lost]) -> None:
        for item in lost:
            place = (item.topic, item.partition)
            self._lost[place] = item
            self._unacked.pop(place, None)
            self._consumed_to.pop(place, None)
        if lost:
            gone = {(item.topic, item.partition) for item in lost}
            self._ready = deque(run for run in self._ready if run.given.place not in gone)
            self.ready = sum(map(len, self._ready))

    def _loss_of(self, message: Message, reason: str) -> Lost:
        known = self._lost.get((message.topic, message.partition))
        if known is not None and known.epoch == message.epoch:
            return known
        return Lost(message.topic, message.partition, message.epoch, None, reason)

    def _refuse(self, lost: Lost) -> None:
        self.refusal = self.refusal or lost.error(self.group)

    # -- delivery -------------------------------------------------------------------------------

    def received(self, records: list[dict[str, Any]] | Batches, ack: Any) -> None:
        """Records of a poll, whose assignment has been told before."""
        for part in parts_of(records):
            for place, begin, end in part.runs():
                if place in self.assignment:
                    given = Given(place, self.assignment[place], self.membership, ack)
                    self._ready.append(Run(part, begin, end, given))
                    self.ready += end - begin

    def next(self) -> Message | None:
        """The next record, which the application now has to acknowledge."""
        if not self._ready:
            return None
        run = self._ready[0]
        message = run.next()
        if not run:
            self._ready.popleft()
        self._hand_out(run.given.place, [message.offset])
        return message

    def take(self, most: int) -> list[Run]:
        """The next records, at most so many, which the application now has to acknowledge."""
        taken: list[Run] = []
        while self._ready and most > 0:
            taken.append(self._take_of_first(most))
            most -= len(taken[-1])
        return taken

    def _take_of_first(self, most: int) -> Run:
        run = self._ready[0].cut(most)
        if not self._ready[0]:
            self._ready.popleft()
        self._hand_out(run.given.place, run.offsets())
        return run

    def _hand_out(self, place: Place, offsets: list[int]) -> None:
        self.ready -= len(offsets)
        unacked = self._unacked.get(place)
        if unacked is None:
            unacked = self._unacked[place] = deque()
        unacked.extend(offsets)

    def take_range(self, most: int) -> OffsetRange | None:
        """The next records, as far as they are of one partition: at most `most`."""
        if not self._ready:
            return None
        place = self._ready[0].given.place
        messages: list[Message] = []
        while len(messages) < most and self._ready and self._ready[0].given.place == place:
            messages += self._take_of_first(most - len(messages)).messages()
        told = self._starts.get(place)
        begin = self._consumed_to.get(place)
        if begin is None:
            # Not the first record's offset: retention may have removed what was before it.
            begin = messages[0].offset if told is None or told.start is None else told.start
        span = OffsetRange(
            self.group,
            messages,
            min(begin, messages[0].offset),
            messages[-1].offset + 1,
            0 if told is None else told.generation,
        )
        self._consumed_to[place] = span.next_offset
        return span

    def holds(self, message: Message) -> bool:
        """`message` may still be processed: nobody else has its partition."""
        return self._holds(message, message.place)

    def _holds(self, message: Message, place: Place) -> bool:
        return (
            message.membership == self.membership
            and place in self.assignment
            and self.assignment[place] == message.epoch
        )

    # -- acknowledgements -----------------------------------------------------------------------

    def ack(self, message: Message, commit_through: bool) -> bool:
        """Queue it. True when it is the first one to send. Raises `SkippedRecords`."""
        place, offset = message.place, message.offset
        if not self._holds(message, place):
            self._refuse(self._loss_of(message, "the membership has ended"))
            return False
        unacked = self._unacked.get(place)
        if not unacked or offset < unacked[0]:
            return False
        if unacked[0] != offset and not commit_through:
            raise SkippedRecords(
                f"{message.topic}/{message.partition}: offset {message.offset} acknowledged, "
                f"{unacked[0]} is not yet",
                hint="acknowledge in order, or say commit_through=True",
            )
        if unacked[-1] <= offset:
            unacked.clear()
        while unacked and unacked[0] <= offset:
            unacked.popleft()
        first = not self._marks
        self._marks[place] = message
        self.queued += 1
        return first

    @property
    def has_acks(self) -> bool:
        """Something is to be sent."""
        return bool(self._marks)

    def take_acks(self) -> tuple[list[Message], int]:
        """The newest acknowledged record of each partition, and the number that settles them."""
        self._in_flight, self._marks = self._marks, {}
        return list(self._in_flight.values()), self.queued

    def acks_settled(self, number: int) -> None:
        """All up to `number` are durable, or refused."""
        self._in_flight = {}
        self.settled = max(self.settled, number)

    def take_refusal(self) -> LakequeueError | None:
        """The first refusal since the last call."""
        refusal, self.refusal = self.refusal, None
        return refusal
