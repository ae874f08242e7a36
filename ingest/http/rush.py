"""Tells the committer while the event loop is reading sends, one after the other.

Clients that were answered together send again together. Their next sends lie in the sockets, and
are read within milliseconds: they fit into one group if its commit waits for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Rush:
    """For the event loop's thread."""

    def __init__(self, tell: Callable[[bool], None]) -> None:
        self._tell = tell
        self._on = False
        self._came = False

    def came(self, loop: asyncio.AbstractEventLoop) -> None:
        """A send was read."""
        self._came = True
        if not self._on:
            self._on = True
            self._tell(True)
            loop.call_soon(self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Once in each round of the loop: a round without a send is its end."""
        if self._came:
            self._came = False
            loop.call_soon(self._look, loop)
            return
        self._on = False
        self._tell(False)
