"""The command `lakequeue` in this process: one of its own takes half a second of processor time.

That it runs as a process is tested by `tests/integration/client/test_cli_real.py`.
"""

from __future__ import annotations

import contextlib
import io
import signal
import sys
from dataclasses import dataclass
from typing import TextIO

from lakequeue_cli.app import main


@dataclass
class Done:
    """How it ended."""

    returncode: int
    stdout: str
    stderr: str


def lakequeue(*args: str, stdin: str = "", to: TextIO | None = None) -> Done:
    """Run it, not on a terminal, with what it reads from its standard input.

    `to`: where its standard output goes, else it is returned.
    """
    out, err = io.StringIO(), io.StringIO()
    handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
    before = sys.argv, sys.stdin
    sys.argv, sys.stdin = ["lakequeue", *args], io.StringIO(stdin)
    code: object = 0
    try:
        with contextlib.redirect_stdout(to or out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv, sys.stdin = before
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return Done(code if isinstance(code, int) else 0, out.getvalue(), err.getvalue())
