"""What walks through values of Avro and of Protobuf share. Pure."""

from __future__ import annotations

from typing import Final

MOST_DEPTH: Final = 100
"""Levels of a value, and of a schema."""
STEP: Final = 9
"""What a step counts as, among the evaluations of other schemas: some 100 ns."""
MOST_STEPS: Final = 2_000
"""Of one part of a value, before its arrays grow."""


class Wrong(Exception):
    """A value is not of the schema."""


def wrong(why: str, place: str) -> Wrong:
    """With the place where it is: the names on the way to it, each after a slash."""
    return Wrong(f"{why} (at {place[1:][:100]})" if place else why)


def enough(data: bytes, at: int, size: int, place: str) -> int:
    """Where so many bytes end. Raises `Wrong` if there are fewer."""
    if size > len(data) - at:
        raise wrong(f"{len(data) - at} bytes are left, and {size} are needed", place)
    return at + size


def check_text(data: bytes, at: int, end: int, place: str) -> None:
    """Raise `Wrong` unless it is UTF-8."""
    try:
        data[at:end].decode()
    except UnicodeDecodeError:
        raise wrong("text is not UTF-8", place) from None


def short(error: object) -> str:
    """The first line of what an error says."""
    return (str(error).splitlines() or [repr(error)])[0][:300]
