"""What is wrong with an inbox row, as it passes through Spark: text in the row's column `fault`.

A row of a file that cannot be read stands for the whole file: its topic, partition and ids mean
nothing, its stamp is that of its commit.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import orjson

from lakequeue.records import Stamp


class Reason(StrEnum):
    """Why a row, or a file, is not ordered: what `rejects` calls it."""

    MALFORMED = "malformed"
    """The row breaks a rule of its table's declaration."""
    UNORDERABLE = "unorderable"
    """The row made the order job fail, for a reason that no rule knows."""
    UNREADABLE = "unreadable"
    """The file is there, and is no file that can be read."""
    MISSING = "missing"
    """The file is not there: nothing is put aside, and its shard waits."""


class RowFault(NamedTuple):
    """A fault with its reason."""

    reason: Reason
    detail: str
    after: Stamp = Stamp(0)
    """Of a file: the stamp of the commit before, in its shard."""

    @property
    def is_of_a_file(self) -> bool:
        """The row stands for its file."""
        return self.reason in {Reason.UNREADABLE, Reason.MISSING}

    def text(self) -> str:
        """As it passes through Spark."""
        return orjson.dumps([self.reason, self.detail, self.after]).decode()

    @staticmethod
    def of(text: str) -> RowFault:
        """Read it back."""
        reason, detail, after = orjson.loads(text)
        return RowFault(Reason(reason), detail, Stamp(after))
