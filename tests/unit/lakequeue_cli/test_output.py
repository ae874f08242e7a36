"""Tables as a terminal shows them."""

from __future__ import annotations

import os
import subprocess
import sys

SHOW = """
from lakequeue_cli.output import print_table
print_table(("KEY", "VALUE"), [("[/x]", "[bold]b[/bold]"), (None, "[link=http://a]")])
"""


def test_values_are_no_markup_at_a_terminal() -> None:
    """Only there tables are drawn by rich: `[/x]` ended the command."""
    ours, theirs = os.openpty()
    try:
        shown = subprocess.run([sys.executable, "-c", SHOW], stdout=theirs, check=False)
        os.close(theirs)
        text = os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
    assert shown.returncode == 0
    for value in ("[/x]", "[bold]b[/bold]", "[link=http://a]"):
        assert value in text
