"""What others notice: health, sends and acks at a steady pace. For `bench.http.front`."""

from __future__ import annotations

import http.client
import itertools
import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from bench.http.kept import Ledger

JSON = {"Content-Type": "application/json"}
EVERY_S = 0.02
"""Often enough that the slowest hundredth of a window is more than one call."""
TIMEOUT_S = 20.0


@dataclass
class Seen:
    """Milliseconds that calls took, and those that failed."""

    took: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def p(self, share: float) -> float:
        """A percentile; a failed call counts as endless."""
        found = sorted(self.took + [float("inf")] * len(self.failed))
        return round(found[min(len(found) - 1, int(len(found) * share))], 1)


def watch(calls: dict[str, Callable[[], None]], seconds: float) -> dict[str, Seen]:
    """Make each call again and again for so long, each in a thread."""
    seen = {name: Seen() for name in calls}
    end = time.monotonic() + seconds

    def run(name: str) -> None:
        while time.monotonic() < end:
            began = time.perf_counter()
            try:
                calls[name]()
            except Exception as error:  # noqa: BLE001 -- it is what is counted
                seen[name].failed.append(repr(error)[:200])
            else:
                seen[name].took.append((time.perf_counter() - began) * 1_000)
            time.sleep(EVERY_S)

    threads = [threading.Thread(target=run, args=(name,)) for name in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


class Client:
    """One connection."""

    def __init__(self, url: str) -> None:
        self._netloc = urlsplit(url).netloc
        self._connection = http.client.HTTPConnection(self._netloc, timeout=TIMEOUT_S)

    def ask(self, method: str, path: str, body: object = None) -> dict[str, object]:
        """Ask; the JSON of a 2xx."""
        data = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, data, JSON)
            answer = self._connection.getresponse()
            text = answer.read()
        except OSError:
            self._connection.close()
            raise
        if not 200 <= answer.status < 300:
            raise RuntimeError(f"{answer.status} {text[:200]!r}")
        found: dict[str, object] = json.loads(text or b"{}")
        return found

    def close(self) -> None:
        """Close it."""
        self._connection.close()


def health(url: str) -> Callable[[], None]:
    """A look at the health of a node, over a connection of its own."""

    def ask() -> None:
        client = Client(url)
        client.ask("GET", "/healthz")
        client.close()

    return ask


def sends(url: str, ledger: Ledger) -> Callable[[], None]:
    """One record."""
    client = Client(url)
    prefix, numbers = secrets.token_hex(4), itertools.count()

    def ask() -> None:
        name = f"{prefix}-{next(numbers)}"
        record = {"value": "x" * 1_000, "message_id": name}
        client.ask("POST", "/v1/topics/bench/records", {"records": [record]})
        ledger.sent.append(name)

    return ask


def acks(url: str, group: str, ledger: Ledger) -> Callable[[], None]:
    """A poll of one record, and its ack."""
    client = Client(url)
    member: list[str] = []

    def ask() -> None:
        if not member:
            asked = {"topics": ["bench"], "from": "earliest"}
            joined = client.ask("POST", f"/v1/groups/{group}/members", asked)
            member.append(f"/v1/groups/{group}/members/{joined['member_id']}")
        try:
            answer = client.ask("GET", f"{member[0]}/records?max=1&wait_ms=5000")
            records = answer["records"]
            assert isinstance(records, list)
            for one in records:
                ledger.delivered(one["partition"], one["offset"])
                client.ask("POST", f"{member[0]}/acks", {"acks": [one["receipt"]]})
                ledger.acknowledged(one["partition"], one["offset"])
        except RuntimeError:
            # It was silent for too long while the clients came.
            member.clear()
            raise

    return ask
