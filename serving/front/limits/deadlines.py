"""When connections have to be looked at again: a wheel of slots. Pure.

A deadline that moves to later, as nearly all do, costs one assignment: the connection is found in
its old slot, and put on from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

NEVER = float("inf")
SLOT_S = 0.25


class Due(Protocol):
    """Something with a deadline; both fields belong to the wheel's user and to the wheel."""

    due: float
    """Seconds of any rising clock."""
    slot: int | None
    """Where the wheel keeps it."""


D = TypeVar("D", bound=Due)


class Deadlines(Generic[D]):
    """Who is due when."""

    def __init__(self) -> None:
        self._slots: dict[int, set[D]] = {}

    def put(self, one: D, due: float) -> None:
        """`one` is due then; `NEVER` for not at all."""
        one.due = due
        if due == NEVER:
            return
        slot = int(due / SLOT_S) + 1
        if one.slot is None or slot < one.slot:
            self.drop(one)
            one.slot = slot
            self._slots.setdefault(slot, set()).add(one)

    def drop(self, one: D) -> None:
        """It is never due."""
        if one.slot is not None:
            found = self._slots.get(one.slot)
            if found is not None:
                found.discard(one)
                if not found:
                    del self._slots[one.slot]
            one.slot = None

    def passed(self, now: float) -> Iterator[D]:
        """Those whose deadline is over; each is out of the wheel until it is put in again."""
        last = int(now / SLOT_S)
        for slot in sorted(slot for slot in self._slots if slot <= last):
            for one in self._slots.pop(slot, ()):
                one.slot = None
                if one.due <= now:
                    yield one
                else:
                    self.put(one, one.due)


def body_due(began: float, received: int, grace_s: float, bytes_per_s: float) -> float:
    """Until when more of a body must have come, that came at this rate at least since `began`."""
    return began + grace_s + received / bytes_per_s
