"""What an `add` action says of the rows of its file, as far as it makes sense. Pure.

Another engine may have written it, or nobody: what is no statistic of the kind that is asked for is
not known, and whoever asks goes on as without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import orjson
import pyarrow as pa

from lakequeue.clock import Micros
from queue_tables.delta.actions import whole

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FileStats:
    """Row count and bounds of one file."""

    __slots__ = ("_highs", "_lows", "_nulls", "records")

    def __init__(self, text: str | None) -> None:
        """`text`: the `stats` of the action."""
        try:
            said = _object(orjson.loads(text or "{}"))
        except orjson.JSONDecodeError:
            said = {}
        self.records = whole(said.get("numRecords"))
        """How many rows; None: not known."""
        self._lows = _object(said.get("minValues"))
        self._highs = _object(said.get("maxValues"))
        self._nulls = _object(said.get("nullCount"))

    def low(self, name: str, kind: type[T]) -> T | None:
        """The lowest value of a column, or less; None: not known."""
        return _of_kind(self._lows.get(name), kind)

    def high(self, name: str, kind: type[T]) -> T | None:
        """The highest value of a column, or more; None: not known."""
        return _of_kind(self._highs.get(name), kind)

    def nulls(self, name: str) -> int | None:
        """How many rows have none; None: not known."""
        return whole(self._nulls.get(name))

    def has_bounds(self, schema: pa.Schema) -> bool:
        """Whether row count and both bounds of all these columns are known."""
        kinds = {f.name: int if pa.types.is_integer(f.type) else str for f in schema}
        return self.records is not None and all(
            self.low(name, kind) is not None and self.high(name, kind) is not None
            for name, kind in kinds.items()
        )

    def bounds(self, name: str, kind: type[T], lowest: T, highest: T) -> tuple[T, T]:
        """Both bounds, with these where they are not known."""
        low, high = self.low(name, kind), self.high(name, kind)
        return (lowest if low is None else low), (highest if high is None else high)


def newest_micros(stats: str | None, column: str) -> Micros | None:
    """The highest time in a timestamp column, at most a millisecond too high; None: not known."""
    return _micros(FileStats(stats).high(column, str))


def oldest_micros(stats: str | None, column: str) -> Micros | None:
    """The lowest time in a timestamp column, at most a millisecond too low; None: not known."""
    return _micros(FileStats(stats).low(column, str))


def _micros(text: str | None) -> Micros | None:
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return None if at.tzinfo is None else Micros((at - _EPOCH) // timedelta(microseconds=1))


def _object(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, dict) else {}


def _of_kind(given: Any, kind: type[T]) -> T | None:
    # Not a bool for a number, and no number that a column cannot hold.
    if type(given) is not kind or (isinstance(given, int) and not -(1 << 63) <= given < 1 << 63):
        return None
    return given
