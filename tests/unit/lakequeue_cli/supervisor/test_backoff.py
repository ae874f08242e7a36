"""The waits between starts of a child that keeps ending."""

from __future__ import annotations

from lakequeue_cli.supervisor.backoff import Backoff


def test_waits_double_up_to_the_longest() -> None:
    backoff = Backoff(first_s=0.5, longest_s=4.0, stable_s=30.0)
    assert [backoff.delay_s(ran_s=1.0) for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    assert backoff.failures == 6


def test_a_child_that_was_stable_starts_over() -> None:
    backoff = Backoff(first_s=0.5, longest_s=30.0, stable_s=30.0)
    for _ in range(4):
        backoff.delay_s(ran_s=0.1)
    assert backoff.delay_s(ran_s=30.0) == 0.5
    assert backoff.failures == 1


def test_it_can_go_on_for_years_without_overflow() -> None:
    backoff = Backoff()
    assert [backoff.delay_s(0.0) for _ in range(5_000)][-1] == backoff.longest_s
