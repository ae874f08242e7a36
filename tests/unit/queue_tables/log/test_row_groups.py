"""Where the log writer cuts row groups."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_tables.log.writer import _MAX_GROUP_BYTES, _MAX_GROUP_ROWS, row_groups


def sorted_rows(counts: list[int], value: bytes = b"v") -> pa.Table:
    """So many rows for each partition, of two topics in turn."""
    partitions = np.repeat(np.arange(len(counts)), counts)
    topics = pa.DictionaryArray.from_arrays(
        pa.array(partitions // 4, pa.int32()), pa.array(["t0", "t1", "t2"])
    )
    return pa.table(
        {
            "topic_id": topics.cast(pa.string()),
            "partition": pa.array(partitions % 4, pa.int32()),
            "value": pa.repeat(value, sum(counts)),
        }
    )


@settings(max_examples=40)
@given(st.lists(st.integers(0, 12_000), min_size=1, max_size=8))
def test_groups_hold_every_row_once_and_are_of_a_decent_size(counts: list[int]) -> None:
    rows = sorted_rows(counts)
    cuts = row_groups(rows)
    assert [n for start, end in cuts for n in (start, end)] == sorted(
        n for cut in cuts for n in cut
    )
    assert sum(end - start for start, end in cuts) == rows.num_rows
    assert all(0 < end - start <= _MAX_GROUP_ROWS for start, end in cuts)


def test_a_long_partition_has_groups_of_its_own() -> None:
    cuts = row_groups(sorted_rows([10, 20_000, 10]))
    assert cuts[0] == (0, 10)
    assert cuts[-1] == (20_010, 20_020)
    assert {end - start for start, end in cuts[1:-1]} <= {6666, 6667}


def test_a_small_batch_is_one_group() -> None:
    assert row_groups(sorted_rows([30, 40, 50])) == [(0, 120)]
    assert row_groups(sorted_rows([])) == []


def test_large_records_make_groups_of_fewer_rows() -> None:
    cuts = row_groups(sorted_rows([100], b"x" * 1_000_000))
    assert all((end - start) * 1_000_000 <= _MAX_GROUP_BYTES for start, end in cuts)
