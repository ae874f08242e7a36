"""How much a group still has to do in a partition."""

from __future__ import annotations

import numpy as np

from lakequeue.records import Offset, Partition, TopicId
from queue_tables.groups.backlog import Counts, lag_of, open_at, open_by_stage, unseen_at
from queue_tables.groups.facts import GroupState
from queue_tables.groups.offset_ranges import NO_RANGES, Offsets, ranges_of
from queue_tables.groups.record_states import NEVER, OpenRecord, RecordStates, Stage


def state(committed: int | None, mode: str = "stream") -> GroupState:
    offset = None if committed is None else Offset(committed)
    return GroupState("g", TopicId("t"), Partition(0), mode=mode, committed_offset=offset)


def test_a_stream_group_has_what_lies_behind_its_position() -> None:
    assert lag_of(None, 3, 10) == 7
    assert lag_of(state(None), 0, 10) == 10
    assert lag_of(state(4), 0, 10) == 6
    assert lag_of(state(4), 6, 10) == 4, "what is gone cannot be consumed"
    assert lag_of(state(12), 0, 10) == 0, "a fold may know more than the end that was read"
    assert open_by_stage(state(4)) == {}


def test_a_queue_group_has_what_is_open_as_well() -> None:
    opened = RecordStates.opened(
        [OpenRecord(2, 1, Stage.DELIVERED, 9), OpenRecord(3, 1, Stage.PARKED, 9)]
    )
    group = GroupState(
        "g",
        TopicId("t"),
        Partition(0),
        mode="queue",
        committed_offset=Offset(4),
        records=opened,
    )
    assert open_by_stage(group) == {"in_flight": 1, "parked": 1, "dying": 0}
    assert lag_of(group, 0, 10) == 6 + 2


def test_what_has_become_due_since_is_pending_though_nobody_looked() -> None:
    opened = [
        OpenRecord(1, 1, Stage.DELIVERED, 5),
        OpenRecord(2, 1, Stage.DELIVERED, 9),
        OpenRecord(3, 0, Stage.PARKED, 5),
        OpenRecord(4, 0, Stage.PARKED, 9),
        OpenRecord(5, 3, Stage.DYING, 5),
    ]
    records = RecordStates.opened(opened)
    group = GroupState("g", TopicId("t"), Partition(0), mode="queue", records=records)
    assert open_at(group, 4) == Counts(pending=0, in_flight=2, parked=2, dying=1)
    assert open_at(group, 5) == Counts(pending=2, in_flight=1, parked=1, dying=1)
    assert open_at(group, 9) == Counts(pending=4, in_flight=0, parked=0, dying=1)


def whole(*numbers: int) -> Offsets:
    return np.array(numbers, np.int64)


def test_unseen_records_are_pending_parked_or_over() -> None:
    dues = whole(6, 7, 8, 9), whole(0, 50, 50, 0), whole(NEVER, NEVER, NEVER, 40)
    assert unseen_at(NO_RANGES, 0, 10, dues, 30) == Counts(8, 0, 2, 0), "0 to 5 were not looked at"
    assert unseen_at(NO_RANGES, 0, 10, dues, 45) == Counts(7, 0, 2, 0), "9 has expired"
    assert unseen_at(NO_RANGES, 0, 10, dues, 50) == Counts(9, 0, 0, 0)
    assert unseen_at(NO_RANGES, 0, 8, dues, 30) == Counts(7, 0, 1, 0), "up to the end"
    seen = ranges_of([(2, 4), (7, 8)])
    assert unseen_at(seen, 2, 10, dues, 30) == Counts(4, 0, 1, 0), "seen ones are counted as open"
    assert unseen_at(NO_RANGES, 10, 10, (whole(), whole(), whole()), 30) == Counts(0, 0, 0, 0)
