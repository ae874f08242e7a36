"""Facts that were set aside: counted, and named in the log once each."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import structlog

from queue_tables.groups.fact_checks import SetAside

log = structlog.get_logger()

_NAMED = 10_000
"""Rows of which it is remembered that the log has them."""


class SetAsideLog:
    """Of one reader, which may meet the same rows again and again. Not thread-safe."""

    def __init__(self) -> None:
        self._named: OrderedDict[SetAside, None] = OrderedDict()

    def found(self, aside: Iterable[SetAside]) -> int:
        """Name them; how many are new."""
        new = 0
        for one in aside:
            if one in self._named:
                continue
            self._named[one] = None
            if len(self._named) > _NAMED:
                self._named.popitem(last=False)
            new += 1
            log.warning(
                "fact.set_aside",
                shard=one.shard,
                stamp=one.stamp,
                row=one.row,
                reason=one.reason,
                hint="it counts for nothing; records that it acked are delivered again",
            )
        return new
