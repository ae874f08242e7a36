"""What a worker of a queue group holds: records fetched ahead or handed out, and what is to be said
of them. Rules only.

Nothing here depends on which node is asked: a receipt is judged by whoever has the partition. So
what is to be said outlives memberships, and is said until it is answered for good, or too old.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from lakequeue.client.consuming.fetch_buffer import Lost
from lakequeue.client.fetched import Place
from lakequeue.client.message import Message
from lakequeue.errors import AttemptSuperseded, InvalidRequest, LakequeueError
from lakequeue.wire import Assigned

MOST_SAID = 1_000
"""What one request says at most."""
GIVE_UP_S = 120.0
"""What could not be said for so long is given up: its deadline has long passed."""
Does = Literal["ack", "nack", "extend", "renew", "return"]
"""`return`: a nack of what was not handed out."""


@dataclass(slots=True)
class ReceiptAction:
    """One thing to say of a receipt."""

    does: Does
    message: Message
    ms: int | None
    number: int
    """Of those that the application asked for; 0 for a renewal."""
    since: float
    url: str | None = None
    """Base URL of the node that has the partition, once it is known."""


@dataclass(slots=True)
class _HandedOut:
    message: Message
    renew_at: float
    until: float
    """No renewal begins after this."""


class QueueFetchBuffer:
    """The records of one worker, over all its memberships. Times in seconds of one clock."""

    def __init__(self, group: str, now: Callable[[], float], renew_for_s: float) -> None:
        self.membership = 0
        self.assignment: dict[Place, int | None] = {}
        self.refusal: LakequeueError | None = None
        """First refusal since somebody last asked."""
        self.queued = 0
        """Acks, nacks and extensions asked for; the number of the newest."""
        self.visibility_s = 30.0
        self._group = group
        self._now = now
        self._renew_for_s = renew_for_s
        self._ready: deque[Message] = deque()
        self._held: dict[str, _HandedOut] = {}
        """Receipt → what is renewed: fetched ahead or handed out, and not settled."""
        self._sayings: deque[ReceiptAction] = deque()
        self._outstanding: set[int] = set()
        self.returning = 0
        """Records that are given back, and for which there is no answer yet."""

    # -- membership -----------------------------------------------------------------------------

    def joined(self, version: int, assignment: Iterable[Assigned]) -> None:
        """A new membership."""
        self.membership += 1
        self.assigned(version, assignment)

    def assigned(
        self, _version: int, assignment: Iterable[Assigned] | None, *, in_turn: bool = False
    ) -> list[Lost]:
        """What our node has: for people only."""
        if assignment is not None:
            self.assignment = {(a.topic, a.partition): a.epoch for a in assignment}
        return []

    def lose_all(self, _reason: str) -> list[Lost]:
        """The membership has ended: what was not handed out yet is given to others.

        Whoever has its partition hears that it was not opened, unless it has gone to others before.
        """
        self.give_back()
        self.assignment = {}
        return []

    def give_back(self) -> None:
        """Nothing more is handed out: others get what was fetched ahead, at once."""
        while self._ready:
            message = self._ready.popleft()
            self._held.pop(message.receipt, None)
            self._sayings.append(ReceiptAction("return", message, 0, 0, self._now()))
            self.returning += 1

    # -- delivery -------------------------------------------------------------------------------

    def received(self, records: Iterable[dict[str, Any]], settle: Any) -> None:
        """Records of a poll."""
        now = self._now()
        for raw in records:
            message = Message(raw, None, self.membership, None, settle)
            self._ready.append(message)
            self._held[message.receipt] = _HandedOut(
                message, now + self.visibility_s / 2, now + self._renew_for_s
            )

    @property
    def ready(self) -> int:
        """Records that wait to be handed out."""
        return len(self._ready)

    def next(self) -> Message | None:
        """The next record, which the application now has to settle."""
        return self._ready.popleft() if self._ready else None

    def take_range(self, _most: int) -> None:
        """There are none here. Raises `InvalidRequest`."""
        raise InvalidRequest(
            "transforms and transactions go by position, and this is a queue group",
            hint='make the consumer with mode="stream"',
        )

    # -- what is to be said ---------------------------------------------------------------------

    def queue_action(self, does: Does, message: Message, ms: int | None = None) -> bool:
        """Queue an ack, nack or extension. True when it is the first one to send."""
        if does in {"ack", "nack"}:
            self._held.pop(message.receipt, None)
        first = not self._sayings
        self.queued += 1
        self._outstanding.add(self.queued)
        self._sayings.append(ReceiptAction(does, message, ms, self.queued, self._now()))
        return first

    def renew(self) -> None:
        """Queue the renewals that are due."""
        now = self._now()
        due = [held for held in self._held.values() if held.renew_at <= now]
        for held in due:
            if now > held.until:
                del self._held[held.message.receipt]
                continue
            held.renew_at = now + self.visibility_s / 2
            ms = max(1, round(self.visibility_s * 1_000))
            self._sayings.append(ReceiptAction("renew", held.message, ms, 0, now))

    def next_renewal_in(self) -> float | None:
        """Seconds until one is due; None: nothing is held."""
        at = min((held.renew_at for held in self._held.values()), default=None)
        return None if at is None else max(0.0, at - self._now())

    @property
    def has_acks(self) -> bool:
        """Something is to be sent."""
        return bool(self._sayings)

    @property
    def settled(self) -> int:
        """All that was asked for up to this number is decided."""
        return min(self._outstanding) - 1 if self._outstanding else self.queued

    def take(self, *, here: bool = False) -> list[ReceiptAction]:
        """What the next request says: all to one node, each receipt once.

        `here`: to the member's own node, whatever else is to be said.
        """
        taken: list[ReceiptAction] = []
        left: deque[ReceiptAction] = deque()
        receipts: set[str] = set()
        while self._sayings:
            saying = self._sayings.popleft()
            fits = saying.url is None if here else not taken or saying.url == taken[0].url
            if fits and len(taken) < MOST_SAID and saying.message.receipt not in receipts:
                taken.append(saying)
            else:
                left.append(saying)
            receipts.add(saying.message.receipt)
        self._sayings = left
        return taken

    def again(self, sayings: Iterable[ReceiptAction], error: LakequeueError) -> None:
        """These were not answered: say them again, unless that is too late."""
        now = self._now()
        for saying in reversed(list(sayings)):
            if saying.does == "renew":
                continue
            if now - saying.since > GIVE_UP_S:
                self._end(saying, error)
            else:
                self._sayings.appendleft(saying)

    def answered(self, sayings: Iterable[ReceiptAction], refused: Iterable[dict[str, Any]]) -> None:
        """These were answered; `refused` as in the answer."""
        by_receipt = {one["receipt"]: one for one in refused}
        for saying in sayings:
            found = by_receipt.get(saying.message.receipt)
            if found is None:
                self._end(saying, None)
            elif found["why"] == "elsewhere" and self._now() - saying.since <= GIVE_UP_S:
                saying.url = found["location"]
                self._sayings.append(saying)
            else:
                self._held.pop(saying.message.receipt, None)
                self._end(saying, self._refusal(saying.message, found))

    def failed(self, sayings: Iterable[ReceiptAction], error: LakequeueError) -> None:
        """The request was wrong and stays wrong."""
        for saying in sayings:
            self._end(saying, error)

    def _end(self, saying: ReceiptAction, error: LakequeueError | None) -> None:
        self._outstanding.discard(saying.number)
        self.returning -= saying.does == "return"
        if error is not None and saying.number:
            self.refusal = self.refusal or error

    def _refusal(self, message: Message, found: dict[str, Any]) -> AttemptSuperseded:
        current = found.get("current_attempt")
        return AttemptSuperseded(
            f"{message.topic}/{message.partition}@{message.offset} of group {self._group}: "
            f"attempt {found['attempt']} presented, {current or 'a newer one'} current "
            f"({found['why']})",
            hint="another worker has it now, or it is settled; no action is needed",
            **{k: v for k, v in found.items() if k != "location"},
        )

    def take_refusal(self) -> LakequeueError | None:
        """The first refusal since the last call."""
        refusal, self.refusal = self.refusal, None
        return refusal
