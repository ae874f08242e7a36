"""The two state machines: every transition of the tables, and no other."""

from __future__ import annotations

import itertools

import pytest

from consumer_service.ownership import partition_states
from consumer_service.ownership.partition_states import TRANSITIONS, Cause, PartitionState, describe
from queue_rules.groups import member_states
from queue_rules.groups.member_states import Liveness, MemberState


def test_partition_transitions_are_those_of_the_table() -> None:
    for state, cause in itertools.product(PartitionState, Cause):
        sources, target = TRANSITIONS[cause]
        if state in sources:
            assert partition_states.advance(state, cause) is target
        else:
            with pytest.raises(ValueError, match="is not possible in"):
                partition_states.advance(state, cause)


def test_only_an_owner_delivers() -> None:
    assert [s for s in PartitionState if s.delivers] == [PartitionState.OWNED]
    assert all(describe(state) for state in PartitionState)


def test_every_state_has_a_way_back_to_unassigned() -> None:
    reach = {PartitionState.UNASSIGNED}
    for _ in PartitionState:
        reach |= {s for sources, to in TRANSITIONS.values() if to in reach for s in sources}
    assert reach == set(PartitionState)


def test_a_member_leaves_once_for_the_first_reason() -> None:
    state = member_states.advance(MemberState.JOINING, member_states.Cause.JOINED)
    state = member_states.advance(state, member_states.Cause.SILENT)
    assert state is MemberState.LEAVING
    assert member_states.advance(state, member_states.Cause.LEFT) is MemberState.LEAVING
    assert member_states.advance(state, member_states.Cause.REMOVED) is MemberState.GONE
    with pytest.raises(ValueError, match="JOINED"):
        member_states.advance(MemberState.GONE, member_states.Cause.JOINED)
    assert all(member_states.explain(cause) for cause in member_states.Cause)


def test_a_member_that_stood_still_is_told_what_to_raise() -> None:
    stuck = member_states.unknown_member("billing", "m", member_states.Cause.STUCK)
    assert "committed nothing for longer than max_poll_interval_ms" in stuck.detail
    assert "larger max_poll_interval_ms" in stuck.hint
    for cause in (member_states.Cause.SILENT, None):
        assert member_states.unknown_member("billing", "m", cause).hint == "join the group again"


def test_silence_and_standstill_remove_a_member() -> None:
    life = Liveness(session_timeout_s=10, max_poll_interval_s=60, seen=100, progressed=100)
    assert life.verdict(109, outstanding=True) is None
    assert life.verdict(111, outstanding=False) is member_states.Cause.SILENT
    life.polls += 1
    assert life.verdict(111, outstanding=False) is None
    life.heard(155)
    assert life.verdict(161, outstanding=False) is None
    assert life.verdict(161, outstanding=True) is member_states.Cause.STUCK
    life.progress(161)
    assert life.verdict(162, outstanding=True) is None
