"""Why an acknowledged row has no offset of its own: declared once, for all who say or read it."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Final


class Fate(Enum):
    """What a reason means for the record."""

    REFUSED = "the order job refused it, as the protocol has it"
    NOT_LOST = "nothing is missing"
    PUT_ASIDE = "nothing of it could be ordered, so it is kept as it is"
    WAITS = "nothing is decided: its shard waits"


class Reason(StrEnum):
    """The column `reason` of `rejects`; but for `missing`, which is never written there."""

    fate: Fate
    doc: str

    def __new__(cls, name: str, fate: Fate = Fate.REFUSED, doc: str = "") -> Reason:
        """A member is its name."""
        one = str.__new__(cls, name)
        one._value_ = name
        one.fate, one.doc = fate, doc
        return one

    DUPLICATE = "duplicate", Fate.NOT_LOST, "a copy of a record that is there"
    TOPIC_GONE = "topic_gone", Fate.REFUSED, "its topic was deleted"
    PARTITION_GONE = "partition_gone", Fate.REFUSED, "its topic has no such partition"
    REQUEST_REFUSED = "request_refused", Fate.REFUSED, "another row of its request was refused"
    PRODUCER_FENCED = "producer_fenced", Fate.REFUSED, "its producer has a newer epoch"
    CONSUMED_OVERLAP = "consumed_overlap", Fate.REFUSED, "its input is consumed already"
    NO_RECORD = "no_record", Fate.NOT_LOST, "it has no record, only an epoch or `consumed`"
    MALFORMED = "malformed", Fate.PUT_ASIDE, "it breaks a rule of its table"
    UNORDERABLE = "unorderable", Fate.PUT_ASIDE, "it made the order job fail"
    UNREADABLE = "unreadable", Fate.PUT_ASIDE, "its file cannot be read"
    MISSING = "missing", Fate.WAITS, "its file is not there"

    @property
    def code(self) -> int:
        """The number that stands for it in arrays; 0 is no reason."""
        return _CODES[self]


_CODES: Final = {reason: number for number, reason in enumerate(Reason, start=1)}
BY_CODE: Final = ("", *map(str, Reason))
"""The text of each code."""


def with_fate(*fates: Fate) -> tuple[Reason, ...]:
    """The reasons that mean one of these, in order."""
    return tuple(reason for reason in Reason if reason.fate in fates)


WRITTEN: Final = with_fate(Fate.REFUSED, Fate.NOT_LOST, Fate.PUT_ASIDE)
"""The reasons that stand in `rejects`."""

KEPT_OTHERWISE: Final = "kept as "
"""A `detail` begins so if its row could not be written as it is: the rest says what stands there.
Other details begin with a column, or with the kind of an error."""
