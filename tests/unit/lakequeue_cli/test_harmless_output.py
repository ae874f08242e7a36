"""What records hold does nothing to a terminal."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable

import pytest

from lakequeue_cli.output import harmless, print_json, print_table

HOSTILE = "[/x] \x1b]0;title\x07 \x1b[31mred\x9b2J \u202egnp.exe\u2069\r\x00 äöü €"


class Terminal:
    """Standard output that says it is a terminal."""

    def __init__(self, terminal: bool) -> None:
        self.text = ""
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        """Nothing is held back."""


BOTH = pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])


def printed(monkeypatch: pytest.MonkeyPatch, terminal: bool, work: Callable[[], None]) -> str:
    made = Terminal(terminal)
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", made)
        work()
    return made.text


def dangerous(text: str) -> set[str]:
    return {
        c
        for c in text
        if (ord(c) < 32 and c != "\n") or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2069"
    }


@BOTH
def test_a_table_shows_markup_and_escape_sequences_as_text(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    rows = [[HOSTILE], ["two\nlines"]]
    monkeypatch.setenv("COLUMNS", "200")
    shown = printed(monkeypatch, terminal, lambda: print_table(("VALUE",), rows))
    assert "[/x]" in shown
    assert "äöü €" in shown
    assert "\\x1b]0;title\\x07" in shown
    assert not dangerous(re.sub("\x1b\\[[0-9;]*m", "", shown))


@BOTH
def test_json_stays_the_same_document(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    shown = printed(monkeypatch, terminal, lambda: print_json({"value": HOSTILE}))
    assert not dangerous(shown)
    assert json.loads(shown) == {"value": HOSTILE}


def test_what_is_harmless_stays() -> None:
    assert harmless("[b] plain\ntext äöü €") == "[b] plain\ntext äöü €"
