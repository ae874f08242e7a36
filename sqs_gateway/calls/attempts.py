"""Answers to receives that may be asked for again, by `ReceiveRequestAttemptId`.

A client of a FIFO queue that has lost an answer asks with the same id, and gets the same messages
with the same handles. They are kept by the gateway that gave them out.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lakequeue.clock import boot_seconds

KEPT_S: Final = 300.0
_MOST_BYTES: Final = 16 << 20
_ENVELOPE: Final = 2_000
Answer = dict[str, Any]
_Key = tuple[str | None, str, str]


@dataclass(frozen=True, slots=True)
class Given:
    """An answer, and the receipts of the messages in it."""

    at: float
    answer: Answer
    receipts: Sequence[str]
    size: int


class Attempts:
    """Of all callers, whose `caller` is their key. Thread-safe."""

    def __init__(self, now: Callable[[], float] = boot_seconds) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._given: OrderedDict[_Key, Given] = OrderedDict()
        self._size = 0

    def find(self, caller: str | None, queue: str, attempt: str) -> Given | None:
        """What was answered to it, if that was not long ago."""
        with self._lock:
            found = self._given.get((caller, queue, attempt))
        return found if found is not None and self._now() - found.at < KEPT_S else None

    def keep(
        self, caller: str | None, queue: str, attempt: str, answer: Answer, receipts: Sequence[str]
    ) -> None:
        """Keep an answer with messages."""
        key = caller, queue, attempt
        size = sum(_ENVELOPE + len(one["Body"].encode()) for one in answer["Messages"])
        with self._lock:
            self._drop(key)
            self._given[key] = Given(self._now(), answer, receipts, size)
            self._size += size
            while self._given and (self._size > _MOST_BYTES or self._is_old()):
                self._drop(next(iter(self._given)))

    def _is_old(self) -> bool:
        return self._now() - next(iter(self._given.values())).at >= KEPT_S

    def _drop(self, key: _Key) -> None:
        gone = self._given.pop(key, None)
        self._size -= 0 if gone is None else gone.size
