"""The ledger of tests that passed only when they were run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.unstable_ledger import RUNS, Run, named_too_often, note, read, seeds_in

TEST = "tests/faults/test_nemesis.py::test_whatever_happens[3]"
OTHER = "tests/e2e/test_kills.py::TestKills::test_all"

SAID = """
=================================== FAILURES ===================================
____________________________ test_whatever_happens[3] ____________________________
E   AssertionError
----------------------------- Captured stdout call -----------------------------
seed 41
seed: 42
______________________________ TestKills.test_all ______________________________
E   AssertionError
"""


def test_the_seed_is_that_of_the_test_that_printed_it() -> None:
    assert seeds_in(SAID, [TEST, OTHER]) == {TEST: "42", OTHER: ""}


def test_named_twice_in_twenty_runs_is_too_often() -> None:
    quiet, named = Run("t"), Run("t", "c", {TEST: "1"})
    assert named_too_often([]) == []
    assert named_too_often([named]) == []
    assert named_too_often([named, *[quiet] * (RUNS - 2), named]) == [TEST]
    assert named_too_often([named, *[quiet] * (RUNS - 1), named]) == [], "longer ago"
    assert named_too_often([named, named, quiet]) == [], "not in this run"


def test_every_run_is_written_down_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, shown = tmp_path / "of" / "unstable.jsonl", tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(shown))
    monkeypatch.setenv("GITHUB_SHA", "abc")
    assert note(ledger, {}) == []
    assert not shown.exists()
    assert note(ledger, {TEST: "42"}) == []
    assert note(ledger, {TEST: "", OTHER: ""}) == [TEST]
    assert [run.unstable for run in read(ledger)] == [{}, {TEST: "42"}, {TEST: "", OTHER: ""}]
    assert {run.commit for run in read(ledger)} == {"abc"}
    assert f"| `{TEST}` | 42 | 1 |" in shown.read_text()
    assert f"| `{TEST}` | – | 2 |" in shown.read_text()
