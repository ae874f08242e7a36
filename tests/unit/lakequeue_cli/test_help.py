"""`--help` of every command, as a terminal of 80 columns shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from rich.cells import cell_len

from lakequeue_cli.app import app

COLUMNS = 80


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command and group of commands."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


COMMAND = typer.main.get_command(app)
ALL = list(commands(COMMAND))


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_the_help_fits_a_terminal_and_cuts_nothing(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    COMMAND.main([*words, "--help"], prog_name="lakequeue", standalone_mode=False)
    lines = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert len(lines) > 5
    assert [line for line in lines if cell_len(line) > COLUMNS] == []
    # rich ends what has no room with an ellipsis: an option that nobody can read.
    assert [line for line in lines if re.search(r"[\w-]…\s*(│|$|\s)", line)] == []


def test_there_are_commands_to_look_at() -> None:
    assert len(ALL) > 40
    assert ("topic", "create") in ALL
