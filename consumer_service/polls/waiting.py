"""How a poll waits: it looks, and looks again whenever its member is woken, until its time is over.

Both modes of a group wait like this. What a look is, and who is woken by which news, is theirs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from consumer_service.members import Member
from lakequeue.clock import boot_seconds
from serving.front.parking import BLOCKS, Steps, Until, Wake

LOOK_EVERY_S = 1.0
"""A waiting poll looks this often whether its client is still there."""


class Found(Protocol):
    """What one look has found."""

    records: Any
    """However many there are; falsy if there are none."""
    more: bool
    """There is more to look at, even if nothing was found."""


F = TypeVar("F", bound=Found)


def begin(member: Member, after: int | None) -> Steps[int]:
    """The number of a new poll that follows the answer `after`; 0 if it names none.

    What later answers had is taken back, and an older poll that still waits ends.
    """
    if after is None:
        return 0
    yield from turn_of(member.polls.lock)
    try:
        number = member.polls.begin(after)
    finally:
        member.polls.lock.release()
    member.wake.set()
    return number


def turn_of(lock: threading.Lock) -> Steps[None]:
    """Take the lock. Whoever has it may read files meanwhile, so an event loop does not wait."""
    if not lock.acquire(blocking=False):
        yield BLOCKS
        lock.acquire()


@contextmanager
def woken(member: Member) -> Iterator[Wake]:
    """What wakes one poll of a member, and nobody else. Whatever wakes the member does so, too.

    A member may have two polls for a moment: a client gives one up and begins the next. With one
    signal for both, each would clear what was meant for the other.
    """
    wake = Wake()
    member.wake.listen(wake.set)
    try:
        yield wake
    finally:
        member.wake.forget(wake.set)


def wait_for_records(
    member: Member,
    wake: Wake,
    wait_s: float,
    gone: Callable[[], bool],
    enter: Callable[[], object],
    look: Callable[[], Steps[F | None]],
) -> Steps[F | None]:
    """The first find with records, or the last one when `wait_s` seconds are over.

    `wake` ends a wait. `enter` comes before each look: no news between a look and the wait after it
    may be missed.
    None: nobody wants the answer. `gone` tells that the client has hung up, or the member has left,
    or `look` gives None because a newer poll has begun.
    """
    deadline = boot_seconds() + wait_s
    with member.polling():
        found = yield from _look_until(member, wake, deadline, gone, enter, look)
    if not gone():
        member.liveness.heard(boot_seconds())
    return found


def _look_until(
    member: Member,
    wake: Wake,
    deadline: float,
    gone: Callable[[], bool],
    enter: Callable[[], object],
    look: Callable[[], Steps[F | None]],
) -> Steps[F | None]:
    while True:
        enter()
        found = None if gone() or not member.active else (yield from look())
        if found is None:
            return None
        left = deadline - boot_seconds()
        if found.records or left <= 0:
            return found
        if not found.more:
            yield Until(wake, left, LOOK_EVERY_S)
