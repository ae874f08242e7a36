"""A measurement of the front that breaks a bound is named, and fails the run."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from bench.http.bounds import broken, broken_speeds

MEASURED = json.loads((Path(__file__).parents[3] / "bench" / "front.json").read_text())["held_up"]


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: f"{row['node']}-{row['kind']}")
def test_what_was_measured_last_keeps_its_bounds(row: dict[str, Any]) -> None:
    assert broken(row) == []


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("with", "health", "p99_ms"), 101.0, "health took 101.0 ms with"),
        (("after", "health", "p99_ms"), 101.0, "health took 101.0 ms after"),
        (("with", "acks", "p99_ms"), 1_000.0, "acks took 1000.0 ms with"),
        (("with", "acks", "failures"), 3, "3 calls failed"),
        (("kib_each",), 20.0, "a poll takes 20.0 KiB"),
        (("kept", "out_of_turn"), 1, "1 records out_of_turn"),
    ],
)
def test_a_bound_that_is_broken_is_named(path: tuple[str, ...], value: float, fault: str) -> None:
    row = deepcopy(next(row for row in MEASURED if row["kind"] == "polls"))
    part = row
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    (found,) = broken(row)
    assert found.startswith("consumer_service, polls: ")
    assert fault in found


def test_sends_are_held_to_those_of_the_server_before() -> None:
    before, now = {"per_s": 100, "cpu_us": 100}, {"per_s": 400, "cpu_us": 50}
    assert broken_speeds({"before": [before], "now": [now]}) == []
    assert broken_speeds({"now": [now]}) == []
    slow = {"per_s": 399, "cpu_us": 51}
    assert len(broken_speeds({"before": [before], "now": [slow]})) == 2
