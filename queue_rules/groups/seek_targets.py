"""Where a seek moves a partition. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from lakequeue.errors import (
    InvalidRequest,
)
from lakequeue.wire import SeekRequest


@dataclass(frozen=True, slots=True)
class Bounds:
    """What exists of a partition."""

    start: int
    end: int


def target_of(
    request: SeekRequest, committed: int | None, bounds: Bounds, by_time: int | None
) -> int:
    """Where a partition moves to, kept within `bounds`. Pure.

    `by_time` is the first offset that is not before `request.time`, None if there is none.
    """
    match request.to:
        case "earliest":
            wanted = bounds.start
        case "latest":
            wanted = bounds.end
        case "committed":
            wanted = bounds.start if committed is None else committed
        case "offset":
            wanted = request.offset or 0
        case "time":
            wanted = bounds.end if by_time is None else by_time
    return max(bounds.start, min(bounds.end, wanted + request.shift))


def check_request(request: SeekRequest) -> None:
    """Raise `InvalidRequest` when fields do not go together. Pure."""
    for to, value in (("offset", request.offset), ("time", request.time)):
        if (request.to == to) != (value is not None):
            raise InvalidRequest(
                f'"{to}" goes with "to": "{to}", and with nothing else',
                hint=f'give both, or choose another "to" and leave "{to}" out',
                field=to,
            )
