"""A node that cannot read the log sends its members to one that can.

Its leases and its session are well, so nobody takes its partitions away, and its polls would be
answered with nothing for as long as it lasts. Where no other node can read either, storage itself
is away, and members do better to stay than to wander.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import httpx2

from consumer_service.tailer import Tailer
from lakequeue.clock import boot_seconds
from lakequeue.errors import NotReady

PATIENCE_S = 5.0
"""How long the log may be out of reach before anybody is sent away."""
_ASK_S, _FRESH_S = 1.0, 2.0


class Blindness:
    """Judges whether members had better be elsewhere."""

    def __init__(self, tailer: Tailer, others: Callable[[], Iterable[str]]) -> None:
        """`others`: base URLs of the other nodes, as far as is known."""
        self._tailer = tailer
        self._others = others
        self._asking = threading.Lock()
        self._asked_at = float("-inf")
        self._another_sees = False

    def check(self) -> None:
        """Raise `NotReady` if the log has been out of reach for long and another node is ready."""
        since = self._tailer.failing_since
        if since is None or boot_seconds() - since < PATIENCE_S:
            return
        if self._asking.acquire(blocking=False):  # the others take what is known
            try:
                if boot_seconds() - self._asked_at > _FRESH_S:
                    self._another_sees = self._ask()
                    self._asked_at = boot_seconds()
            finally:
                self._asking.release()
        if self._another_sees:
            raise NotReady(
                f"this node cannot read the log: {self._tailer.failure}",
                hint="join through another node",
            )

    def _ask(self) -> bool:
        return any(_is_ready(url) for url in self._others())


def _is_ready(url: str) -> bool:
    try:
        return httpx2.get(f"{url}/readyz", timeout=_ASK_S).status_code == 200
    except httpx2.HTTPError:
        return False
