"""Positions in all partitions at once: what Spark keeps as the offset of a stream. Pure.

As JSON a vector is the Kafka source's, `{"orders": {"0": 23, "1": 7}}`, so that progress reads the
same. Entries more are topics without partitions, whose names no topic can have: whoever goes
through topics and partitions, as tools do with Kafka's, meets no other shape.

| entry | what for |
|---|---|
| `@id:orders:3f…` | the topic's id: positions do not fit a topic that was created again |
| `@from`, `@from:orders:0=4,1=7` | in the end of the first batch: where that batch begins |
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

_ID, _FROM, _INITIAL = "@id", "@from", "@initial"
_OLD_IDS = "@ids"
"""Checkpoints of releases up to 0.1.0 have one entry with the ids, and one with all beginnings."""


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
        more = [f"{_ID}:{topic}:{topic_id}" for topic, topic_id in sorted(self.ids.items())]
        if self.begins is not None:
            more.append(_FROM)
            for topic, begins in _nested(self.begins).items():
                said = ",".join(f"{partition}={offset}" for partition, offset in begins.items())
                more.append(f"{_FROM}:{topic}:{said}")
        if self.initial:
            more.append(_INITIAL)
        return out | {name: {} for name in more}

    @staticmethod
    def of(read: Json) -> Vector:
        """Read it back."""
        offsets = _flat({k: v for k, v in read.items() if not k.startswith("@")})
        ids: dict[str, str] = dict(read.get(_OLD_IDS, {}))
        begins = _flat(read[_FROM]) if _FROM in read else None
        for name in read:
            kind, _, rest = name.partition(":")
            topic, _, said = rest.partition(":")
            if kind == _ID:
                ids[topic] = said
            elif kind == _FROM and topic and begins is not None:
                pairs = (pair.split("=") for pair in said.split(","))
                begins |= {Place(topic, int(partition)): int(at) for partition, at in pairs}
        return Vector(offsets, ids, begins, _INITIAL in read)


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


def admit(start: Offsets, end: Offsets, most: int, turn: int = 0) -> Offsets:
    """At most `most` records beyond `start`, spread over the partitions by what each has.

    No partition is starved: each that has records gives one at least, as in the Kafka source. If
    there are more partitions than `most`, they take turns; `turn` counts the batches. Shares add up
    to exactly `most`, or to all there is.
    """
    sizes = {place: to - start.get(place, 0) for place, to in end.items()}
    sizes = {place: size for place, size in sorted(sizes.items()) if size > 0}
    if sum(sizes.values()) <= most:
        return dict(end)
    if len(sizes) > most:
        places, first = list(sizes), turn * most
        shares = {places[(first + n) % len(places)]: 1 for n in range(most)}
    else:
        shares = _shares(sizes, most)
    return {place: start.get(place, 0) + shares.get(place, 0) for place in end}


def _shares(sizes: Offsets, most: int) -> Offsets:
    """Of partitions that are no more than `most`: one for the small ones, the rest by size."""
    out: Offsets = {}
    rest = dict(sizes)
    while small := [p for p, n in rest.items() if (most - len(out)) * n < sum(rest.values())]:
        out |= dict.fromkeys(small, 1)
        for place in small:
            del rest[place]
    left, total = most - len(out), sum(rest.values())
    exact = {place: left * size / total for place, size in rest.items()}
    out |= {place: math.floor(share) for place, share in exact.items()}
    by_rest = sorted(exact, key=lambda place: (out[place] - exact[place], place))
    for place in by_rest[: most - sum(out.values())]:
        out[place] += 1
    return out


def count(start: Offsets, end: Offsets) -> int:
    """Records between."""
    return sum(max(0, to - start.get(place, 0)) for place, to in end.items())


def names(places: Iterable[Place]) -> str:
    """Partitions for a message: `orders/0, orders/1`."""
    return ", ".join(f"{place.topic}/{place.partition}" for place in sorted(places))
