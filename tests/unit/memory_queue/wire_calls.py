"""Calls of the wire on the model of the services, without clients and their threads."""

from __future__ import annotations

from typing import Any

import orjson

from lakequeue.calling.effects import Reply
from memory_queue.calls import Call
from memory_queue.service import Service


class Calls:
    """Answers at once: what would wait is looked at, and answered empty."""

    def __init__(self) -> None:
        self.service = Service()

    def __call__(self, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, Any]:
        """(status, body)."""
        data = b"" if body is None else orjson.dumps(body)
        said = self.service.answer(Call(method, path, {k: str(v) for k, v in query.items()}, data))
        assert isinstance(said, Reply)
        return said.status, said.json()

    def good(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The body of a success."""
        status, said = self(method, path, body, **query)
        assert status < 300, said
        return said
