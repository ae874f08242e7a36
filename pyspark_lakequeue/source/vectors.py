"""Positions in all partitions at once: what Spark keeps as the offset of a stream. Pure.

As JSON a vector looks like the Kafka source's, `{"orders": {"0": 23, "1": 7}}`, so that progress
reads the same. Two entries more, under names that no topic can have:

| entry | what for |
|---|---|
| `@ids` | topic → id of its incarnation: old positions do not fit one created again |
| `@from` | in the end of the first batch: where that batch begins |
| `@initial` | in the start of the first batch: nothing is kept of it yet |

Spark asks a source anew for its initial offset when it re-runs a first batch that was planned and
not committed. "latest" is a later place by then; so the end, which Spark does keep, says where the
batch begins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_IDS, _FROM, _INITIAL = "@ids", "@from", "@initial"


class Place(NamedTuple):
    """A partition, by the topic's name."""

    topic: str
    partition: int


Offsets = dict[Place, int]
Json = dict[str, Any]


@dataclass(frozen=True)
class Vector:
    """A position in each partition: the offset of the next record to read."""

    offsets: Offsets
    ids: dict[str, str] = field(default_factory=dict)
    begins: Offsets | None = None
    initial: bool = False

    def to_json(self) -> Json:
        """What Spark keeps. Equal vectors have equal text."""
        out: Json = _nested(self.offsets)
        out[_IDS] = dict(sorted(self.ids.items()))
        if self.begins is not None:
            out[_FROM] = _nested(self.begins)
        if self.initial:
            out[_INITIAL] = True
        return out

    @staticmethod
    def of(read: Json) -> Vector:
        """Read it back."""
        offsets = _flat({k: v for k, v in read.items() if not k.startswith("@")})
        begins = _flat(read[_FROM]) if _FROM in read else None
        return Vector(offsets, dict(read.get(_IDS, {})), begins, bool(read.get(_INITIAL)))


def _nested(offsets: Offsets) -> Json:
    out: Json = {}
    for (topic, partition), offset in sorted(offsets.items()):
        out.setdefault(topic, {})[str(partition)] = offset
    return out


def _flat(nested: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        Place(topic, int(partition)): offset
        for topic, of_topic in nested.items()
        for partition, offset in of_topic.items()
    }


def ranges(start: Vector, end: Vector, first: Mapping[Place, int]) -> dict[Place, tuple[int, int]]:
    """The offsets [from, to) of each partition between two vectors; empty ranges are left out.

    A partition that is new in `end` begins at `first`, its earliest.
    """
    begins = end.begins if end.begins is not None else start.offsets
    found = {
        place: (begins.get(place, first.get(place, 0)), to) for place, to in end.offsets.items()
    }
    return {place: (low, high) for place, (low, high) in found.items() if low < high}


def admit(start: Offsets, end: Offsets, most: int) -> Offsets:
    """At most `most` records beyond `start`, spread over the partitions by what each has.

    Shares are rounded so that they add up to exactly `most`, or to all there is.
    """
    sizes = {place: max(0, to - start.get(place, 0)) for place, to in end.items()}
    total = sum(sizes.values())
    if total <= most:
        return dict(end)
    exact = {place: most * size / total for place, size in sizes.items()}
    shares = {place: math.floor(share) for place, share in exact.items()}
    by_rest = sorted(exact, key=lambda place: (shares[place] - exact[place], place))
    for place in by_rest[: most - sum(shares.values())]:
        shares[place] += 1
    return {place: start.get(place, 0) + shares[place] for place in end}


def count(start: Offsets, end: Offsets) -> int:
    """Records between."""
    return sum(max(0, to - start.get(place, 0)) for place, to in end.items())


def names(places: Iterable[Place]) -> str:
    """Partitions for a message: `orders/0, orders/1`."""
    return ", ".join(f"{place.topic}/{place.partition}" for place in sorted(places))
