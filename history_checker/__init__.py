"""Judges histories: one entry, `check(history, requirements)`, for every test and load of the
project.

Given: all events of all processes (`history_checker/history.py`), ended by a fresh reader's `read`
events that cover every record of every partition, made after the load has stopped; with the dead,
expired and refused records, positions, effects and commits where a test has such.

A send is *acknowledged* when it ended `ok`, *refused* when it ended `fail` (answered `stored: no`),
and *maybe* when it ended `info` or not at all; the same of acks.

What is a fault, by name: `Anomaly` in `verdict.py`. How each is judged: `log.py`, `batches.py`
(requests, transactions, looks), `stream.py`, `queue.py` (the two kinds of groups), `effects.py`,
`delta.py` (tables and their maintenance), `liveness.py`.

Not judged: what a queue lacks that was promoted from a replica, and whether its primary goes on.
"""

from __future__ import annotations

from collections.abc import Iterable

from history_checker.batches import check_batches
from history_checker.delta import check_delta
from history_checker.effects import check_effects
from history_checker.history import Event
from history_checker.indexed import index
from history_checker.liveness import check_liveness
from history_checker.log import check_log
from history_checker.queue import check_queues
from history_checker.stream import check_coverage, check_streams
from history_checker.verdict import Anomaly, GroupRequirements, Requirements, Verdict

__all__ = ["Anomaly", "GroupRequirements", "Requirements", "Verdict", "check"]

_RULES = (
    check_log,
    check_batches,
    check_streams,
    check_queues,
    check_effects,
    check_delta,
    check_liveness,
)


def check(history: Iterable[Event], requirements: Requirements | None = None) -> Verdict:
    """Judge a history; events are expected in the order of time."""
    requirements = requirements or Requirements()
    indexed = index(history)
    verdict = Verdict()
    for rule in _RULES:
        rule(indexed, requirements, verdict)
    if requirements.final:
        check_coverage(indexed, requirements, verdict)
    return verdict
