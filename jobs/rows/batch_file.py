"""One data file of a batch, and the stamps that its rows may have."""

from __future__ import annotations

from typing import NamedTuple

from lakequeue.records import Stamp

NO_BOUND = Stamp((1 << 63) - 1)


class BatchFile(NamedTuple):
    """A data file, and the stamps that its rows may have."""

    shard: str
    path: str
    """Within the shard's table."""
    after: Stamp = Stamp(0)
    """The stamp of the commit before: rows are above it."""
    stamp: Stamp = NO_BOUND
    """The stamp of its commit: no row is above it."""
