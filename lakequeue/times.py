"""Times that people and programs send: one rule for every call that takes one. Pure.

A time is a whole number of microseconds since 1970 UTC, or RFC 3339 text with an offset. A *number*
before 1973 is refused wherever it is sent: it is seconds or milliseconds by mistake, and would mean
"from the very first record on". An earlier time can be sent as text.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from lakequeue.errors import InvalidRequest

FIRST_TIME: Final = -2_208_988_800_000_000
"""1900-01-01: an earlier record time is a mistake."""
FIRST_NUMERIC_TIME: Final = 100_000_000_000_000
"""1973-03-03 in microseconds. A smaller *number* is seconds or milliseconds sent by mistake (they
stay below it for three thousand years)."""
END_TIME: Final = 7_258_118_400_000_000
"""2200-01-01: a later record time is a mistake, mostly of the unit."""
_HINT = "whole microseconds since 1970, or RFC 3339 such as 2013-01-31T07:00:00Z"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp_from_json(given: Any, field: str = "timestamp") -> int:
    """Microseconds of a produced time: a whole number, or RFC 3339 text with an offset.

    Raises `InvalidRequest` with `field`.
    """
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 1 << 62:
        return given
    if isinstance(given, str):
        with contextlib.suppress(ValueError):
            given = datetime.fromisoformat(given)
    if isinstance(given, datetime) and given.tzinfo is not None:
        return to_micros(given)
    shown = repr(given)
    raise InvalidRequest(
        f"{field} {shown if len(shown) <= 100 else shown[:97] + '…'} is not valid",
        hint=_HINT,
        field=field,
    )


def micros_of_time(given: Any, field: str = "timestamp") -> int:
    """The same, and not before 1900 (as a number: 1973) nor after 2199.

    Raises `InvalidRequest` naming the field.
    """
    micros = timestamp_from_json(given, field)
    if type(given) is int:
        check_number(micros, field, str(given))
    check_time(micros, field)
    return micros


def check_number(micros: int, field: str, given: str, hint: str = _HINT) -> None:
    """Raise `InvalidRequest` for a time before 1973 that was sent as the number `given`."""
    if micros < FIRST_NUMERIC_TIME:
        raise InvalidRequest(
            f"{field} {given} is before 1973: seconds or milliseconds by mistake?",
            hint=hint,
            field=field,
        )


def check_time(micros: int, field: str = "timestamp", hint: str = _HINT) -> None:
    """Raise `InvalidRequest` for a time before 1900 or after 2199."""
    if not FIRST_TIME <= micros < END_TIME:
        raise InvalidRequest(
            f"{field} {micros} µs is not between the years 1900 and 2199", hint=hint, field=field
        )


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970 UTC, exactly; a datetime without a zone is taken as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def moment_of(micros: int) -> datetime:
    """The time of that many microseconds since 1970, in UTC, exactly."""
    return _EPOCH + timedelta(microseconds=micros)
