"""The table of a child's states: complete where it must be, loud elsewhere."""

from __future__ import annotations

import pytest

from lakequeue.errors import LakequeueError
from lakequeue_cli.supervisor.child_states import ALIVE, TRANSITIONS, Cause, State, advance


@pytest.mark.parametrize("state", sorted(ALIVE))
def test_every_living_child_may_end(state: State) -> None:
    assert advance(state, Cause.ENDED) not in ALIVE


@pytest.mark.parametrize("state", list(State))
def test_every_child_can_be_asked_to_end(state: State) -> None:
    assert advance(state, Cause.ASKED_TO_END) in {State.DRAINING, State.DOWN}


def test_only_a_child_without_a_process_is_spawned() -> None:
    spawned = {state for state, cause in TRANSITIONS if cause is Cause.SPAWNED}
    assert spawned == set(State) - ALIVE


def test_a_pair_outside_the_table_is_refused() -> None:
    with pytest.raises(LakequeueError, match="a child that is ready cannot take SPAWNED"):
        advance(State.READY, Cause.SPAWNED)
