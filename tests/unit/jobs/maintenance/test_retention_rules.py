"""What may leave the log: whole files, and of each partition only a prefix."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from jobs.maintenance.retention_rules import (
    AFTER_KEPT,
    DEDUP,
    SHARED,
    UNCONSUMED,
    Limits,
    LogFile,
    Need,
    needs,
    plan_retention,
)
from lakequeue.records import Offset, Partition, Stamp, TopicId
from queue_tables.groups.facts import DELETED, GroupState
from queue_tables.log.index import PartitionKey

OLD, YOUNG = 100, 1_000
BEFORE = 500
A, B = TopicId("a"), TopicId("b")


def a_file(n: int, at: int = OLD, size: int = 100, **parts: tuple[int, int]) -> LogFile:
    """`a0=(3, 5)`: offsets 3 to 5 of topic a, partition 0."""
    return file_of(n, parts, at, size)


def file_of(
    n: int, parts: Mapping[str, tuple[int, int]], at: int = OLD, size: int = 100
) -> LogFile:
    return LogFile(
        f"f{n}",
        size,
        at + n,
        Stamp(at + n),
        {
            PartitionKey(name[0], int(name[1:])): (Offset(first), Offset(last))
            for name, (first, last) in parts.items()
        },
    )


def firsts_of(files: list[LogFile]) -> dict[PartitionKey, Offset]:
    firsts: dict[PartitionKey, Offset] = {}
    for file in files:
        for key, (first, _) in file.parts.items():
            firsts[key] = min(first, firsts.get(key, first))
    return firsts


def dropped(files: list[LogFile], limits: dict[TopicId, Limits], **newer: int) -> list[str]:
    plan = plan_retention(
        files, limits, firsts_of(files), {TopicId(t): n for t, n in newer.items()}
    )
    return [file.path for file in plan.drop]


def test_what_is_older_than_the_topic_keeps_goes_and_nothing_else() -> None:
    files = [a_file(1, a0=(0, 4)), a_file(2, a0=(5, 9)), a_file(3, at=YOUNG, a0=(10, 14))]
    assert dropped(files, {A: Limits(before=BEFORE)}) == ["f1", "f2"]
    assert dropped(files, {A: Limits()}) == []
    assert dropped(files, {}) == []


def test_what_lies_beyond_the_bytes_of_newer_records_goes() -> None:
    files = [a_file(n, a0=(n, n)) for n in range(5)]
    assert dropped(files, {A: Limits(most_bytes=200)}) == ["f0", "f1", "f2"]
    assert dropped(files, {A: Limits(most_bytes=201)}) == ["f0", "f1"]
    assert dropped(files, {A: Limits(most_bytes=1_000)}) == []
    assert dropped(files, {A: Limits(most_bytes=200)}, a=100) == ["f0", "f1", "f2", "f3"]


def test_a_topics_share_of_a_mixed_file_goes_by_its_records() -> None:
    assert a_file(1, size=100, a0=(0, 2), b0=(7, 7)).bytes_of(A) == 75
    assert a_file(1, size=100, a0=(0, 2), b0=(7, 7)).bytes_of(B) == 25


def test_what_a_group_still_needs_is_kept_with_all_that_follows() -> None:
    files = [a_file(1, a0=(0, 4)), a_file(2, a0=(5, 9)), a_file(3, a0=(10, 14))]
    needed = {Partition(0): Need(Offset(7), "billing")}
    plan = plan_retention(files, {A: Limits(BEFORE, needed=needed)}, firsts_of(files), {})
    assert [file.path for file in plan.drop] == ["f1"]
    assert plan.kept[A] == {UNCONSUMED: 2}
    assert plan.held_by[A] == {"billing"}
    needed = {Partition(0): Need(Offset(5), "billing")}
    assert dropped(files, {A: Limits(BEFORE, needed=needed)}) == ["f1"]
    needed = {Partition(1): Need(Offset(0), "other partition")}
    assert len(dropped(files, {A: Limits(BEFORE, needed=needed)})) == 3


def test_the_dedup_window_keeps_what_an_id_may_be_asked_for() -> None:
    files = [a_file(1, a0=(0, 4)), a_file(2, a0=(5, 9))]
    limits = {A: Limits(before=BEFORE, stamp_below=Stamp(OLD + 2))}
    plan = plan_retention(files, limits, firsts_of(files), {})
    assert [file.path for file in plan.drop] == ["f1"]
    assert plan.kept[A] == {DEDUP: 1}


def test_a_file_of_two_topics_goes_when_both_let_it_go() -> None:
    files = [a_file(1, a0=(0, 4), b0=(0, 4)), a_file(2, a0=(5, 9)), a_file(3, b0=(5, 9))]
    plan = plan_retention(files, {A: Limits(before=BEFORE)}, firsts_of(files), {})
    assert plan.drop == []
    assert plan.kept[A] == {SHARED: 1, AFTER_KEPT: 1}
    both = {A: Limits(before=BEFORE), B: Limits(before=BEFORE)}
    assert dropped(files, both) == ["f1", "f2", "f3"]


def test_a_file_that_stays_keeps_what_follows_it_in_each_of_its_partitions() -> None:
    files = [
        a_file(1, a0=(0, 4)),
        a_file(2, at=YOUNG, a0=(5, 9)),  # its clock was ahead
        a_file(3, a0=(10, 14), a1=(0, 4)),
        a_file(4, a1=(5, 9)),
        a_file(5, a2=(0, 4)),
    ]
    assert dropped(files, {A: Limits(before=BEFORE)}) == ["f1", "f5"]


def test_a_partition_that_begins_elsewhere_than_a_file_is_left_alone() -> None:
    """A file below it is not among those that could go."""
    files = [a_file(2, a0=(5, 9))]
    firsts = {PartitionKey("a", 0): Offset(0)}
    assert plan_retention(files, {A: Limits(before=BEFORE)}, firsts, {}).drop == []


def state(group: str, partition: int, offset: int | None, **more: str) -> GroupState:
    return GroupState(
        group,
        A,
        Partition(partition),
        committed_offset=None if offset is None else Offset(offset),
        **more,  # type: ignore[arg-type]
    )


def test_a_group_needs_every_partition_of_a_topic_that_it_consumes() -> None:
    states = [state("x", 0, 5), state("y", 0, 3), state("y", 1, None), state("y", 2, 9)]
    found = needs(states, {A: 3})
    assert found[A] == {0: Need(Offset(3), "y"), 1: Need(Offset(0), "x"), 2: Need(Offset(0), "x")}
    assert needs([dataclasses.replace(states[1], mode=DELETED)], {A: 3}) == {}
    assert needs([], {A: 3}) == {}


def test_a_group_is_live_while_anything_was_heard_of_it_lately() -> None:
    old, new = (dataclasses.replace(state("x", n, 5), changed_at=100 + n) for n in (0, 1))
    assert needs([old, new], {A: 2}, 101)[A][Partition(0)] == Need(Offset(5), "x")
    assert needs([old, new], {A: 2}, 102) == {}


KEYS = ["a0", "a1", "b0"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([OLD, YOUNG]), st.dictionaries(st.sampled_from(KEYS), st.integers(1, 4))
        ).filter(lambda file: bool(file[1])),
        max_size=12,
    ),
    st.dictionaries(st.sampled_from([A, B]), st.tuples(st.booleans(), st.integers(0, 600))),
    st.dictionaries(st.sampled_from([0, 1]), st.integers(0, 20)),
)
def test_whatever_the_limits_each_partition_keeps_a_suffix_and_all_that_is_needed(
    drawn: list[tuple[int, dict[str, int]]],
    limited: dict[TopicId, tuple[bool, int]],
    need: dict[int, int],
) -> None:
    ends: dict[str, int] = defaultdict(int)
    files = []
    for n, (at, counts) in enumerate(drawn):
        parts = {}
        for key, count in counts.items():
            parts[key] = (ends[key], ends[key] + count - 1)
            ends[key] += count
        files.append(file_of(n, parts, at))
    needed = {Partition(p): Need(Offset(offset), "g") for p, offset in need.items()}
    limits = {
        t: Limits(BEFORE if by_time else None, None if by_time else size, needed=needed)
        for t, (by_time, size) in limited.items()
    }
    plan = plan_retention(files, limits, firsts_of(files), {})
    gone = {file.path for file in plan.drop}
    kept: dict[PartitionKey, list[int]] = defaultdict(list)
    for file in files:
        for where, (first, last) in file.parts.items():
            if file.path not in gone:
                kept[where] += range(first, last + 1)
            else:
                assert TopicId(where.topic_id) in limits
                assert where.partition not in need or last < need[where.partition]
    for where, offsets in kept.items():
        end = ends[f"{where.topic_id}{where.partition}"]
        assert sorted(offsets) == list(range(min(offsets), end))
