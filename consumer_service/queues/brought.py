"""Acks that come with a poll: on their way into the journal while it takes, often in one commit.

What the poll has taken leaves only if they are durable. So those records do not count any more
against what its member may have.
"""

from __future__ import annotations

from collections.abc import Sequence

from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.queues.acks import Change
from lakequeue.clock import boot_seconds
from lakequeue.wire import SettleAnswer
from queue_rules.queues.attempts import Attempt
from queue_rules.queues.receipts import Begun
from serving.front.parking import BLOCKS, Steps


class Brought:
    """The acks, nacks and extensions of one request. For one call."""

    def __init__(self, steps: Steps[SettleAnswer], changes: Sequence[Change]) -> None:
        """`steps` are those of `QueueAcks.outcome`, which fill `changes` first."""
        self._steps = steps
        self._changes = changes
        self._began = boot_seconds()
        self.answer: SettleAnswer | None = None
        """What became of it, once that is known."""
        self.failed = False
        """Nobody will know: `begin` or `end` has raised."""
        self.took_s = 0.0
        """Until it was known."""

    def begin(self) -> Steps[None]:
        """Until all of it is on its way. Raises as `QueueAcks.outcome`."""
        try:
            while (until := next(self._steps)) is BLOCKS:
                yield until
        except StopIteration as end:
            self.answer = end.value
        except BaseException:
            self.failed = True
            raise

    def end(self) -> Steps[SettleAnswer]:
        """Until all of it is durable; what became of it. Raises as `begin`."""
        if self.answer is None:
            try:
                # What it waits for was not listened to: it is asked for anew.
                self.answer = yield from self._steps
            except BaseException:
                self.failed = True
                raise
            self.took_s = boot_seconds() - self._began
        return self.answer

    def leaving(self) -> list[tuple[OwnedPartition, list[Attempt]]]:
        """What is out no more once this is durable; now it is being settled."""
        return [
            (change.owned, [*change.acked, *(one.attempt for one in change.begun if _ends(one))])
            for change in self._changes
        ]


def _ends(begun: Begun) -> bool:
    return begun.action.does != "extend"
