"""The event loop gets its turn soon while threads compute.

A thread that computes keeps the interpreter for `sys.getswitchinterval()`, which is 5 ms, while
others want it. The loop lets go of it at each read and write of a socket. So beside one such thread
each of these takes up to 5 ms more, and a thousand clients that ask at once are ten seconds of it.
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType

SOON_S = 0.000_2


class Turns:
    """Short turns while at least one thread is within it. The interval is the process' own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._within = 0
        self._usual_s = sys.getswitchinterval()

    def __enter__(self) -> None:
        with self._lock:
            self._within += 1
            if self._within == 1:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(SOON_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._within -= 1
            if not self._within:
                sys.setswitchinterval(self._usual_s)


TURNS = Turns()
