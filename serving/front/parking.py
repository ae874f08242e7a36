"""Calls that wait, written so that waiting needs no thread. Pure but for the driver at the end.

Such a call is a generator of *steps*: it yields what it waits for, is resumed when that has come or
its time is over, and returns its result. The front resumes it from its event loop; `finish` runs it
in the calling thread. The call itself does not know which.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from typing import Any, Final, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
FOREVER = float("inf")
Listener = Callable[[], object]


class Signal(Protocol):
    """Something that happens once, or again after it was cleared."""

    def listen(self, listener: Listener) -> bool:
        """Call `listener` when it happens, from any thread; True: it has happened already."""

    def forget(self, listener: Listener) -> None:
        """Call it no more."""

    def wait(self, timeout: float | None = None) -> object:
        """Block until it has happened, or for `timeout` seconds."""


class Until(NamedTuple):
    """What a call waits for."""

    signal: Signal
    seconds: float
    """It goes on after that at the latest."""
    look_s: float | None = None
    """It wants to look this often, in case a signal was lost; with many waiting, less often."""
    minds: bool = True
    """It goes on at once when its client has gone, and is refused if its client may no longer call.
    Not so a write that is under way."""
    gives_back: bool = False
    """Though it does not mind: it can take back what it writes. So it is given up if, when it is
    over, there is no room for its answer. Any other write is answered with how it ended."""


Steps = Generator[Until, None, T]
"""A call that may wait, and what it comes to."""
Pieces = Generator[Until | bytes, None, None]
"""An answer that is written piece by piece."""


class Wake(threading.Event):
    """An event that tells listeners when it is set."""

    def __init__(self) -> None:
        super().__init__()
        self._listeners: tuple[Listener, ...] = ()
        self._changing = threading.Lock()

    def set(self) -> None:
        """Set it, and tell."""
        super().set()
        for listener in self._listeners:
            listener()

    def listen(self, listener: Listener) -> bool:
        """See `Signal`. Whoever sets it from now on tells, so a set before is seen here."""
        with self._changing:
            self._listeners = (*self._listeners, listener)
        return self.is_set()

    def forget(self, listener: Listener) -> None:
        """See `Signal`."""
        with self._changing:
            self._listeners = tuple(one for one in self._listeners if one != listener)


class _Passed:
    """It has happened already."""

    def listen(self, _listener: Listener) -> bool:
        """See `Signal`."""
        return True

    def forget(self, _listener: Listener) -> None:
        """See `Signal`."""

    def wait(self, _timeout: float | None = None) -> object:
        """See `Signal`."""
        return True


BLOCKS: Final = Until(_Passed(), 0.0, minds=False)
"""What a call yields before it does what may block: if an event loop runs it, it goes on in a
thread."""


class Done:
    """The end of a future, as a signal."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future
        self._listener: Listener | None = None

    def listen(self, listener: Listener) -> bool:
        """See `Signal`. If it has ended already, the future calls at once."""
        self._listener = listener
        self._future.add_done_callback(self._tell)
        return False

    def forget(self, listener: Listener) -> None:
        """See `Signal`."""
        if self._listener == listener:
            self._listener = None

    def wait(self, timeout: float | None = None) -> object:
        """See `Signal`."""
        return wait([self._future], timeout)

    def _tell(self, _future: Future[Any]) -> None:
        listener = self._listener
        if listener is not None:
            listener()


def finish(steps: Steps[T]) -> T:
    """Run a call to its end in this thread."""
    try:
        while True:
            until = next(steps)
            until.signal.wait(patience(until))
    except StopIteration as end:
        result: T = end.value
        return result


def patience(until: Until) -> float | None:
    """How long a thread waits at once."""
    seconds = min(until.seconds, until.look_s or until.seconds)
    return None if seconds == FOREVER else seconds
