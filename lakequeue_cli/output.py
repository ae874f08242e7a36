"""What commands print: a table for a terminal, aligned text for a pipe, JSON when asked."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lakequeue.wire import dumps_exactly


def print_json(value: Any) -> None:
    """One JSON document."""
    try:
        options = orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0
        data = orjson.dumps(value, option=options)
    except orjson.JSONEncodeError:
        data = dumps_exactly(value)  # a record's value with an integer beyond 64 bits
    # Within strings these are the same to whoever parses it.
    sys.stdout.write(_UNSAFE.sub(_as_json, data.decode()) + "\n")


_UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What moves the cursor, rings, changes colours or the direction of text: never a newline."""


def _as_json(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def harmless(text: str) -> str:
    """Text that somebody else has written, as it may be shown: what a terminal would obey is
    written out (`\\x1b`). Pure.
    """
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], text)


def for_output(text: str) -> str:
    """Records as they are for a pipe, harmless for a terminal."""
    return harmless(text) if sys.stdout.isatty() else text


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows under upper-case column names; missing values are `-`."""
    cells = [[_cell(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        table = Table(*columns, box=None, header_style="bold", pad_edge=False)
        for row in cells:
            # As it is: `[/x]` in a value is no markup.
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    sys.stdout.write(plain_table(columns, cells))


def plain_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Columns aligned by spaces, as `kafka-consumer-groups` prints them. Pure."""
    lines = [list(columns), *map(list, cells)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    text = "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )
    return text + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return harmless(text.replace("\n", "\\n"))


def note(text: str) -> None:
    """Something for the person, not for the pipe."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
