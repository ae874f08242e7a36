"""The wanted records as a condition on `log`, for Spark to scan it by itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyspark_lakequeue.source.vectors import Place

MOST_BOUNDED = 100
"""Partitions with bounds of their own: a longer condition costs more than it saves."""


class Bounds(NamedTuple):
    """Offsets [low, high) of a partition; `None`: as far as there are any."""

    low: int | None = None
    high: int | None = None

    @property
    def empty(self) -> bool:
        """Nothing is wanted."""
        return self.high is not None and self.high <= (self.low or 0)


def scan_condition(
    ids: Mapping[str, str], bounds: Mapping[Place, Bounds], *, every_partition: bool
) -> str | None:
    """SQL that is true for exactly the wanted rows of `log`; `None` if it would be too long.

    `ids`: topic → id of its incarnation. `every_partition`: those that are not in `bounds`, because
    they came later, are wanted too.
    """
    if sum(bound != Bounds() for bound in bounds.values()) > MOST_BOUNDED:
        return None
    topics = (
        _of_topic(
            topic_id,
            {place.partition: bound for place, bound in bounds.items() if place.topic == name},
            every_partition,
        )
        for name, topic_id in sorted(ids.items())
    )
    return " OR ".join(f"({topic})" for topic in topics if topic) or "false"


def _of_topic(topic_id: str, bounds: Mapping[int, Bounds], every_partition: bool) -> str:
    bounded = {p: bound for p, bound in sorted(bounds.items()) if bound != Bounds()}
    free = sorted(bounds.keys() - bounded.keys())
    same = f"topic_id = '{topic_id}'"
    if every_partition and not bounded:
        return same
    terms = [_of_partition(p, bound) for p, bound in bounded.items() if not bound.empty]
    if every_partition:
        terms.insert(0, f"`partition` NOT IN ({_numbers(bounded)})")
    elif free:
        terms.insert(0, f"`partition` IN ({_numbers(free)})")
    return f"{same} AND ({' OR '.join(terms)})" if terms else ""


def _of_partition(partition: int, bound: Bounds) -> str:
    said = [f"`partition` = {partition}"]
    if bound.low is not None:
        said.append(f"`offset` >= {bound.low}")
    if bound.high is not None:
        said.append(f"`offset` < {bound.high}")
    return f"({' AND '.join(said)})"


def _numbers(some: Mapping[int, Bounds] | list[int]) -> str:
    return ", ".join(map(str, some))
