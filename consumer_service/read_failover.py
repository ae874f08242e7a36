"""A node that cannot read the log sends its members to one that can, and gives up its webhooks.

Its leases and its session are well, so nobody takes its partitions away, and its polls would be
answered with nothing for as long as it lasts. Where no other node can read either, storage itself
is away, and members do better to stay than to wander.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable

import httpx2

from consumer_service.reading.tailer import Tailer
from lakequeue.calling import blocking_runner
from lakequeue.clock import boot_seconds
from lakequeue.errors import NotReady

PATIENCE_S = 5.0
"""How long the log may be out of reach before anybody is sent away."""
_ASK_S, _FRESH_S = 1.0, 2.0


class ReadFailover:
    """Judges whether members had better be elsewhere. Thread-safe."""

    def __init__(self, tailer: Tailer, others: Callable[[], Iterable[str]]) -> None:
        """`others`: base URLs of the other nodes, as far as is known."""
        self._tailer = tailer
        self._others = others
        self._asking = threading.Lock()
        self._asked_at = float("-inf")
        self._seeing: str | None = None

    def better_node(self) -> str | None:
        """Base URL of a node that is ready, if the log has been out of reach here for long."""
        since = self._tailer.failing_since
        if since is None or boot_seconds() - since < PATIENCE_S:
            return None
        if self._asking.acquire(blocking=False):  # the others take what is known
            try:
                if boot_seconds() - self._asked_at > _FRESH_S:
                    self._seeing = self._ask()
                    self._asked_at = boot_seconds()
            finally:
                self._asking.release()
        return self._seeing

    def check(self) -> None:
        """Raise `NotReady` if members had better be elsewhere."""
        if self.better_node() is not None:
            raise NotReady(self.why(), hint="join through another node")

    def why(self) -> str:
        """What a member is told that has to go."""
        return f"this node cannot read the log: {self._tailer.failure}"

    def _ask(self) -> str | None:
        others = list(self._others())
        # Any of them: all who are here are sent there.
        random.shuffle(others)
        return next((url for url in others if _is_ready(url)), None)


def _is_ready(url: str) -> bool:
    try:
        with blocking_runner.open_http({}, [url]) as http:
            return bool(http.get(f"{url}/readyz", timeout=_ASK_S).status_code == 200)
    except httpx2.HTTPError:
        return False
