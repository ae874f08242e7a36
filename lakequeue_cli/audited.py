"""What the command line changes in a root itself: a line in the audit, as of what nodes do."""

from __future__ import annotations

import contextlib
import getpass
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from queue_tables.root import QueueRoot


def operator() -> str:
    """Who runs this command, as the audit has it."""
    return f"os:{getpass.getuser()}@{socket.gethostname()}"


@contextlib.contextmanager
def audited(root: QueueRoot, call: str, name: str) -> Iterator[dict[str, Any]]:
    """Write a line when this ends, however it does, with what is put into the dict meanwhile.

    Put in counts and names, never what records hold, nor which were asked for by what they hold.
    """
    # Loaded here: a machine with the SDK and CLI alone has no storage packages.
    from queue_access.audit_line import Line
    from queue_tables.audit import Audit

    told: dict[str, Any] = {}
    outcome = "failed"
    try:
        yield told
        outcome = "done"
    finally:
        after = orjson.dumps(told).decode() if told else None
        line = Line(operator(), f"lakequeue {call}", outcome, name, after=after)
        Audit(root, "cli").changed(line)
