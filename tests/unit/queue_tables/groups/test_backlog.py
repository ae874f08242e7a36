"""How much a group still has to do in a partition."""

from __future__ import annotations

from lakequeue.records import Offset, Partition, TopicId
from queue_tables.groups.backlog import lag_of, open_by_stage
from queue_tables.groups.facts import GroupState
from queue_tables.groups.record_states import OpenRecord, RecordStates, Stage


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
