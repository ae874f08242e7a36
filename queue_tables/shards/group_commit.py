"""Group commit: many submissions, one commit. A pure batcher, and a thread around it.

A group is closed when its first submission has waited for the linger, when it is large enough,
or at once when the committer has been idle: a lone record never waits for company. While one
commit runs the next group fills, so under load groups grow by themselves. While requests are just
being read (a rush) a group waits for the end of that, a little longer than the linger: a commit
beside it would take time from the reading, and those who come next would need one of their own.

The linger is for company, and a pace for whoever sends again as soon as it is answered. A sender
that says who it is needs neither: it has gathered what it sends. If all who were committed just
before have said so, and have come again, the group does not wait. Not so with a long linger:
whoever sets one wants few commits, not quick ones.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from lakequeue.errors import NotReady, Overloaded

T = TypeVar("T")

_RETRY_AFTER_S = (0.05, 5.0)
RUSH_S = 0.02
"""A rush holds a group for so much longer than the linger at most."""
_SHORT_S = 0.02
"""A linger up to this is cut short when nobody else is expected."""


def _under_way() -> Future[Any]:
    """A future that nobody can cancel: it is not theirs alone."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


@dataclass(slots=True)
class Group(Generic[T]):
    """Submissions that are committed together, in the order they came."""

    opened_at: float
    items: list[T] = field(default_factory=list)
    size: int = 0
    """Bytes."""
    senders: set[Hashable] = field(default_factory=set)
    """Whose items they are; None among them: of somebody who has not said so."""
    end: Future[Any] = field(default_factory=_under_way)
    """How its commit ended: one for all, since one each would cost more than what it tells."""


class Batcher(Generic[T]):
    """The rules, without threads or clock: `now` is in seconds of any rising clock."""

    def __init__(
        self,
        linger_s: float,
        max_group_bytes: int,
        max_pending_bytes: int,
        rush_s: float = RUSH_S,
        *,
        eager: bool = True,
    ) -> None:
        """`eager`: what comes first after a rest is committed at once, in a rush as well."""
        self._linger_s = linger_s
        self._rush_s = rush_s
        self._eager = eager
        self._max_group = max_group_bytes
        self._max_pending = max_pending_bytes
        self._groups: deque[Group[T]] = deque()
        self._before: set[Hashable] = set()
        """The senders of the group that was taken last."""
        self._committing: Group[T] | None = None
        self._busy_until = float("-inf")
        self._bytes_per_s = 0.0
        self._started_at = 0.0
        self.pending_bytes = 0
        """Bytes accepted and not yet committed: open, closed and committing groups."""

    def add(
        self, item: T, size: int, now: float, sender: Hashable = None
    ) -> tuple[Future[Any], bool]:
        """Put `item` whole into the open group. Raises `Overloaded` past the bound.

        One item larger than the bound is taken when nothing else is pending. Returns the end of the
        group, and whether `due_in` says something else than before.
        """
        if self.pending_bytes and self.pending_bytes + size > self._max_pending:
            raise Overloaded(
                f"{self.pending_bytes} bytes are waiting to be committed, {size} more would pass"
                f" the bound of {self._max_pending}",
                hint="wait as long as Retry-After says, then send again",
                stored="no",
                retry_after_s=self._retry_after_s(),
            )
        last = self._groups[-1] if self._groups else None
        opened = last is None or last.size + size > self._max_group
        if last is None or opened:
            last = Group(opened_at=now)
            self._groups.append(last)
        last.items.append(item)
        last.senders.add(sender)
        last.size += size
        self.pending_bytes += size
        return last.end, opened or last.size >= self._max_group

    def due_in(self, now: float, *, rush: bool = False) -> float | None:
        """Seconds until the oldest group is to be committed; <= 0 now; None: there is none.

        `rush`: more is just being read.
        """
        if not self._groups:
            return None
        first = self._groups[0]
        if len(self._groups) > 1 or first.size >= self._max_group:
            return 0.0
        rested = first.opened_at - self._busy_until >= self._linger_s
        if rested and (self._eager or not rush):
            return 0.0  # idle before it came: nothing suggests that more is coming
        if not rush and self._all_again(first):
            return 0.0
        return first.opened_at + self._linger_s + (self._rush_s if rush else 0.0) - now

    def _all_again(self, group: Group[T]) -> bool:
        before = self._before
        short = self._linger_s <= _SHORT_S
        return short and bool(before) and None not in before and before <= group.senders

    def take(self, now: float) -> Group[T]:
        """Close the oldest group, for committing. `done` must follow before the next `take`."""
        self._committing = taken = self._groups.popleft()
        self._before = taken.senders
        self._started_at = now
        return taken

    def done(self, now: float) -> None:
        """The commit of the taken group has ended, well or badly."""
        group, self._committing = self._committing, None
        if group is None:
            raise ValueError("done() without take()")
        self.pending_bytes -= group.size
        self._busy_until = now
        rate = group.size / max(now - self._started_at, 1e-6)
        self._bytes_per_s = 0.8 * self._bytes_per_s + 0.2 * rate if self._bytes_per_s else rate

    def _retry_after_s(self) -> float:
        # Half of what is pending must go first, or the next try would be refused as well.
        low, high = _RETRY_AFTER_S
        if not self._bytes_per_s:
            return low
        return min(high, max(low, self.pending_bytes / 2 / self._bytes_per_s))


class GroupCommitter(Generic[T]):
    """A thread that commits groups of what is submitted, one commit at a time."""

    def __init__(
        self,
        commit: Callable[[list[T]], Any],
        *,
        linger_ms: float,
        max_group_bytes: int,
        max_pending_bytes: int,
        name: str = "committer",
        rush_s: float = RUSH_S,
        eager: bool = True,
    ) -> None:
        """`commit` is called in the committer's thread with the items of one group, in order.

        What it returns is the result of every submission of the group; what it raises, likewise.
        """
        self._commit = commit
        self._batcher: Batcher[T] = Batcher(
            linger_ms / 1_000, max_group_bytes, max_pending_bytes, rush_s, eager=eager
        )
        self._changed = threading.Condition()
        self._stopping = False
        self._rush = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> Self:
        """Begin, in a thread of its own."""
        self._thread.start()
        return self

    @property
    def pending_bytes(self) -> int:
        """Bytes accepted and not yet committed."""
        return self._batcher.pending_bytes

    def submit(self, item: T, size: int, sender: Hashable = None) -> Future[Any]:
        """Have `item`, of `size` bytes, committed; it is never split over two groups.

        `sender`: who has gathered it, waits for its end, and may come again then.
        The future is that of its group, and cannot be cancelled. Raises `Overloaded` (with
        `retry_after_s`) past the bound, `NotReady` while draining.
        """
        with self._changed:
            if self._stopping:
                raise NotReady(
                    "this node is stopping",
                    hint="send to another node, or again when it is back",
                    stored="no",
                    retry_after_s=1.0,
                )
            end, sooner = self._batcher.add(item, size, time.monotonic(), sender)
            if sooner:
                # Else the committer would wake up for each record, only to wait on.
                self._changed.notify()
        return end

    def rush(self, on: bool) -> None:
        """Whether more submissions are just being read, which had better come into one group."""
        self._rush = on
        if not on:
            with self._changed:
                self._changed.notify()

    def drain(self, timeout_s: float | None = None) -> bool:
        """Take no more, commit what was taken. False if that took longer than `timeout_s`."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (group := self._next()) is not None:
            self._commit_group(group)
            # What is committed must not live on until the next group comes.
            del group

    def _commit_group(self, group: Group[T]) -> None:
        try:
            result = self._commit(group.items)
        except BaseException as e:  # noqa: BLE001 -- a waiting request must hear of any end
            self._finish()
            group.end.set_exception(e)
        else:
            self._finish()
            group.end.set_result(result)

    def _next(self) -> Group[T] | None:
        with self._changed:
            while True:
                now = time.monotonic()
                due_in = self._batcher.due_in(now, rush=self._rush)
                if due_in is None and self._stopping:
                    return None
                if due_in is not None and (due_in <= 0 or self._stopping):
                    return self._batcher.take(now)
                self._changed.wait(due_in)

    def _finish(self) -> None:
        with self._changed:
            self._batcher.done(time.monotonic())
