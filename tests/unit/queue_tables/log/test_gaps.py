"""Gaps are what no span holds."""

from __future__ import annotations

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from queue_tables.log.gaps import GapsSeen, gaps
from queue_tables.log.index import PartitionKey


@given(st.sets(st.integers(0, 40)), st.integers(0, 20), st.integers(0, 50))
def test_spans_and_gaps_are_all_there_is(held: set[int], first: int, end: int) -> None:
    spans = []
    for _, run in groupby(enumerate(sorted(held)), lambda pair: pair[1] - pair[0]):
        some = [offset for _, offset in run]
        spans.append((some[0], some[-1]))
    found = list(gaps(spans, first, end))
    missing = [n for low, to in found for n in range(low, to)]
    assert missing == [n for n in range(first, end) if n not in held]


def test_a_gap_that_several_readers_come_upon_counts_once() -> None:
    seen, key = GapsSeen(), PartitionKey("t", 0)
    for start, to in ((5, 9), (7, 9), (3, 9), (12, 13)):
        seen.note(key, start, to)
    assert seen.offsets == 7
