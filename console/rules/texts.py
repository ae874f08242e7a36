"""Times, amounts and foreign text, as people read them. Pure."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta

_KEPT = frozenset("\n\t")


def harmless(text: object) -> str:
    """Text in which nothing can hide: control characters and marks of direction are spelled.

    A line break and a tab stay. What HTML means by a character the template escapes.
    """
    return "".join(_visible(mark) for mark in str(text))


def _visible(mark: str) -> str:
    if mark in _KEPT or (mark.isprintable() and unicodedata.category(mark) != "Cf"):
        return mark
    return mark if mark == " " else f"⟨U+{ord(mark):04X}⟩"


def amount(size: float | None) -> str:
    """Bytes: 512 B, 1.5 MiB."""
    if size is None:
        return "–"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            digits = 0 if unit == "B" or size >= 100 else 1
            return f"{size:.{digits}f} {unit}"
        size /= 1024
    return ""


def ago(seconds: float | None) -> str:
    """A span of time: 5 s, 3 min, 2 h, 4 d."""
    if seconds is None:
        return "–"
    for limit, unit, divisor in ((90, "s", 1), (5400, "min", 60), (172_800, "h", 3_600)):
        if seconds < limit:
            return f"{seconds / divisor:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def moment(micros: int | None) -> str:
    """Microseconds since 1970 UTC, to the millisecond; a number where no calendar has them."""
    if micros is None:
        return "–"
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    except OverflowError:
        return f"{micros} µs"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1_000:03d}"
