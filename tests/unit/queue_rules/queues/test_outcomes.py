"""What the owner of a partition remembers of records that have ended."""

from __future__ import annotations

import pytest

from queue_rules.queues.attempts import Attempt
from queue_rules.queues.delayed import HEAP_ROWS, DelayedRecord, DelayedRecords
from queue_rules.queues.outcomes import Outcomes
from queue_tables.groups import terminal_states
from queue_tables.groups.facts import Kind
from queue_tables.groups.record_status import Status
from queue_tables.groups.terminal_states import DeadRecord, TerminalStates, join_terminal_states


def statuses(outcomes: Outcomes, *offsets: int) -> list[str]:
    return [outcomes.status(offset).status for offset in offsets]


def test_what_the_tables_knew_is_known_after_a_take_over() -> None:
    dead = TerminalStates.died([DeadRecord(3, 5, "max_attempts", "dlq/0@7")])
    outcomes = Outcomes(join_terminal_states(dead, TerminalStates.ran_out((6, 9))))
    assert outcomes.status(3) == Status("dead", 5, reason="max_attempts", dead_letter="dlq/0@7")
    assert statuses(outcomes, 2, 4, 6, 8, 9) == ["acked", "acked", "expired", "expired", "acked"]


def test_past_the_bound_the_lowest_are_forgotten_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal_states, "MOST_DEAD", 2)
    monkeypatch.setattr(terminal_states, "MOST_EXPIRED", 2)
    outcomes = Outcomes()
    for offset in (40, 20, 30):
        outcomes.ended(Attempt(offset, 1, 0, 0), Kind.DEAD)
    assert statuses(outcomes, 10, 20, 21, 30, 40) == ["settled"] * 2 + ["acked", "dead", "dead"]
    for offset in (50, 52, 54):
        outcomes.ended(Attempt(offset, 1, 0, 0), Kind.EXPIRED)
    assert statuses(outcomes, 49, 50, 51, 52) == ["settled", "settled", "acked", "expired"]


def test_a_delayed_record_is_found_wherever_it_lies() -> None:
    delayed = DelayedRecords()
    for offset in range(HEAP_ROWS + 10):
        delayed.push(DelayedRecord(1_000 + offset % 7, offset, offset % 3))
    for offset in (0, 1, HEAP_ROWS, HEAP_ROWS + 9):
        assert delayed.find(offset) == DelayedRecord(1_000 + offset % 7, offset, offset % 3)
    assert delayed.find(HEAP_ROWS + 10) is None
    taken = delayed.pop_due(2_000)
    assert taken is not None
    assert delayed.find(taken.offset) is None
