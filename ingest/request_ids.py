"""Names of requests, unique over all nodes and their lives."""

from __future__ import annotations

import itertools
from uuid import uuid4


class RequestIds:
    """A random beginning for the life of a process, then a number. Thread-safe.

    Randomness for each request would be a call to the system, which costs more than its parsing.
    """

    def __init__(self) -> None:
        self._begin = uuid4().hex[:20]
        self._numbers = itertools.count(1)

    def next(self) -> str:
        """32 characters that no other request has."""
        return f"{self._begin}{next(self._numbers):012x}"
