"""What a JSON body becomes in memory, estimated before it is parsed, in time linear in it. Pure.

Fifteen mebibytes of `[],[],[],…` become half a gigabyte of lists. The separators say how many
values there are at most: those in texts are counted as well, which makes the estimate higher than
the truth for texts full of commas, never lower.
"""

from __future__ import annotations

from lakequeue.errors import TooLarge
from queue_rules.produce.byte_search import count, has_pair
from serving.front.limits.budget import Budget, Lease

_VALUE = 64
"""Bytes of one value and its place in what holds it, beside its text: a float, a short text."""
_LIST, _OBJECT = 64, 240
_ASCII, _WIDE = 2, 5
"""Bytes of text for each of the body: as Python's text, and as the bytes that are stored."""


MOST_PER_BYTE = _WIDE + _OBJECT + _VALUE
"""So much a byte of a body becomes at the very most."""


def becomes(body: bytes) -> int:
    """Bytes that parsing `body` takes beside it."""
    values = count(body, b",") + count(body, b":") + 1
    text = _ASCII if body.isascii() and not has_pair(body, b"\\u") else _WIDE
    lists, objects = count(body, b"["), count(body, b"{")
    return len(body) * text + values * _VALUE + lists * _LIST + objects * _OBJECT


def refuse_beyond(cost: int, limit: int) -> None:
    """Raise `TooLarge` for a body that can never have a place."""
    if cost > limit:
        raise TooLarge(
            f"the body would take about {cost} bytes of memory when it is parsed, at most {limit} "
            "(max_parsed_bytes) are there",
            hint="send less in one request, and large lists of numbers as Arrow or base64",
            stored="no",
        )


_UNCOUNTED = 1 << 20
"""What a small body can become at most is not counted: each thread parses one at a time."""


def room(budget: Budget, body: bytes) -> Lease:
    """Memory for what the body becomes. Raises `TooLarge`, `Overloaded`."""
    lease = budget.lease()
    if len(body) * MOST_PER_BYTE > min(_UNCOUNTED, budget.limit):
        take(budget, lease, becomes(body))
    return lease


def take(budget: Budget, lease: Lease, cost: int) -> None:
    """The same for bytes that are known, unless they are few. Raises `TooLarge`, `Overloaded`."""
    if cost > min(_UNCOUNTED, budget.limit):
        refuse_beyond(cost, budget.limit)
        lease.grow(cost)
