"""What a client of any system does, and the thread by which some of them send in batches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

Place = dict[str, Any]
"""Where a system is: what its `systems` module says of it, as JSON."""

Acked = Callable[[Sequence[int]], None]
"""Called with the numbers of records that the system has acknowledged."""


class Sender(Protocol):
    """Sends records, and tells when they are acknowledged."""

    def send(self, number: int, partition: int, value: bytes) -> None:
        """Hand one record over; returns at once."""

    def wait(self, seconds: float) -> None:
        """Let acknowledgements come; returns after so many seconds, or sooner."""

    def close(self) -> None:
        """Close the connection; everything was acknowledged."""


class Receiver(Protocol):
    """Receives records, and settles them as its system does."""

    def receive(self, seconds: float, most: int) -> Sequence[bytes]:
        """The values of the next records; empty if none came in that time."""

    def settle(self) -> None:
        """Acknowledge all that `receive` has returned."""

    def close(self) -> None:
        """Close the connection."""


class Drained(NamedTuple):
    """What one call has read."""

    records: int
    bytes: int
    """Of their values."""
    offsets: int
    """The sum of their offsets."""


class Drainer(Protocol):
    """Reads what stands in the log already, as a group of its own, and settles it."""

    def read(self, seconds: float, most: int) -> Drained:
        """The next records; looks at the value and the offset of each."""

    def close(self) -> None:
        """Settle what is not yet settled, and close the connection."""


class BatchSender:
    """A thread that takes all that waits, and writes it in one request: a group commit."""

    def __init__(
        self, write: Callable[[list[tuple[int, bytes]]], None], acked: Acked, most: int
    ) -> None:
        self._write, self._acked, self._most = write, acked, most
        self._waiting: list[tuple[int, int, bytes]] = []
        self._changed = threading.Condition()
        self._closed = False
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="batches", daemon=True)
        self._thread.start()

    def send(self, number: int, partition: int, value: bytes) -> None:
        """Queue one record."""
        with self._changed:
            if self._failed is not None:
                raise RuntimeError("the sending thread has ended") from self._failed
            self._waiting.append((number, partition, value))
            self._changed.notify()

    def wait(self, seconds: float) -> None:
        """Acknowledgements come from the thread."""
        if self._failed is not None:
            raise RuntimeError("the sending thread has ended") from self._failed
        time.sleep(seconds)

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            while batch := self._taken():
                self._write([(partition, value) for _, partition, value in batch])
                self._acked([number for number, _, _ in batch])
        except BaseException as problem:
            self._failed = problem
            raise

    def _taken(self) -> list[tuple[int, int, bytes]]:
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
        return batch
