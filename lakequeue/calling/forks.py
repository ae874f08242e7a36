"""Which process this is. What a client holds is good only in the process that made it.

A child that was forked has copies of the client's buffer, of the numbers that it gives to records,
and of its connections, but none of its threads. So it would give the ids of its parent's records to
its own, talk into its parent's connections, and wait for threads that it does not have.
"""

from __future__ import annotations

import os

from lakequeue.errors import NotReady

process: object = object()
"""Another one in each child that is forked: ids of processes are used again."""


def is_parents(made_in: object) -> bool:
    """Whether a client was made before this process was forked: what it holds is the parent's."""
    return made_in is not process


def check_process(made_in: object) -> None:
    """Raise `NotReady` if a client is the parent's. Takes no lock."""
    if is_parents(made_in):
        raise NotReady(
            "the client was made before this process was forked",
            hint="make one in each process, after the fork",
            stored="no",
        )


def _forked() -> None:
    global process
    process = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
