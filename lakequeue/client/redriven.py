"""Which dead records wait, which are wanted back, and how far a redrive is. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lakequeue.wire import micros_of_time

_EVER = (-(1 << 62), 1 << 62)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which dead records go back: those that pass all of it.

    Times are datetimes with a zone, or whole microseconds since 1970 UTC. Raises `InvalidRequest`
    for a number that is seconds by mistake.
    """

    headers: Mapping[str, str] | None = None
    """Each header must be there with this text: `lakequeue-reason`, or one of its own."""
    since: int | datetime | None = None
    """The record's own time is not before this."""
    until: int | datetime | None = None
    """Only records with a timestamp before this."""
    _from: int = field(init=False, default=_EVER[0])
    _to: int = field(init=False, default=_EVER[1])

    def __post_init__(self) -> None:
        for name, given, bound in (("since", self.since, "_from"), ("until", self.until, "_to")):
            if given is not None:
                object.__setattr__(self, bound, micros_of_time(given, name))

    def takes(self, headers: Sequence[tuple[str, bytes | None]], timestamp: int) -> bool:
        """Whether a record goes back. Pure.

        Args:
            headers: Its headers: names and values.
            timestamp: Its own time; microseconds since 1970 UTC.

        Returns:
            True if it passes all conditions.
        """
        if not self._from <= timestamp < self._to:
            return False
        found = {(name, value) for name, value in headers}
        return all((n, v.encode()) in found for n, v in (self.headers or {}).items())


@dataclass(frozen=True, slots=True)
class Redriven:
    """How far a redrive is."""

    redriven: int = 0
    """Sent back."""
    kept: int = 0
    """Not wanted: they stay, behind the others if a wanted one stood behind them."""
    without_topic: int = 0
    """No topic to go back to: they stay, likewise."""

    @property
    def homeless(self) -> int:
        """The name of `without_topic` in release 0.1."""
        return self.without_topic

    @property
    def looked_at(self) -> int:
        """Dead records seen."""
        return self.redriven + self.kept + self.without_topic

    def counts(self) -> dict[str, int]:
        """The counts, as answers and output in JSON have them.

        Returns:
            Counts by name.
        """
        # `homeless` is what release 0.1 reads.
        return {
            "redriven": self.redriven,
            "kept": self.kept,
            "without_topic": self.without_topic,
            "homeless": self.without_topic,
        }

    def __add__(self, other: Redriven) -> Redriven:
        return Redriven(
            self.redriven + other.redriven,
            self.kept + other.kept,
            self.without_topic + other.without_topic,
        )


@dataclass(slots=True)
class DeadLetters:
    """Dead letters of one origin, group and reason."""

    topic: str
    """The topic of dead letters."""
    origin: str
    """The topic that they died in."""
    group: str
    """The group that gave them up."""
    reason: str
    """`max_attempts`, `expired` or `undecodable`."""
    count: int
    """How many there are."""
    oldest: int
    """The record's own time of the first one; microseconds since 1970 UTC. By these times `since`
    and `until` of a redrive choose."""
    newest: int
    """The same of the last one."""
    first_died: int = 0
    """When the first of them was given up; microseconds since 1970 UTC. The record's own time of a
    letter that does not say when."""
    last_died: int = 0
    """When the last of them was given up."""
    nack_reason: str = ""
    """What the nack of the one that died last gave as its reason."""
