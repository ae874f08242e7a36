"""What ended a stream, out of all that Spark says of it. Pure."""

from __future__ import annotations

import re
from typing import Final

_HINT: Final = "\n  --bad-topic NAME sends such records there, each with the reason"
_OURS: Final = re.compile(r"^lakequeue\.errors\.(?:\w+\.)*[A-Z]\w*: (.*)$", re.MULTILINE)
_RAISED: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.*?)(?: SQLSTATE.*)?$", re.MULTILINE)
_FRAME: Final = re.compile(r'^ +File "[^"]*?(\w+)\.py"', re.MULTILINE)
_JUDGES: Final = frozenset({"inbox_rows", "judged_values"})
"""Modules of the sink that refuse a record. What others refuse is none: a column, an option."""
NO_JSON: Final = "no JSON in "
"""How the message about a line begins that is none."""


def said_of(trace: str) -> str | None:
    """The error that ended it, and what helps; None if it is neither ours nor of an expression."""
    if found := _OURS.search(trace):
        raised_in = _FRAME.findall(trace, 0, found.start())[-1:]
        return found[1] + (_HINT if _JUDGES.issuperset(raised_in) and raised_in else "")
    if found := _RAISED.search(trace):
        # An expression of the command line may raise as well: no topic takes that.
        return found[1] + (_HINT if found[1].startswith(NO_JSON) else "")
    return None
