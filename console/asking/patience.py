"""Runs what may hang in threads of its own, and gives up waiting in time.

A page is made of parts. Each part has its own time, so that a node that is gone or a storage that
hangs makes that part say so in words, while the others are shown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import structlog

from console.rules.found import Failed, Found, late
from lakequeue.errors import Forbidden, LakequeueError, Unauthenticated
from serving.front.limits.shares import Pool

log = structlog.get_logger(__name__)
T = TypeVar("T")

PATIENCE_S = 0.8
"""A part of a page has this long."""
_REFUSED = frozenset({Unauthenticated.code, Forbidden.code})
_OLD_S = 300.0
"""What was found is shown for so long after it could not be asked for any more."""


class Pending(Generic[T]):
    """Work that was begun."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._done = threading.Event()
        self._value: T | None = None
        self._failed: Failed | None = None

    def run(self, work: Callable[[], T]) -> None:
        """Do it; raises nothing."""
        try:
            self._value = work()
        except LakequeueError as error:
            self._failed = Failed(error.detail, error.hint or "", error.code)
        except Exception as error:
            log.exception("panel.failed", what=self._what)
            said = f"{self._what}: unexpected {type(error).__name__}"
            self._failed = Failed(said, "the log of the console has the details", "broken")
        self._done.set()

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._done.is_set()

    def wait(self, within_s: float) -> Found[T]:
        """What came of it, if it ends within that time."""
        if not self._done.wait(max(0.0, within_s)):
            return Found(None, late(self._what, within_s))
        return Found(self._value, self._failed)


class Patience:
    """The threads. Work beyond their number waits for one, and is late then."""

    def __init__(self, threads: int = 32) -> None:
        self._pool = Pool("panel", threads)

    def begin(self, what: str, work: Callable[[], T]) -> Pending[T]:
        """Begin `work`; `what` names it in words."""
        pending: Pending[T] = Pending(what)
        self._pool.submit(lambda: pending.run(work))
        return pending

    def ask(self, what: str, work: Callable[[], T], within_s: float = PATIENCE_S) -> Found[T]:
        """What comes of `work` within that time."""
        return self.begin(what, work).wait(within_s)


class Kept(Generic[T]):
    """What was found last. It is looked for anew when somebody asks and it is older than `every_s`.

    One look at a time: a storage that hangs holds one thread, however often the page is loaded.
    """

    def __init__(
        self,
        patience: Patience,
        what: str,
        look: Callable[[], T],
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._patience, self._what, self._look = patience, what, look
        self._every_s, self._clock = every_s, clock
        self._lock = threading.Lock()
        self._pending: Pending[T] | None = None
        self._began = 0.0
        self._value: T | None = None
        self._at: float | None = None
        self._failed: Failed | None = None
        self._failed_at = 0.0

    def get(self, within_s: float = PATIENCE_S) -> Found[T]:
        """The newest; waits for a look only if what is known is too old."""
        pending = self._begin_if_due()
        if pending is not None:
            found: Found[Any] = pending.wait(within_s)
            if not pending.over:
                return self._known(late(self._what, self._clock() - self._began))
            self._take(pending, found)
        return self._known(self._failed)

    def _begin_if_due(self) -> Pending[T] | None:
        with self._lock:
            newest = max(self._at or 0.0, self._failed_at if self._failed else 0.0)
            if self._pending is None and newest and self._clock() - newest < self._every_s:
                return None
            if self._pending is None:
                self._began = self._clock()
                self._pending = self._patience.begin(self._what, self._look)
            return self._pending

    def _take(self, pending: Pending[T], found: Found[T]) -> None:
        with self._lock:
            if self._pending is not pending:
                return
            self._pending, self._failed = None, found.failed
            if found.failed is None:
                self._value, self._at = found.value, self._began
            else:
                self._failed_at = self._clock()
                if found.failed.code in _REFUSED:
                    # Whoever may not see it any more does not see what it was, either.
                    self._value, self._at = None, None

    def _known(self, failed: Failed | None) -> Found[T]:
        with self._lock:
            if self._at is None:
                return Found(None, failed)
            age_s = self._clock() - self._at
            return Found(self._value if age_s < _OLD_S else None, failed, age_s)
