"""The queue checker finds each fault of its specification, and none in a right history."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.history import Event, Outcome
from tests.support.queue_checker import check_queue

LOG = [(0, 0), (0, 1)]


def event(f: str, kind: Outcome, t: int, offset: int = 0, attempt: int = 1, **fields: Any) -> Event:
    wall = fields.pop("wall", t)
    return Event(f, kind, t, "w", "t", 0, offset, "k", attempt=attempt, wall=wall, **fields)


RIGHT = [
    event("receive", "ok", 1),
    event("nack", "invoke", 2),
    event("nack", "ok", 3, due=20),
    event("receive", "ok", 21, attempt=2),
    event("ack", "invoke", 22, attempt=2),
    event("ack", "ok", 23, attempt=2),
    event("receive", "ok", 24, 1),
    event("ack", "invoke", 25, 1),
    event("ack", "info", 26, 1),
]


def test_a_right_history_has_no_anomaly() -> None:
    verdict = check_queue(RIGHT, LOG, [], 3, key_order=True)
    assert verdict.ok, str(verdict)
    assert (verdict.records, verdict.redelivered, verdict.acked, verdict.nacked) == (2, 1, 1, 1)


@pytest.mark.parametrize(
    ("anomaly", "more"),
    [
        ("repeated_attempt", [event("receive", "ok", 22, attempt=2)]),
        ("over_attempts", [event("receive", "ok", 5, 1, attempt=4)]),
        ("resurrection", [event("receive", "ok", 30, attempt=3)]),
        (
            "zombie_ack",
            [event("receive", "ok", 21, attempt=3)],
        ),
        (
            "acked_twice",
            [event("ack", "invoke", 4), event("ack", "ok", 5)],
        ),
        ("phantom", [event("receive", "ok", 5, 7)]),
    ],
)
def test_each_fault_is_found(anomaly: str, more: list[Event]) -> None:
    verdict = check_queue([*RIGHT, *more], LOG, [], 3)
    assert anomaly in verdict.anomalies, str(verdict)


def test_what_comes_early_is_found() -> None:
    early = [
        e if e.attempt != 2 or e.f != "receive" else event("receive", "ok", 21, attempt=2, wall=19)
        for e in RIGHT
    ]
    assert "early" in check_queue(early, LOG, [], 3).anomalies
    assert "early" in check_queue(RIGHT, LOG, [], 3, deliver_at={(0, 1): 25}).anomalies


def test_the_dead_are_judged() -> None:
    assert "acked_and_dead" in check_queue(RIGHT, LOG, [((0, 0), 3)], 3).anomalies
    assert "dead_twice" in check_queue(RIGHT[6:7], LOG, [((0, 1), 3)] * 2, 3).anomalies
    assert "dead_early" in check_queue(RIGHT, LOG, [((0, 1), 2)], 3).anomalies
    assert "unsettled" in check_queue(RIGHT[:6], LOG, [], 3).anomalies
    assert check_queue(RIGHT[:6], LOG, [((0, 1), 3)], 3).ok


def test_an_overtaken_key_is_found() -> None:
    overtaken = [event("receive", "ok", 10, 1, attempt=1), *RIGHT[:6]]
    assert (
        "key_overtaken" in check_queue(overtaken, LOG, [((0, 1), 3)], 3, key_order=True).anomalies
    )
