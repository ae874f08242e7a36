"""How other threads hand something to the event loop, and are told that it reads much."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Final

_AT_ONCE: Final = 64
"""So many letters are opened, then it is the turn of the sockets: thousands of calls that wait may
be woken by one event."""


class Mailbox:
    """Calls that the loop's thread makes soon. `post` is thread-safe."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._letters: deque[Callable[[], object]] = deque()
        self._told = False

    def post(self, letter: Callable[[], object]) -> None:
        """Have `letter` called. After the loop's end nothing happens.

        What it raises goes to the exception handler of the loop.
        """
        self._letters.append(letter)
        # Set before the loop empties the box and cleared before it looks: a letter that finds it
        # set is seen by the look that is still to come.
        if not self._told:
            self._told = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._empty)

    def _empty(self) -> None:
        self._told = False
        for _ in range(min(_AT_ONCE, len(self._letters))):
            letter = self._letters.popleft()
            try:
                letter()
            except Exception as error:  # noqa: BLE001 -- it must not keep the others waiting
                said = {"message": "a letter failed", "exception": error}
                self._loop.call_exception_handler(said)
        if self._letters and not self._told:
            self._told = True
            self._loop.call_soon(self._empty)


class Rush:
    """Tells others while the loop is reading calls of a kind, one after the other.

    Clients that were answered together call again together. Their next calls lie in the sockets,
    and are read within milliseconds: they fit into one commit if that waits for them. For the event
    loop's thread.
    """

    def __init__(self, tell: Callable[[bool], None]) -> None:
        self._tell = tell
        self._on = False
        self._came = False

    def came(self, loop: asyncio.AbstractEventLoop) -> None:
        """A call was read."""
        self._came = True
        if not self._on:
            self._on = True
            self._tell(True)
            loop.call_soon(self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Once in each round of the loop: a round without a call is its end."""
        if self._came:
            self._came = False
            loop.call_soon(self._look, loop)
            return
        self._on = False
        self._tell(False)
