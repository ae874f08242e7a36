"""Positions as the Kafka source's options give them: words, JSON of offsets, times. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from lakequeue.errors import InvalidRequest
from lakequeue.times import check_number, check_time, to_micros

Assignment = Mapping[str, tuple[int, ...]]
"""Topic → partitions."""
PerPartition = Mapping[str, Mapping[int, int]]
"""Topic → partition → a number: an offset, or milliseconds since 1970."""

LATEST_OFFSET: Final = -1
EARLIEST_OFFSET: Final = -2


@dataclass(frozen=True, slots=True)
class Earliest:
    """The lowest offset that is still in the log."""


@dataclass(frozen=True, slots=True)
class Latest:
    """Behind the newest record."""


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset of every partition; -1 is latest, -2 earliest."""

    offsets: PerPartition = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after this time, in every partition."""

    millis: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The same, with a time of its own for every partition."""

    millis: PerPartition = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AsOf:
    """Behind what had been ordered at this time, in every partition."""

    millis: int


Position = Earliest | Latest | AtOffsets | AtTime | AtTimes | AsOf
EARLIEST: Final = Earliest()
LATEST: Final = Latest()


def starting_option(position: Position) -> str:
    """The option that said so, for messages."""
    return _option("starting", position)


def ending_option(position: Position) -> str:
    """The option that said so, for messages."""
    return "asOfTimestamp" if isinstance(position, AsOf) else _option("ending", position)


def _option(side: str, position: Position) -> str:
    match position:
        case AtTime():
            return f"{side}Timestamp"
        case AtTimes():
            return f"{side}OffsetsByTimestamp"
        case _:
            return f"{side}Offsets"


def crossed(starting: Position, ending: Position) -> str | None:
    """What to say if the options by themselves let a partition end before it starts; else None.

    An offset and a time cannot be compared here, nor what is in the log.
    """
    match starting, ending:
        case (AtTime(start), AtTime(end)) if end < start:
            return f"{end} is before startingTimestamp {start}"
        case (AtOffsets(starts), AtOffsets(ends)) | (AtTimes(starts), AtTimes(ends)):
            for topic, partitions in starts.items():
                for partition, start in partitions.items():
                    end = ends.get(topic, {}).get(partition, start)
                    if 0 <= end < start:
                        return f"{topic}/{partition} starts at {start} and ends at {end}"
    return None


def parse_assignment(text: str) -> Assignment:
    """`{"orders": [0, 1]}`. Raises `InvalidRequest`."""
    example = 'JSON such as {"orders": [0, 1]}'
    body = _object("assign", text, example)
    for topic, partitions in body.items():
        whole = isinstance(partitions, list) and all(_is_whole(p) and p >= 0 for p in partitions)
        if not whole or not partitions:
            raise _wrong("assign", f"{topic}: {partitions!r} are no partitions", example)
    if not body:
        raise _wrong("assign", "no partition is assigned", example)
    return {topic: tuple(sorted(set(partitions))) for topic, partitions in body.items()}


def parse_offsets(name: str, text: str) -> PerPartition:
    """`{"orders": {"0": 23, "1": -2}}`. Raises `InvalidRequest`."""
    example = 'earliest, latest, or JSON such as {"orders": {"0": 23, "1": -2}}'
    return _numbers(name, text, example, EARLIEST_OFFSET)


def parse_times(name: str, text: str) -> PerPartition:
    """`{"orders": {"0": 1600000000000}}`, in milliseconds. Raises `InvalidRequest`."""
    found = _numbers(name, text, 'JSON such as {"orders": {"0": 1600000000000}}', 0)
    for partitions in found.values():
        for ms in partitions.values():
            time_ms(name, str(ms))
    return found


_TIMES = "whole milliseconds since 1970, or RFC 3339 such as 2013-01-31T07:00:00Z"


def time_ms(name: str, text: str) -> int:
    """Milliseconds since 1970, given so or as RFC 3339 text with an offset.

    Raises `InvalidRequest`, also for a number before 1973: it is seconds by mistake.
    """
    text = text.strip()
    if text.removeprefix("-").isdigit():
        micros = int(text) * 1_000
        check_number(micros, name, text, _TIMES)
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise _wrong(name, f"{text[:80]!r}", _TIMES)
        micros = to_micros(moment)
    check_time(micros, name, _TIMES)
    # Up, not down: no record before the time that was said is taken in.
    return -(-micros // 1_000)


def _numbers(name: str, text: str, example: str, least: int) -> PerPartition:
    body = _object(name, text, example)
    out: dict[str, dict[int, int]] = {}
    for topic, numbers in body.items():
        if not isinstance(numbers, dict):
            raise _wrong(name, f"{topic}: {numbers!r} is not an object", example)
        for partition, number in numbers.items():
            if not partition.isdigit() or not _is_whole(number) or number < least:
                raise _wrong(name, f"{topic}: {partition!r}: {number!r}", example)
        out[topic] = {int(partition): number for partition, number in numbers.items()}
    return out


def _object(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except ValueError as error:
        raise _wrong(name, f"{text[:80]!r}: {error}", example) from error
    if not isinstance(body, dict):
        raise _wrong(name, f"{text[:80]!r} is not an object", example)
    return body


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _wrong(name: str, what: str, hint: str) -> InvalidRequest:
    return InvalidRequest(f"option {name}: {what}", hint=hint, field=name)
