"""The cursor of one owned partition: delivered, acked, durable. Pure.

Four positions, each the *next* offset of its kind, always in this order:

    durable <= accepted <= delivered <= end of the log

`durable` stands in the tables, `accepted` is what the member has acked (its fact may still be on
its way), `delivered` is where the next poll goes on. Offsets that do not exist any more
(retention), or are not delivered (their time to live is over, a predicate does not take them), are
remembered as gaps, so that acking around one skips nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lakequeue.errors import InvalidRequest, OffsetOutOfRange, SkippedRecords


@dataclass(slots=True)
class Cursor:
    """Positions of one partition under one epoch. The caller holds the partition's lock."""

    durable: int
    accepted: int = -1
    delivered: int = -1
    gaps: dict[int, int] = field(default_factory=dict)
    """First missing offset → first offset that exists again; only above `accepted`."""

    def __post_init__(self) -> None:
        self.accepted = max(self.accepted, self.durable)
        self.delivered = max(self.delivered, self.accepted)

    @property
    def out(self) -> int:
        """How many offsets are delivered and not acked; gaps between them count too."""
        return max(0, self.delivered - self._over_gaps(self.accepted))

    @property
    def outstanding(self) -> bool:
        """True while something delivered is not acked."""
        return self.out > 0

    @property
    def passes(self) -> bool:
        """True while the position can move without an ack, or such a move is not durable yet."""
        return bool(self.gaps) or self.accepted > self.durable

    def deliver(self, first: int, following: int) -> None:
        """The records `first` … `following` − 1 leave in a response."""
        if first < self.delivered or following < first:
            raise ValueError(f"delivery of {first}..{following} at cursor {self.delivered}")
        self.skip_to(first)
        self.delivered = following

    def skip_to(self, position: int) -> None:
        """What lies between the cursor and `position` does not exist any more."""
        if position > self.delivered:
            self.gaps[self.delivered] = position
            self.delivered = position

    def deliver_among(self, offsets: Sequence[int], following: int) -> None:
        """Of what lies before `following` these offsets leave, and nobody gets the others."""
        for first, last in _runs(offsets):
            self.deliver(first, last + 1)
        self.skip_to(following)

    def skip(self) -> bool:
        """Accept what nobody has to ack, if nothing is out; whether more is to be made durable."""
        if not self.outstanding:
            self._accept(self.delivered)
        return self.accepted > self.durable

    def passed(self, offset: int) -> bool:
        """Whether the member was led over it: nobody got it, and nobody will."""
        return any(start <= offset < end for start, end in self.gaps.items())

    def rewind(self, delivered: int) -> None:
        """Take back deliveries that nobody got: the next poll starts at `delivered` again."""
        self.delivered = max(self.accepted, min(self.delivered, delivered))
        self.gaps = {a: b for a, b in self.gaps.items() if b <= self.delivered}

    def ack(self, offsets: Iterable[int], *, through: bool) -> int:
        """Accept acks of single records; return the position to make durable.

        Errors: `InvalidRequest` for a record that was not delivered, `SkippedRecords` for an
        earlier one that is neither acked nor in `offsets`. Then nothing has changed.
        """
        accepted = self.accepted
        for offset in sorted(offsets):
            if offset >= self.delivered:
                raise InvalidRequest(
                    f"offset {offset} is acked, and only those below {self.delivered} "
                    "were delivered",
                    hint="ack what a poll returned",
                    field="acks",
                )
            expected = self._over_gaps(accepted)
            if offset > expected and not through:
                raise SkippedRecords(
                    f"offset {offset} is acked, and {expected} was delivered before it "
                    "and is not acked",
                    hint="ack in order, or say commit_through to pass the earlier ones",
                    field="acks",
                )
            accepted = max(accepted, offset + 1)
        return self._accept(accepted)

    def commit_to(self, position: int, end: int) -> int:
        """Accept a position; one behind the accepted one changes nothing (a retry).

        Raises `OffsetOutOfRange` past `end`, the end of the log.
        """
        if position > max(end, self.delivered):
            raise OffsetOutOfRange(
                f"position {position} is past the end {end}",
                hint="commit the offset of the next record to read, at most the end offset",
                field="commit",
            )
        return self._accept(max(position, self.accepted))

    def made_durable(self, position: int) -> None:
        """The tables hold `position`."""
        self.durable = max(self.durable, position)

    def _accept(self, accepted: int) -> int:
        self.accepted = accepted
        self.delivered = max(self.delivered, accepted)
        # A position may lie within a gap: the rest of it is skipped from there.
        self.gaps = {max(a, accepted): b for a, b in self.gaps.items() if b > accepted}
        return accepted

    def _over_gaps(self, position: int) -> int:
        while position in self.gaps:
            position = self.gaps[position]
        return position


def _runs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of offsets without gaps."""
    if not offsets:
        return
    first = last = offsets[0]
    for offset in offsets[1:]:
        if offset != last + 1:
            yield first, last
            first = offset
        last = offset
    yield first, last
