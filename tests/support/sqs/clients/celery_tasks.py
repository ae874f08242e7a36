"""The app of the example with one more task, which ends when the test says so."""

from __future__ import annotations

import os
from pathlib import Path

from examples.celery.tasks import app, write_down

__all__ = ["app"]


@app.task  # type: ignore[untyped-decorator]
def pack(order: int, pipe: str) -> None:
    """Begin, wait until somebody writes into the pipe, and be done."""
    write_down("begun", order, pid=os.getpid())
    Path(pipe).read_bytes()
    write_down("packed", order)
