"""Help that fits a terminal of 80 columns, whatever the source looks like."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from lakequeue_cli.app import app
from lakequeue_cli.help_texts import paragraphs


def test_a_paragraph_is_one_line_and_a_list_stays_one() -> None:
    assert paragraphs("One\ntwo.\n\n- a\n- b\n\nThree.") == "One two.\n\n- a\n- b\n\nThree."


def test_no_line_of_help_is_broken_where_the_source_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = CliRunner().invoke(app, ["up", "--help"]).output
    lines = [line.strip() for line in said.splitlines()]
    assert "nodes, the others take free ones." in lines
    assert max(map(len, said.splitlines())) <= 80
