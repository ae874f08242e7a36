"""What a group's state knows of: more than its position."""

from __future__ import annotations

import pytest

from jobs.copies.source_snapshots import newest_dead_letters, reach_of
from lakequeue.records import Epoch, Offset, Partition, TopicId
from queue_tables.groups.facts import Fact, GroupState, Kind, fold, state_of


def fact(kind: Kind, offset: int | None, **more: object) -> Fact:
    at = None if offset is None else Offset(offset)
    mode = "stream" if kind in {Kind.TAKEN, Kind.COMMITTED, Kind.SEEK} else "queue"
    return Fact(
        kind, "g", "in", TopicId("t"), Partition(0), 0, Epoch(1), at, mode=mode, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def folded(*facts: Fact) -> GroupState:
    (state,) = fold({}, facts).values()
    return state


@pytest.mark.parametrize(
    ("kind", "offset", "reach"),
    [
        (Kind.TAKEN, None, 0),
        (Kind.COMMITTED, 5, 5),
        (Kind.SEEK, 5, 5),
        (Kind.DELIVERED, 5, 6),
        (Kind.PARKED, 5, 6),
        (Kind.ACKED, 5, 6),
        (Kind.DYING, 5, 6),
        (Kind.DEAD, 5, 6),
        (Kind.EXPIRED, 5, 6),
    ],
)
def test_every_fact_of_an_offset_reaches_to_it(kind: Kind, offset: int | None, reach: int) -> None:
    assert reach_of(state_of(fact(kind, offset))) == reach


def test_the_newest_dead_letter_counts_in_each_partition_of_its_topic() -> None:
    state = folded(
        fact(Kind.DEAD, 3, dead_letter="in.dlq/0@7"),
        fact(Kind.DEAD, 4, dead_letter="in.dlq/0@9"),
        fact(Kind.DEAD, 5, dead_letter="in.dlq/1@2"),
        fact(Kind.DEAD, 6),
        fact(Kind.ACKED, 7),
    )
    assert newest_dead_letters(state) == {("in.dlq", 0): 9, ("in.dlq", 1): 2}
