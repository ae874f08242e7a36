"""The records of one produce request as columns, and groups of requests as one Arrow table."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakequeue import wire
from queue_rules.produce.timing import Due, Timing
from queue_tables.schema.marks import NO_TOPIC

Headers = list[tuple[str, bytes | None]]

NO_PARTITION = -1
"""In `Rows.partitions` until the sticky round robin has chosen."""
NO_TIMESTAMP = -(1 << 63)
"""In `Rows.timestamps` until the time of arrival is filled in: no time that anyone can send."""


@dataclass(slots=True)
class Rows:
    """The columns of one request; all lists have one entry per record."""

    keys: list[bytes | None] = field(default_factory=list)
    key_formats: list[int] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    value_formats: list[int] = field(default_factory=list)
    headers: list[Headers] | None = None
    """None: no record has any."""
    partitions: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    """Microseconds since 1970 UTC."""
    message_ids: list[str | None] = field(default_factory=list)
    timings: list[Timing | None] | None = None
    """What records say of their delivery and expiry. None: no record says anything."""
    dues: list[Due] | None = None
    """The times that follow from it at arrival. None: all at once, and for ever."""
    faulty: int = 0
    """Records whose values are not of their topic's schema, and that are taken nevertheless."""
    sizes: list[int] = field(default_factory=list)
    """Key + value + headers, in bytes."""
    dead: dict[int, str] | None = None
    """Rows that go to the dead letters of their topic, and why. None: no row does."""
    places: list[int] | None = None
    """Where in their request the rows stood: they keep its numbers. None: all rows are there."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def total_bytes(self) -> int:
        """Bytes of all keys, values and headers."""
        return sum(self.sizes)


@dataclass(slots=True)
class Request:
    """A validated produce request: its rows and what all of them share."""

    topic_id: str
    rows: Rows
    producer_id: str | None = None
    producer_epoch: int | None = None
    sequence: int | None = None
    after: int = 0
    atomic: bool = False
    consumed: wire.Consumed | None = None
    consumed_topic_id: str = ""
    placed_among: int = 0
    """How many partitions the topic had when these records got theirs; 0: no records."""
    request_id: str = ""
    dead_letter_topic: str | None = None
    """Its name, if these are dead letters of another one."""

    @property
    def bare(self) -> bool:
        """It has no records: its one row carries an epoch or `consumed` alone."""
        return self.topic_id == NO_TOPIC

    @property
    def next_sequence(self) -> int | None:
        """The number after that of the last row; None: it has no numbers."""
        if self.sequence is None:
            return None
        places = self.rows.places
        return self.sequence + (len(self.rows) if places is None else places[-1] + 1)

    @property
    def judged(self) -> bool:
        """The order job may refuse it as a whole: its answer has to wait for that."""
        return self.producer_epoch is not None or self.consumed is not None


def no_record() -> Rows:
    """The one row of a request without records."""
    return Rows([None], [0], [None], [0], None, [0], [NO_TIMESTAMP], [None], sizes=[0])
