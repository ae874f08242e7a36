"""Tasks: every record is read once, in order within its partition, by as many tasks as asked
for.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pyspark_lakequeue.source.planning import (
    MOST_TASK_BYTES,
    SPREAD,
    TASK_BYTES,
    Piece,
    RowSpan,
    plan_tasks,
)


def pieces_of(groups: list[list[int]], size: int = 1000) -> list[Piece]:
    """Row groups with so many records of the partitions 0, 1, …, one group an instant."""
    ends: dict[int, int] = defaultdict(int)
    out = []
    for n, counts in enumerate(groups):
        spans, row = [], 0
        for partition, rows in enumerate(counts):
            if rows:
                spans.append(RowSpan("t", partition, ends[partition], row, row + rows))
                ends[partition] += rows
                row += rows
        if spans:
            out.append(Piece(f"{n:06}", f"file-{n // 2}", n % 2, size, tuple(spans)))
    return out


def offsets_of(tasks: list[list[Piece]]) -> list[dict[int, list[int]]]:
    """For each task and partition the offsets, in the order in which they are read."""
    out = []
    for task in tasks:
        read: dict[int, list[int]] = defaultdict(list)
        for piece in task:
            for span in piece.spans:
                read[span.partition] += range(span.offset, span.offset + span.end - span.start)
        out.append(read)
    return out


GROUPS = st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=3), max_size=12)


@given(GROUPS, st.integers(0, 20), st.none() | st.integers(1, 40), st.randoms())
def test_every_record_goes_to_one_task_in_order(
    groups: list[list[int]], least: int, most_rows: int | None, random: object
) -> None:
    pieces = pieces_of(groups)
    total = sum(piece.rows for piece in pieces)
    shuffled = pieces[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    tasks = plan_tasks(shuffled, least, most_rows)
    assert all(tasks)
    assert len(tasks) >= min(least, total)
    read = offsets_of(tasks)
    if most_rows:
        assert all(sum(map(len, task.values())) <= most_rows for task in read)
    together: dict[int, list[int]] = defaultdict(list)
    for task in read:
        for partition, offsets in task.items():
            assert offsets == sorted(offsets)
            together[partition] += offsets
    assert {p: sorted(o) for p, o in together.items()} == {
        p: list(range(len(o))) for p, o in together.items()
    }
    assert sum(map(len, together.values())) == total


def test_a_row_group_is_cut_only_when_more_tasks_are_asked_for_than_there_are() -> None:
    pieces = pieces_of([[10, 10], [10, 10], [10, 10]])
    whole = plan_tasks(pieces, least=3)
    assert [len(task) for task in whole] == [1, 1, 1]
    assert len(plan_tasks(pieces, least=4)) == 4


def test_little_is_read_by_one_task_and_much_by_many() -> None:
    groups = [[10]] * 8
    assert len(plan_tasks(pieces_of(groups))) == 1
    assert len(plan_tasks(pieces_of(groups, size=TASK_BYTES))) == 8
    assert len(plan_tasks(pieces_of(groups, size=TASK_BYTES // 2))) == 4
    large = pieces_of([[10]] * 128, size=TASK_BYTES)
    assert len(plan_tasks(large)) == 128 * TASK_BYTES // MOST_TASK_BYTES
    assert len(plan_tasks(large[:24])) == SPREAD


@given(
    st.lists(st.lists(st.integers(0, 30), min_size=3, max_size=3), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
    st.integers(0, 9),
)
def test_partitions_whose_files_are_out_of_order_still_come_by_their_offsets(
    groups: list[list[int]], random: Random, least: int
) -> None:
    """As when another engine has put rows of many commits into few files."""
    pieces = pieces_of(groups)
    strewn: dict[tuple[str, int], list[RowSpan]] = defaultdict(list)
    for piece in pieces:
        for span in piece.spans:
            strewn[f"file-{random.randrange(2)}", random.randrange(2)].append(span)
    mixed = [Piece("", path, group, 9, tuple(sorted(c))) for (path, group), c in strewn.items()]
    for task in offsets_of(plan_tasks(mixed, least)):
        for read in task.values():
            assert read == sorted(read)
    ends = {p: sum(counts[p] for counts in groups) for p in range(3)}
    found: dict[int, list[int]] = defaultdict(list)
    for task in offsets_of(plan_tasks(mixed, least)):
        for partition, read in task.items():
            found[partition] += read
    assert {p: sorted(found[p]) for p in ends} == {p: list(range(n)) for p, n in ends.items()}
