"""What each kind of call may use of a node, so that none can starve another.

A kind has threads of its own, places to wait for one, and places for calls that wait for something
else and need no thread. Whoever comes beyond that is told so at once.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from lakequeue.errors import Overloaded
from serving.front.limits.budget import Budget
from serving.front.limits.turns import TURNS

RETRY_AFTER_S = 1.0
_IDLE_S = 60.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of call and its bounds."""

    name: str
    threads: int
    queued: int
    """Calls that may wait for one of the threads."""
    parked: int = 0
    """Calls that may wait for something else."""
    answer_bytes: int = 8 << 20
    """Bytes that its answers may take together, from when they are built until they are read."""


class Share:
    """What is used of a kind. For the event loop's thread alone, but for `answers`."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.busy = 0
        """Calls that are run by a thread, or wait for one, or are written."""
        self.parked = 0
        self.refused = {"calls": 0, "waits": 0, "answers": 0}
        self.unread = 0
        """Bytes of answers that clients have not taken yet."""
        self.answers = Budget(kind.answer_bytes)
        """Those, and the answers that are being built."""
        self.built_bytes = kind.answer_bytes // (2 * kind.threads)
        """What is set aside for an answer before it is built, as nobody knows how long it will be.
        All threads together set half aside, so that with nothing unread none is refused."""
        self.pool = Pool(kind.name, kind.threads)

    @property
    def overfull(self) -> bool:
        """One more answer has no room."""
        return self.answers.used + self.built_bytes > self.answers.limit

    def check_answers(self) -> None:
        """Raise `Overloaded` while that is so."""
        if self.overfull:
            self.refused["answers"] += 1
            raise _beyond(
                f"{self.answers.used} bytes of answers to {self.kind.name!r} are not read yet"
            )

    def check(self) -> None:
        """Raise `Overloaded` when one more call of this kind cannot be taken."""
        kind = self.kind
        if self.busy >= kind.threads + kind.queued:
            self.refused["calls"] += 1
            raise _beyond(f"{self.busy} calls of the kind {kind.name!r} are under way")
        if kind.parked and self.parked >= kind.parked:
            self.refused["waits"] += 1
            raise _beyond(f"{self.parked} calls of the kind {kind.name!r} wait")


class Pool:
    """Threads that run what they are given, in turn. They begin when needed, and are daemons.

    So a thread that storage holds up does not hold up the end of the process.
    """

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._most = most
        self._work: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def submit(self, work: Callable[[], object]) -> None:
        """Run `work`, which raises nothing, in one of the threads."""
        with self._lock:
            self._work.put(work)
            if self._idle >= self._work.qsize() or self._threads >= self._most:
                return
            self._threads += 1
            number = self._threads
        thread = threading.Thread(target=self._run, name=f"{self._name}-{number}", daemon=True)
        thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
            try:
                work = self._work.get(timeout=_IDLE_S)
            except queue.Empty:
                with self._lock:
                    self._idle -= 1
                    if self._work.empty():
                        self._threads -= 1
                        return
                continue
            with self._lock:
                self._idle -= 1
            with TURNS:
                work()
            # What a call has made must not live on until the next one comes.
            del work


def _beyond(said: str) -> Overloaded:
    return Overloaded(
        f"{said} at this node, which is the most",
        hint="wait as long as Retry-After says, then call again, or call another node",
        stored="no",
        retry_after_s=RETRY_AFTER_S,
    )
