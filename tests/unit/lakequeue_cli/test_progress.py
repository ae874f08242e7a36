"""A wait shows on a terminal alone, and never on standard output."""

from __future__ import annotations

import io
import sys

import pytest

from lakequeue_cli.progress import in_lines, waiting


class Terminal(io.StringIO):
    """Standard error of somebody who looks."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_what_is_under_way_and_nothing_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with waiting("looking at tables", 2) as show:
        show(1, "log [/x]")
        print("a result")
    said = terminal.getvalue()
    assert "log [/x]" in said
    assert said.endswith("\x1b[2K"), "the line is wiped at the end"
    assert capsys.readouterr().out == "a result\n"


def test_a_pipe_hears_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("looking at tables", 2) as show:
        show(1, "log")
        print("a result")
    assert capsys.readouterr() == ("a result\n", "")


def test_in_a_log_there_is_a_line_every_ten_seconds() -> None:
    said: list[str] = []
    times = iter([0.0, 1.0, 9.9, 10.0, 15.0, 21.0])
    show = in_lines(said.append, lambda: next(times))
    for what in ("waiting for a, b", "waiting for a, b", "waiting for b", "waiting for b", "lead"):
        show(1, what)
    assert said == ["waiting for b (10 s)", "lead (21 s)"]
