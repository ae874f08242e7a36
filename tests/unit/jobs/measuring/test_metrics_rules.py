"""Which hours are over, where a group was at the end of one, and whose bytes are counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jobs.maintenance.shard_rules import CLOSED_AFTER_US
from jobs.measuring.metrics_rules import (
    HOUR_US,
    NO_MOVES,
    Moves,
    Position,
    RequestedRanges,
    consumed_between,
    due_hours,
    ends_by,
    position_at,
)
from lakequeue.records import Offset, Partition, TopicId
from queue_tables.groups.facts import GroupState
from queue_tables.groups.offset_ranges import ranges_of
from queue_tables.groups.record_states import OpenRecord, RecordStates, join_records

T = 100 * HOUR_US
STREAM = GroupState(
    "g", TopicId("t"), Partition(0), mode="stream", generation=1, committed_offset=Offset(50)
)
FIRST = Offset(3)


def moves(*rows: tuple[int, int, int, int, bool]) -> Moves:
    """(at, generation, start, end, settles)."""
    columns = np.array(rows, np.int64).reshape(-1, 5).T
    return Moves(columns[0], columns[1], columns[2], columns[3], columns[4].astype(bool))


@pytest.mark.parametrize(
    ("done", "first", "over", "due"),
    [
        (None, None, 0, []),
        (None, 98, 0, [98, 99]),
        (98, 90, 0, [99]),
        (99, 90, 0, []),
        (90, 80, 0, [91, 92, 93]),
        (98, 90, -1, []),
    ],
)
def test_hours_are_due_when_they_are_over_the_oldest_first(
    done: int | None, first: int | None, over: int, due: list[int]
) -> None:
    assert list(due_hours(done, first, T + CLOSED_AFTER_US + over, 3)) == due


def test_a_group_that_was_not_heard_of_since_is_where_it_is() -> None:
    quiet = replace(STREAM, changed_at=T)
    assert position_at(quiet, NO_MOVES, T, T + 1, None, FIRST) == Position(1, 50)
    never = replace(quiet, committed_offset=None)
    assert position_at(never, NO_MOVES, T, T, None, FIRST) == Position(1, 3)


def test_a_stream_group_was_at_its_furthest_commit_by_then() -> None:
    busy = replace(STREAM, changed_at=T + 9)
    facts = moves((T - 5, 1, 20, 21, False), (T, 1, 30, 31, False), (T + 9, 1, 50, 51, False))
    assert position_at(busy, facts, T, T, Position(1, 10), FIRST) == Position(1, 30)
    later = moves((T + 9, 1, 50, 51, False))
    assert position_at(busy, later, T, T, Position(1, 10), FIRST) == Position(1, 10)
    assert position_at(busy, later, T, T, None, FIRST) is None
    assert position_at(busy, facts, T, T + 1, Position(1, 10), FIRST) is None


def test_a_seek_counts_more_than_a_higher_offset_before_it() -> None:
    busy = replace(STREAM, changed_at=T + 9)
    facts = moves((T - 5, 0, 90, 91, False), (T - 1, 1, 5, 6, False))
    assert position_at(busy, facts, T, T, Position(0, 95), FIRST) == Position(1, 5)


def test_what_a_queue_group_settled_later_is_taken_back_and_open_records_never_count() -> None:
    records = join_records(
        RecordStates.settled((0, 10)), RecordStates.opened([OpenRecord(12, 1, 0, 0)])
    )
    group = replace(STREAM, mode="queue", changed_at=T + 9, records=records)
    facts = moves((T, 1, 0, 4, True), (T + 1, 1, 4, 6, True), (T + 9, 1, 9, 10, True))
    assert position_at(group, facts, T, T, None, FIRST) == Position(1, 7)
    # The reading of the state was before these: 12 is open in it, 15 unknown.
    behind = moves((T + 9, 1, 9, 10, True), (T + 9, 1, 12, 13, True), (T + 9, 1, 15, 16, True))
    assert position_at(group, behind, T, T, None, FIRST) == Position(1, 9)
    assert position_at(group, facts, T, T + 1, None, FIRST) is None
    sought = moves((T + 1, 1, 8, 9, False))
    assert position_at(group, sought, T, T, None, FIRST) is None


def test_rates_are_differences_within_one_generation() -> None:
    hour = (T - HOUR_US, T)
    count, which = consumed_between(STREAM, NO_MOVES, Position(1, 10), Position(1, 12), hour)
    assert which is not None
    assert (count, which.tolist()) == (2, [[10, 12]])
    assert consumed_between(STREAM, NO_MOVES, Position(0, 10), Position(1, 12), hour) == (
        None,
        None,
    )
    assert consumed_between(STREAM, NO_MOVES, None, Position(1, 12), hour) == (None, None)


def test_which_records_a_queue_group_settled_is_told_only_if_all_of_its_facts_are_there() -> None:
    group = replace(STREAM, mode="queue", records=RecordStates.settled((0, 9)))
    hour = (T - HOUR_US, T)
    facts = moves((T - 9, 1, 4, 6, True), (T + 1, 1, 8, 9, True), (T - HOUR_US, 1, 0, 4, True))
    count, which = consumed_between(group, facts, Position(1, 4), Position(1, 6), hour)
    assert which is not None
    assert (count, which.tolist()) == (2, [[4, 6]])
    assert consumed_between(group, facts, Position(1, 4), Position(1, 7), hour) == (3, None)


def test_bytes_are_those_of_the_offsets_asked_for() -> None:
    wanted = RequestedRanges({None: ranges_of([(10, 14)]), "g": ranges_of([(0, 11), (13, 20)])})
    assert wanted.all().tolist() == [[0, 20]]
    wanted.add(9, np.array([1, 2, 4]))
    wanted.add(12, np.array([8, 16, 32]))
    assert wanted.bytes == {None: 2 + 4 + 8 + 16, "g": 1 + 2 + 16 + 32}


def test_an_hour_ends_where_the_files_of_it_and_of_earlier_ones_end() -> None:
    parts = [(5, Offset(9)), (6, Offset(19)), (4, Offset(12))]
    assert [ends_by(parts, hour, 7) for hour in (3, 4, 5, 6)] == [7, 13, 13, 20]
