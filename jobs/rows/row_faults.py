"""What is wrong with an inbox row, as it passes through Spark: text in the row's column `fault`.

A row of a file that cannot be read stands for the whole file: its topic, partition and ids mean
nothing, its stamp is that of its commit.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson

from lakequeue.records import Stamp
from queue_tables.schema.reasons import Reason


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
