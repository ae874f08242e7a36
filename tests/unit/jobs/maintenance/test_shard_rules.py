"""What may leave the shards: what is done with, later; never what is not."""

from __future__ import annotations

import dataclasses

import pytest

from jobs.maintenance.shard_rules import ShardFacts, done_files, hour_end, removable
from lakequeue.clock import hour_of
from lakequeue.records import ShardName, Stamp
from queue_tables.delta.actions import Add
from queue_tables.shards.bulk import ONCE, shard_of

HOUR = 3_600 * 1_000_000
NOW = 1_700_000_000_000_000
DONE = ShardFacts(ShardName("n-1"), True, Stamp(50), Stamp(50), NOW - 2 * HOUR)


def gone(*shards: ShardFacts, held: set[ShardName] | None = None) -> list[str]:
    return list(removable(shards, NOW, HOUR, 24 * HOUR, held or set()))


def test_a_sealed_shard_that_is_done_to_its_end_goes_after_the_margin() -> None:
    assert gone(DONE) == ["n-1"]


@pytest.mark.parametrize(
    "changes",
    [
        {"sealed": False},
        {"newest": Stamp(51)},
        {"changed_at": NOW - HOUR + 1},
        {"batch": 3},
    ],
)
def test_a_shard_stays_that_is_open_or_not_done_or_young(changes: dict[str, object]) -> None:
    assert gone(dataclasses.replace(DONE, **changes)) == []  # type: ignore[arg-type]


def test_a_shard_stays_that_a_taker_would_fence() -> None:
    assert gone(DONE, held={DONE.name}) == []


def test_a_bulk_writer_keeps_the_shard_with_its_newest_batch() -> None:
    old = dataclasses.replace(DONE, changed_at=NOW - 30 * HOUR)
    first, second, other = (
        dataclasses.replace(old, name=ShardName(name), batch=batch)
        for name, batch in [("w-2", 4), ("w-1", 7), ("v-1", 0)]
    )
    assert gone(first, second, other) == ["w-2"]
    assert gone(dataclasses.replace(first, changed_at=NOW - 2 * HOUR), second) == []


def test_a_bulk_writer_that_writes_once_keeps_nothing() -> None:
    name = shard_of("spark-5e5e", ONCE)
    for shard in (name, ShardName(f"{name}x1")):
        old = dataclasses.replace(DONE, name=shard, batch=0, changed_at=NOW - 25 * HOUR)
        assert gone(old) == [shard]
        assert gone(dataclasses.replace(old, changed_at=NOW - 2 * HOUR)) == []
    query = dataclasses.replace(old, name=shard_of("spark-5e5e", "0a0b"))
    assert gone(query) == []


def test_age_delays_and_what_is_not_done_is_kept_however_old() -> None:
    old, young, waiting = (
        Add(path, 1, modification_time=at // 1_000)
        for path, at in [("old", NOW - HOUR), ("young", NOW - HOUR + 1_000), ("waiting", 0)]
    )
    assert done_files([old, young, waiting], {"waiting"}, NOW, HOUR) == [old]


def test_an_hour_ends_where_the_next_begins() -> None:
    end = hour_end(hour_of(NOW))
    assert hour_of(end - 1) == hour_of(NOW)
    assert hour_of(end) != hour_of(NOW)
