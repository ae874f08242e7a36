"""How much of an answer each partition gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consumer_service.streams.shares import Share, in_turn, share_of


def test_an_answer_in_columns_has_something_of_each_partition() -> None:
    share = share_of(5_000, 8 << 20, 8, columns=True)
    assert share == (625, 1 << 20, True, 625, 1 << 20)


def test_one_partition_gives_all_and_so_does_the_first_in_json() -> None:
    assert share_of(5_000, 1 << 20, 1, columns=True) == Share(5_000, 1 << 20, True)
    assert share_of(5_000, 1 << 20, 8, columns=False) == Share(5_000, 1 << 20, False)


def test_those_that_have_little_give_first_if_all_give() -> None:
    assert in_turn([900, 0, 20], 2_000) == [1, 2, 0]
    assert in_turn([900, 0, 20], 1_000) == [0, 1, 2], "the turn decides who gives"


def test_of_many_partitions_a_few_give_what_is_worth_it() -> None:
    share = share_of(5_000, 8 << 20, 256, columns=True)
    assert (share.rows, share.bytes) == (512, 256 << 10)


@given(st.integers(1, 10_000), st.integers(1, 8 << 20), st.integers(0, 300), st.booleans())
def test_no_share_is_larger_than_what_is_left(
    rows: int, size: int, partitions: int, columns: bool
) -> None:
    share = share_of(rows, size, partitions, columns=columns)
    assert 1 <= share.rows <= rows
    assert 1 <= share.bytes <= size
