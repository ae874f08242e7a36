"""How often each call was answered, with which status, and how long that took."""

from __future__ import annotations

from collections.abc import Iterator

from serving.front.messages import Request

OTHER = "other"
"""A request for nothing that this service has."""


class Tally:
    """Written by the event loop alone; read from any thread, number by number."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str, int], list[float]] = {}

    def answered(self, request: Request, status: int, seconds: float) -> None:
        """A call is over, `seconds` after its request was whole."""
        call = request.call
        key = (OTHER, "", status) if call is None else (call.method, call.path, status)
        found = self._answers.get(key)
        if found is None:
            self._answers[key] = [1.0, seconds]
        else:
            found[0] += 1.0
            found[1] += seconds

    def __iter__(self) -> Iterator[tuple[str, str, float, float]]:
        """Call, status, how often, seconds in all."""
        for (method, path, status), (times, seconds) in list(self._answers.items()):
            yield f"{method} {path}".strip(), str(status), times, seconds
