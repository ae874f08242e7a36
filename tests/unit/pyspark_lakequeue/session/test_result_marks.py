"""Which positions a result table has, by its history."""

from __future__ import annotations

import pytest

from lakequeue.errors import InvalidRequest
from lakequeue.results.declared import Mark, needle, partition_mark
from lakequeue.results.restores import UNTOLD
from pyspark_lakequeue.session.result_marks import (
    Commit,
    FoundMark,
    Span,
    find,
    gaps,
    moved,
    quoted,
)


def commit(
    version: int, group: str, number: int, known: int | None = None, **positions: int
) -> Commit:
    """`known`: the newest RESTORE that its writer knew of."""
    places = {f"t/{name[1:]}": end for name, end in positions.items()}
    return Commit(version, None, Mark(group, number, f"run{version}", places, known).to_json())


def newest_first(*commits: Commit) -> list[Commit]:
    return sorted(commits, reverse=True)


def test_the_newest_commit_of_the_group_counts() -> None:
    history = newest_first(
        commit(1, "a", 1, p0=5),
        commit(2, "a", 2, p0=7, p1=3),
        commit(3, "ab", 9, p0=100),
        Commit(4, None, None),
        Commit(5, None, '{"somebody": "else"}'),
    )
    assert find("a", history) == FoundMark(2, {"t/0": 7, "t/1": 3})
    assert find("b", history) == FoundMark(0, {})


def test_what_was_restored_away_does_not_count_and_its_round_is_not_used_again() -> None:
    history = newest_first(
        commit(1, "a", 1, p0=5),
        commit(2, "a", 2, p0=7),
        commit(3, "a", 3, p0=9),
        Commit(4, 2, None),
        Commit(5, None, None),
    )
    assert find("a", history) == FoundMark(3, {"t/0": 7}, 4)
    before_all = [Commit(6, 0, None), *history]
    assert find("a", before_all) == FoundMark(3, {"t/0": 0}, 6)
    again = [commit(7, "a", 4, p0=6), *before_all]
    assert find("a", again) == FoundMark(4, {"t/0": 6}, 6)


def test_a_restore_that_came_before_a_commit_and_that_its_writer_missed_is_an_error() -> None:
    history = newest_first(
        commit(1, "a", 1, known=-1, p0=5),
        commit(2, "a", 2, known=-1, p0=7),
        Commit(3, 1, None),
        Commit(4, None, '{"somebody": "else"}'),
        commit(5, "a", 3, known=-1, p0=9),
    )
    with pytest.raises(InvalidRequest, match=r"version 3 restored .* while a batch"):
        find("a", history)
    again = [Commit(6, 1, None), *history]
    assert find("a", again) == FoundMark(3, {"t/0": 5}, 6), "restored again, that batch is gone"
    known = newest_first(*history[1:], commit(5, "a", 3, known=3, p0=9))
    assert find("a", known) == FoundMark(3, {"t/0": 9}, 3)
    later = newest_first(*known, commit(6, "a", 4, known=3, p0=11))
    assert find("a", later) == FoundMark(4, {"t/0": 11}, 3)


def test_of_a_partition_that_was_restored_away_as_a_whole_the_table_has_nothing() -> None:
    history = newest_first(
        commit(1, "a", 1, p0=5),
        commit(2, "a", 2, p0=5, p1=9),
        commit(3, "b", 1, p2=9),
        Commit(4, 1, None),
    )
    found = find("a", history)
    assert found == FoundMark(2, {"t/0": 5, "t/1": 0}, 4)
    # As a checkpoint from before the restore goes on.
    assert gaps(found.positions, {"t/1": Span(9, 10)}) == {"t/1": (0, 9)}


def test_a_path_is_one_name_in_sql_whatever_is_in_it() -> None:
    assert quoted("/lake/a b") == "delta.`/lake/a b`"
    assert quoted("/lake/it`s") == "delta.`/lake/it``s`"


def test_a_restore_to_a_time_is_refused_until_one_to_a_version_follows() -> None:
    history = newest_first(
        commit(1, "a", 1, p0=5), commit(2, "a", 2, p0=7), Commit(3, UNTOLD, None)
    )
    with pytest.raises(InvalidRequest, match="version 3 restored the result table to a time"):
        find("a", history)
    assert find("a", [commit(4, "a", 3, p0=6), *history]) == FoundMark(3, {"t/0": 6}, 3)
    assert find("a", [Commit(4, 1, None), *history]) == FoundMark(2, {"t/0": 5}, 4)


def test_a_group_is_found_by_the_beginning_of_its_metadata() -> None:
    text = Mark("a", 1, "run", {"t/0": 1}).to_json()
    assert text.startswith(needle("a"))
    assert not text.startswith(needle("ab"))
    assert not Mark("ab", 1, "run", {}).to_json().startswith(needle("a"))


def test_a_gap_is_told_with_both_offsets_and_a_new_partition_is_none() -> None:
    positions = {"t/0": 7, "t/1": 3}
    batch = {"t/0": Span(9, 12), "t/1": Span(0, 5), "t/2": Span(40, 41)}
    assert gaps(positions, batch) == {"t/0": (7, 9)}
    assert moved(positions, batch) == {"t/0": 12, "t/1": 5, "t/2": 41}
    assert moved(positions, {"t/0": Span(0, 2)}) == positions


def test_a_table_that_delta_rs_writes_for_the_group_is_refused_until_that_is_undone() -> None:
    by_delta_rs = Commit(2, None, partition_mark("a", "t", 0, 9))
    history = newest_first(commit(1, "a", 1, p0=5), by_delta_rs)
    with pytest.raises(InvalidRequest, match="group a has written to this table by Consumer"):
        find("a", history)
    assert find("ab", history) == FoundMark(0, {}), "of another group it is no matter"
    restored = [Commit(3, 1, None), *history]
    assert find("a", restored) == FoundMark(1, {"t/0": 5}, 3)
