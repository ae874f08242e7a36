"""A member's stream of server-sent events, as a browser reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from tests.support.services.consumer_node import HttpMember, Records


class Events:
    """The events of one connection, as a browser reads them."""

    def __init__(self, answer: httpx2.Response) -> None:
        self._lines = answer.iter_lines()
        self.last: str | None = None
        """What a browser would send as `Last-Event-ID`."""

    def next(self) -> tuple[str, Any]:
        """(event, data); (`comment`, its text) for a comment."""
        event, data = "", None
        for line in self._lines:
            name, _, value = line.partition(": ")
            if line.startswith(":"):
                return "comment", line[1:].strip()
            if name == "id":
                self.last = value
            elif name == "event":
                event = value
            elif name == "data":
                data = json.loads(value)
            elif not line and data is not None:
                return event, data
        raise EOFError

    def beginning(self) -> str | None:
        """The id that comes before any record."""
        self.last = next(self._lines).removeprefix("id: ")
        return self.last

    def end(self) -> Any:
        """What the last event says; until then silence only."""
        event, data = self.next()
        while event == "comment":
            event, data = self.next()
        assert event == "end", (event, data)
        return data

    def records(self, count: int) -> Records:
        """The next records."""
        found: Records = []
        while len(found) < count:
            event, data = self.next()
            if event == "record":
                assert data["receipt"] == self.last
                found.append(data)
        return found


@contextmanager
def listening(member: HttpMember, last: str | None = None) -> Iterator[Events]:
    """A connection of its own, as each reconnect is one; it breaks at the end of the block."""
    headers = {} if last is None else {"Last-Event-ID": last}
    with (
        httpx2.Client(base_url=member.url, timeout=60) as client,
        client.stream("GET", f"{member.path}/events", headers=headers) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Events(answer)
