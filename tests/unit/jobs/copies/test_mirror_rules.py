"""In which commits a replica gets to where its source is."""

from __future__ import annotations

import itertools

import pytest

from jobs.copies.mirror_rules import MirrorFile, MirrorPlan, ends_after, in_order, plan_mirror
from lakequeue.records import Offset
from queue_tables.log.index import PartitionKey

A, B = PartitionKey("a", 0), PartitionKey("b", 0)


def file(name: str, size: int = 1, **parts: tuple[int, int]) -> MirrorFile:
    """`a=(0, 9)`: offsets 0 to 9 of partition 0 of topic `a`."""
    held = {
        PartitionKey(topic, 0): (Offset(first), Offset(last))
        for topic, (first, last) in parts.items()
    }
    return MirrorFile(name, size, held)


def names(plan: MirrorPlan) -> tuple[list[list[str]], list[str], list[str]]:
    return [[f.path for f in step] for step in plan.appends], [f.path for f in plan.put], plan.take


FIRST, SECOND, THIRD = file("1", a=(0, 9)), file("2", a=(10, 19), b=(0, 4)), file("3", b=(5, 6))


@pytest.mark.parametrize("given", list(itertools.permutations([FIRST, SECOND, THIRD])))
def test_each_file_goes_on_where_those_before_it_end(given: tuple[MirrorFile, ...]) -> None:
    ordered = in_order(given, {})
    assert ordered is not None
    places = [f.path for f in ordered]
    assert places.index("1") < places.index("2") < places.index("3")


def test_files_that_cross_have_no_order() -> None:
    crossed = [file("1", a=(0, 9), b=(5, 9)), file("2", a=(10, 19), b=(0, 4))]
    assert in_order(crossed, {}) is None


def test_what_is_new_is_appended_in_steps_and_then_the_rest_is_exchanged() -> None:
    rewritten = file("c", a=(0, 4))
    plan = plan_mirror([THIRD, SECOND, rewritten, file("0", a=(5, 9))], ["x", "w"], {A: 10}, 1)
    assert names(plan) == ([["2"], ["3"]], ["c", "0"], ["w", "x"])
    whole = plan_mirror([THIRD, SECOND, FIRST], [], {}, 100)
    assert names(whole) == ([["1", "2", "3"]], [], [])
    assert not whole.exchanges


def test_a_first_copy_begins_where_the_source_does() -> None:
    assert names(plan_mirror([file("1", a=(100, 109))], [], {}, 1)) == ([["1"]], [], [])


def test_what_would_leave_a_gap_or_a_second_copy_is_one_exchange_of_all() -> None:
    gap = plan_mirror([file("1", a=(100, 109))], ["x"], {A: 10}, 1)
    assert names(gap) == ([], ["1"], ["x"])
    both = plan_mirror([file("1", a=(5, 14)), file("2", b=(0, 0))], ["x"], {A: 10}, 1)
    assert names(both) == ([], ["1", "2"], ["x"])


def test_ends_are_behind_the_last_record() -> None:
    assert ends_after([FIRST, SECOND]) == {A: 20, B: 5}
