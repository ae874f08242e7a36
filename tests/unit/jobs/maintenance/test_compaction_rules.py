"""Which files are rewritten together, and that it ends in few files with nothing torn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from jobs.maintenance.compaction_rules import (
    HourFile,
    Output,
    Parts,
    file_bounds,
    held_at_once,
    outputs_of,
    plan_groups,
    worth_it,
)
from lakequeue.records import Offset
from queue_tables.log.index import PartitionKey

TARGET, STEP = 100, 250


def a_file(n: int, size: int, topics: str = "a", hour: str = "1") -> HourFile:
    return HourFile(f"f{n}", hour, size, min(topics), max(topics), n, 0)


def parts(**ranges: tuple[int, int]) -> Parts:
    return {
        PartitionKey(name[0], int(name[1:])): (Offset(first), Offset(last))
        for name, (first, last) in ranges.items()
    }


def groups(*files: HourFile) -> list[list[str]]:
    return [[file.path for file in group] for group in plan_groups(files, TARGET, STEP)]


def test_small_neighbours_of_one_topic_are_joined_up_to_the_target() -> None:
    assert groups(*(a_file(n, 40) for n in range(5))) == [["f0", "f1"], ["f2", "f3"]]
    assert groups(a_file(1, 10), a_file(2, 60), a_file(3, 10), a_file(4, 10)) == [["f3", "f4"]]
    assert groups(a_file(1, 10)) == []
    assert groups(a_file(1, 60), a_file(2, 60)) == []


def test_hours_and_topics_are_kept_apart() -> None:
    assert groups(a_file(1, 10, hour="1"), a_file(2, 10, hour="2")) == []
    assert groups(a_file(1, 10, "a"), a_file(2, 10, "b"), a_file(3, 10, "a")) == [["f1", "f3"]]


def test_files_of_several_topics_come_first_and_are_parted_even_alone() -> None:
    assert groups(a_file(1, 900, "ab")) == [["f1"]]
    assert groups(a_file(1, 10), a_file(2, 200, "ab"), a_file(3, 10), a_file(4, 100, "ac")) == [
        ["f2"],
        ["f4"],
    ]


def test_a_group_is_rewritten_in_parts_that_fit_into_memory() -> None:
    group = [a_file(n, 1) for n in range(5)]
    parted = held_at_once(group, [30, 60, 20, 900, 10], 100)
    assert [[file.path for file in part] for part in parted] == [
        ["f0", "f1"],
        ["f2"],
        ["f3"],
        ["f4"],
    ]


def test_the_parts_of_a_topic_become_one_file_where_they_follow_each_other() -> None:
    first, second = parts(a0=(0, 4), b0=(0, 1)), parts(a0=(5, 9), a1=(0, 3))
    assert outputs_of([first, second]) == [Output("a", (0, 1)), Output("b", (0,))]


def test_what_lies_in_another_file_is_not_spanned() -> None:
    assert outputs_of([parts(a0=(0, 4)), parts(a0=(7, 9)), parts(a0=(10, 12))]) == [
        Output("a", (0,)),
        Output("a", (1, 2)),
    ]
    assert not worth_it([a_file(1, 1), a_file(2, 1)], [Output("a", (0,)), Output("a", (1,))])


def test_a_large_output_is_cut_into_equal_files() -> None:
    assert file_bounds(10, 250, 100) == [(0, 5), (5, 10)]
    assert file_bounds(10, 10, 100) == [(0, 10)]
    assert file_bounds(2, 10_000, 100) == [(0, 1), (1, 2)]


LAID = st.lists(
    st.dictionaries(st.sampled_from(["a0", "a1", "b0", "c0"]), st.integers(1, 30), min_size=1),
    min_size=1,
    max_size=30,
)


@given(LAID, st.lists(st.booleans(), min_size=30, max_size=30))
def test_compacting_again_and_again_ends_with_topics_apart_and_nothing_torn(
    laid: list[dict[str, int]], hidden: list[bool]
) -> None:
    """`hidden` files are of another hour: their offsets lie between."""
    ends: dict[str, int] = defaultdict(int)
    known: dict[str, Parts] = {}
    files: list[HourFile] = []
    for n, counts in enumerate(laid):
        ranges = {}
        for name, count in counts.items():
            ranges[name] = (ends[name], ends[name] + count - 1)
            ends[name] += count
        if not hidden[n]:
            file = a_file(n, sum(counts.values()), "".join(name[0] for name in counts))
            files.append(file)
            known[file.path] = parts(**ranges)
    before = offsets_in(known[file.path] for file in files)
    for _ in range(100):
        changed = False
        for group in list(plan_groups(files, TARGET, STEP)):
            outputs = outputs_of([known[file.path] for file in group])
            if not worth_it(group, outputs):
                continue
            changed = True
            files = [file for file in files if file not in group]
            for output in outputs:
                made, ranges_of = merged(len(known), group, known, output)
                known[made.path] = ranges_of
                files.append(made)
        if not changed:
            break
    assert not changed
    assert not any(file.mixed for file in files)
    assert offsets_in(known[file.path] for file in files) == before


def merged(
    n: int, group: list[HourFile], known: dict[str, Parts], output: Output
) -> tuple[HourFile, Parts]:
    """The file that an output becomes; its ranges of offsets are whole, or the test fails."""
    inputs = [group[i] for i in output.inputs]
    held: dict[PartitionKey, list[int]] = defaultdict(list)
    for file in inputs:
        for key, (first, last) in known[file.path].items():
            if key.topic_id == output.topic_id:
                held[key] += range(first, last + 1)
    for offsets in held.values():
        assert sorted(offsets) == list(range(min(offsets), max(offsets) + 1))
    ranges = {key: (Offset(min(o)), Offset(max(o))) for key, o in held.items()}
    size = sum(len(offsets) for offsets in held.values())
    at = min(file.ordered_at for file in inputs)
    topic = output.topic_id
    return HourFile(f"g{n}", "1", size, topic, topic, at, 0), ranges


def offsets_in(all_parts: Iterable[Parts]) -> dict[PartitionKey, list[int]]:
    found: dict[PartitionKey, list[int]] = defaultdict(list)
    for some in all_parts:
        for key, (first, last) in some.items():
            found[key] += range(first, last + 1)
    return {key: sorted(offsets) for key, offsets in found.items()}
