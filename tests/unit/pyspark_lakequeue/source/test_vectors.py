"""Positions over all partitions: text, ranges between two, and what is admitted at once."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from pyspark_lakequeue.source.vectors import Place, Vector, admit, count, ranges

A0, A1, B0 = Place("a", 0), Place("a", 1), Place("b", 0)
PLACES = st.builds(Place, st.sampled_from("abc"), st.integers(0, 12))


def test_a_vector_reads_like_the_kafka_source_s_offset() -> None:
    said = Vector({A1: 7, A0: 23}, {"a": "id-a"}).to_json()
    assert {k: v for k, v in said.items() if not k.startswith("@")} == {"a": {"0": 23, "1": 7}}


@given(st.dictionaries(PLACES, st.integers(0, 1 << 60)), st.booleans())
def test_whoever_reads_kafka_s_offsets_meets_no_other_shape(
    offsets: dict[Place, int], initial: bool
) -> None:
    said = Vector(offsets, {"a": "3f-id", "b": "4e-id"}, offsets, initial).to_json()
    found = {
        Place(topic, int(partition)): int(offset)
        for topic, partitions in said.items()
        for partition, offset in partitions.items()
    }
    assert found == offsets


def test_a_checkpoint_of_an_earlier_release_is_read() -> None:
    old = {"a": {"0": 5}, "@ids": {"a": "3f-id"}, "@from": {"a": {"0": 4}}, "@initial": True}
    assert Vector.of(old) == Vector({A0: 5}, {"a": "3f-id"}, {A0: 4}, initial=True)
    assert Vector.of({"a": {"0": 5}, "@ids": {"a": "x"}}) == Vector({A0: 5}, {"a": "x"})


@given(st.dictionaries(PLACES, st.integers(0, 1 << 60)), st.booleans(), st.booleans())
def test_a_vector_comes_back_out_of_its_text(
    offsets: dict[Place, int], initial: bool, begins: bool
) -> None:
    vector = Vector(offsets, {"a": "x"}, offsets if begins else None, initial)
    assert Vector.of(json.loads(json.dumps(vector.to_json()))) == vector


def test_equal_vectors_have_equal_text() -> None:
    one, two = Vector({A0: 1, B0: 2}), Vector({B0: 2, A0: 1})
    assert json.dumps(one.to_json()) == json.dumps(two.to_json())


def test_a_new_partition_begins_at_its_first_offset() -> None:
    start, end = Vector({A0: 5}), Vector({A0: 5, A1: 4, B0: 9})
    assert ranges(start, end, {A1: 0, B0: 3}) == {A1: (0, 4), B0: (3, 9)}


def test_a_first_batch_begins_where_its_end_says() -> None:
    planned = Vector({A0: 9}, begins={A0: 4})
    moved_on_meanwhile = Vector({A0: 30}, initial=True)
    assert ranges(moved_on_meanwhile, planned, {}) == {A0: (4, 9)}


def test_what_is_admitted_is_spread_by_what_there_is() -> None:
    start, end = {A0: 0, A1: 100, B0: 0}, {A0: 600, A1: 400, B0: 100}
    assert admit(start, end, 100) == {A0: 60, A1: 130, B0: 10}


def test_small_partitions_are_not_starved() -> None:
    assert admit({}, {A0: 101, A1: 11, B0: 1}, 10) == {A0: 8, A1: 1, B0: 1}


def test_partitions_take_turns_if_there_are_more_than_the_limit() -> None:
    backlog = {Place("a", n): 100 for n in range(5)}
    at: dict[Place, int] = {}
    for turn in range(5):
        at = admit(at, backlog, 2, turn)
    assert at == dict.fromkeys(backlog, 2)


@given(
    st.dictionaries(PLACES, st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1),
    st.integers(1, 3000),
    st.integers(0, 1000),
)
def test_admission_takes_exactly_the_limit_or_all_there_is(
    sizes: dict[Place, tuple[int, int]], most: int, turn: int
) -> None:
    start = {place: low for place, (low, _) in sizes.items()}
    end = {place: low + more for place, (low, more) in sizes.items()}
    taken = admit(start, end, most, turn)
    assert count(start, taken) == min(most, count(start, end))
    assert all(start[place] <= taken[place] <= end[place] for place in end)
    some = [place for place in end if end[place] > start[place]]
    if len(some) <= most:
        assert all(taken[place] > start[place] for place in some)
