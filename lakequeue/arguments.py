"""Reading what people write on a command line: times, durations, headers. Pure."""

from __future__ import annotations

import re
from base64 import b64decode
from datetime import datetime

from lakequeue.clock import Micros
from lakequeue.errors import InvalidRequest, WrongUsage
from lakequeue.times import check_number, check_time, to_micros

_TIMES = "2013-01-31T07:00:00Z, or whole milliseconds since 1970"


def header_of(text: str) -> tuple[str, str]:
    """Name and value of `name=value`. Pure. Raises `WrongUsage`."""
    name, found, value = text.partition("=")
    if not found:
        raise WrongUsage(f"header {text!r} is not valid", hint="-H name=value")
    return name, value


def micros_of(text: str) -> int:
    """Microseconds since 1970 of RFC 3339 with an offset, or of milliseconds. Pure.

    Raises `WrongUsage`, also for a time without an offset, which may mean local time or UTC, and
    for a number before 1973, which is seconds by mistake.
    """
    try:
        if text.isascii() and text.isdigit():
            micros = int(text) * 1000
            check_number(micros, "time", text, _TIMES)
        else:
            micros = to_micros(_with_zone(text))
        check_time(micros, "time", _TIMES)
    except InvalidRequest as e:
        raise WrongUsage(e.detail, hint=e.hint) from None
    except (ValueError, OverflowError) as e:
        raise WrongUsage(f"time {text[:80]!r} is not valid", hint=_TIMES) from e
    return micros


def _with_zone(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise WrongUsage(
            f"time {text[:80]!r} has no zone",
            hint=f"{moment.isoformat()}Z for UTC, or an offset such as +02:00",
        )
    return moment


_DURATION = r"(\d+)\s*(ms|s|m|h|d)"
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms_of(text: str | None) -> int | None:
    """Milliseconds of `500ms`, `30s`, `10m`, `12h`, `7d`; None stays None. Pure.

    Raises `WrongUsage`.
    """
    if text is None:
        return None
    match = re.fullmatch(_DURATION, text)
    if match is None:
        raise WrongUsage(f"duration {text!r} is not valid", hint="500ms, 30s, 10m, 12h or 7d")
    return int(match[1]) * _UNITS_MS[match[2]]


def past_of(text: str, now: Micros) -> Micros:
    """A time as `micros_of` reads it, or a duration, which is so long before `now`. Pure.

    Raises `WrongUsage`.
    """
    if re.fullmatch(_DURATION, text):
        return now - (duration_ms_of(text) or 0) * 1_000
    return micros_of(text)


def bytes_of(option: str, text: str | None) -> bytes | None:
    """The bytes of base64 (`--…-base64`) or hexadecimal text; None stays None. Pure.

    Raises `WrongUsage`.
    """
    if text is None:
        return None
    base64 = option.endswith("base64")
    try:
        return b64decode(text, validate=True) if base64 else bytes.fromhex(text)
    except ValueError as e:
        raise WrongUsage(
            f"{option} {text[:80]!r} is not valid",
            hint="base64, padded: //4=" if base64 else "pairs of hexadecimal digits: fffe",
        ) from e
