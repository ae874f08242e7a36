"""Whether an error may be a row's doing, and what is said of it. Pure."""

from __future__ import annotations

import traceback

from lakequeue.errors import LakequeueError

_SHOWN_CHARS = 500


def is_of_the_rows(error: BaseException) -> bool:
    """Whether a batch failed for what is in it, maybe: for a reason that nobody thought of.

    What we raise on purpose has a meaning (the storage is away, leadership is lost, a table is
    damaged), and so has what the system says of memory, disks and files: rows are not to blame.
    """
    return isinstance(error, Exception) and not isinstance(
        error, (LakequeueError, MemoryError, OSError)
    )


def said_of(error: BaseException) -> str:
    """The error as it stands beside a row: type and text, short, and text that can be stored."""
    text = f"{type(error).__name__}: {error}".encode(errors="backslashreplace").decode()
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


def place_of(error: BaseException) -> str:
    """Where it was raised, as far as one looks for a cause: the innermost three calls."""
    calls = traceback.extract_tb(error.__traceback__)[-3:]
    return " > ".join(f"{call.filename}:{call.lineno} {call.name}" for call in calls)
