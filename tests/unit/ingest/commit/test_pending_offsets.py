"""What becomes of the rows that a request waits for."""

from __future__ import annotations

from ingest.commit.pending_offsets import PendingOffsets, Ticket
from lakequeue.records import ShardName, Stamp
from queue_rules.produce.outcomes import Outcome

SHARD = ShardName("n-1")
S1, S2 = Stamp(10), Stamp(20)


def outcome(offset: int) -> Outcome:
    return Outcome(0, offset)


def test_a_group_is_settled_by_the_commit_that_passes_it() -> None:
    board = PendingOffsets()
    first, second, later = Ticket(2, first_row=0), Ticket(1, first_row=5), Ticket(1)
    board.expect(SHARD, S1, [first, second])
    board.expect(SHARD, S2, [later])
    assert board.awaited() == {SHARD: {10, 20}}
    rows = {row: outcome(100 + row) for row in range(6)}
    board.passed({"other": 99}, {})
    assert not first.settled.is_set()
    board.passed({SHARD: 10}, {(SHARD, 10): rows})
    assert first.outcomes == [outcome(100), outcome(101)]
    assert second.outcomes == [outcome(105)]
    assert not later.settled.is_set()
    assert board.awaited() == {SHARD: {20}}


def test_lines_of_rejects_count_only_when_the_log_passes_them_and_the_newest_counts() -> None:
    board = PendingOffsets()
    ticket = Ticket(2)
    board.expect(SHARD, S1, [ticket])
    board.refused([(SHARD, 10, 1, Outcome(0, 7, duplicate=True)), (SHARD, 11, 0, outcome(1))])
    assert not ticket.settled.is_set()
    board.refused([(SHARD, 10, 1, Outcome(0, 8, duplicate=True))])
    board.passed({SHARD: 10}, {(SHARD, 10): {0: outcome(9)}})
    assert ticket.outcomes == [outcome(9), Outcome(0, 8, duplicate=True)]


def test_rows_that_the_tables_do_not_explain_are_not_made_up() -> None:
    board = PendingOffsets()
    ticket = Ticket(2)
    board.expect(SHARD, S1, [ticket])
    board.passed({SHARD: 12}, {(SHARD, 10): {0: outcome(9)}})
    assert ticket.settled.is_set()
    assert ticket.outcomes is None


def test_who_stops_waiting_is_forgotten() -> None:
    board = PendingOffsets()
    stays, goes = Ticket(1), Ticket(1, first_row=1)
    board.expect(SHARD, S1, [stays, goes])
    board.abandon(goes)
    assert len(board) == 1
    board.abandon(stays)
    assert len(board) == 0
    board.expect(SHARD, S1, [stays])
    board.forget(SHARD, S1)
    assert len(board) == 0
    board.expect(SHARD, S2, [stays])
    board.give_up()
    assert stays.settled.is_set()
    assert stays.outcomes is None
