"""What a command shows while somebody waits: a bar on a terminal, which is gone when it is over."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from lakequeue.clock import boot_seconds

LINE_EVERY_S = 10.0


class Show(Protocol):
    """Says how far it has come, and what is under way."""

    def __call__(self, done: float | None = None, what: str | None = None) -> None: ...


@contextmanager
def waiting(what: str, total: float | None = None) -> Iterator[Show]:
    """A bar on standard error, with the time that has passed; without `total` it only moves.

    Standard output is left alone: it is for what was asked, and may be a pipe.
    """
    if not sys.stderr.isatty():
        yield silent
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
    )
    task = bar.add_task(what, total=total)

    def show(done: float | None = None, what: str | None = None) -> None:
        bar.update(task, completed=done, description=what)

    with bar:
        yield show


def in_lines(say: Callable[[str], object], clock: Callable[[], float] = boot_seconds) -> Show:
    """For a log, where a bar cannot be: a line every ten seconds with what is under way."""
    began = said_at = clock()

    def show(done: float | None = None, what: str | None = None) -> None:
        nonlocal said_at
        now = clock()
        if what and now - said_at >= LINE_EVERY_S:
            said_at = now
            say(f"{what} ({now - began:.0f} s)")

    return show


def silent(done: float | None = None, what: str | None = None) -> None:
    """Nobody looks."""
