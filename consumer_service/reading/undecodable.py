"""Records that were to be delivered and cannot be read: counted, and named in the log once each."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import structlog

from lakequeue import metrics
from lakequeue.metrics.declaring import Sample
from lakequeue.wire import UNDECODABLE

log = structlog.get_logger()

OnUndecodable: TypeAlias = Callable[[str, Iterable[Mapping[str, Any]]], None]
"""Told of a group and its records, of which some are undecodable."""
_NAMED = 10_000
"""Records of which it is remembered that the log has them."""


def ignore(_group: str, _records: Iterable[Mapping[str, Any]]) -> None:
    """Nobody counts."""


class Undecodable:
    """Of one node. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._named: OrderedDict[tuple[str, str, int, int], None] = OrderedDict()

    def found(self, group: str, records: Iterable[Mapping[str, Any]]) -> None:
        """Count those of `records` that are undecodable."""
        for record in records:
            if UNDECODABLE not in record:
                continue
            place = (group, record["topic"], record["partition"], record["offset"])
            with self._lock:
                if place in self._named:
                    continue  # it comes again with each try
                self._named[place] = None
                self._counts[group] += 1
                if len(self._named) > _NAMED:
                    self._named.popitem(last=False)
            log.warning(
                "record.decode_failed",
                group=group,
                topic=record["topic"],
                partition=record["partition"],
                offset=record["offset"],
                reason=record[UNDECODABLE],
            )

    def samples(self) -> Iterator[Sample]:
        """How many, by group."""
        with self._lock:
            counts = dict(self._counts)
        yield from (
            Sample(metrics.consumer.UNDECODABLE, n, (group,)) for group, n in counts.items()
        )
