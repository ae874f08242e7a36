"""The example of docs/testing.md does what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()
_EXAMPLE = re.compile(r"<!-- run by [^>]* -->\n```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def test_the_example_prints_what_is_shown() -> None:
    found = _EXAMPLE.search(PAGE)
    assert found is not None
    program, shown = found.groups()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == (shown, "")
