"""Looks at every process: whether it is there and ready, what it leads, what it counts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal

import orjson

from console.asking.patience import Patience
from console.asking.services import Service, Services, place_of
from console.rules.exposition import Scrape, read
from lakequeue import metrics
from lakequeue.errors import Broken, LakequeueError, Unauthenticated

State = Literal["ready", "warns", "not_ready", "silent", "refused"]
_FORBIDDEN = (401, 403)
_LOOK_S = 0.6
GATEWAY = "sqs"
SERVICES: tuple[Service, ...] = ("consumer", "ingest")
_DECLARED = (
    metrics.ingest.INGEST_RECORDS,
    metrics.ingest.INBOX_RECORDS,
    metrics.driver.ORDER_RECORDS,
    metrics.driver.ORDER_PENDING,
    metrics.driver.GROUP_LAG,
    metrics.consumer.DELIVERED_RECORDS,
    metrics.consumer.MEMBERS,
    metrics.consumer.DEAD_LETTERS,
    metrics.ingest.INGEST_FAULTY,
    metrics.consumer.LEASES_HELD,
    metrics.every.LEADING,
)
WANTED = frozenset(metric.name for metric in _DECLARED)


@dataclass(frozen=True, slots=True)
class Process:
    """One process, as of one look."""

    role: str
    name: str
    url: str
    state: State
    why: tuple[str, ...] = ()
    """What it says of itself, or why there is nothing."""
    leads: tuple[str, ...] = ()
    took_ms: int = 0
    open: bool = False
    """It told its figures to whoever has no key. A gateway is not asked: it has keys of its own."""
    scrape: Scrape = field(default_factory=lambda: Scrape({}), repr=False)

    @property
    def place(self) -> str:
        """Where it listens."""
        return place_of(self.url)


@dataclass(frozen=True, slots=True)
class Processes:
    """All of them at one moment."""

    at: float
    """Unix time."""
    each: tuple[Process, ...]
    locked: bool
    """A service asks for credentials."""
    may_read: bool
    """Whoever looks may see what concerns the whole queue: a service has told it."""


def look(services: Services, patience: Patience) -> Processes:
    """Ask all of them at once. Raises `Unauthenticated`; nothing else."""
    nodes = _registered(services)
    looks = [
        (role, name, url, patience.begin(name, _looking(services, role, name, url)))
        for role, name, url in nodes
    ]
    until = time.monotonic() + _LOOK_S + 0.1
    each = []
    for role, name, url, pending in looks:
        found = pending.wait(until - time.monotonic()).value
        each.append(found or Process(role, name, url, "silent", ("it does not answer",)))
    refused = [process for process in each if process.state == "refused"]
    may_read = not refused and any(process.open for process in each)
    return Processes(time.time(), tuple(each), bool(refused), may_read)


def _registered(services: Services) -> list[tuple[str, str, str]]:
    """(role, name, URL) of each: those that are registered, and those that the console was told."""
    known: dict[str, tuple[str, str]] = {}
    for role, told in (("ingest", services.at.ingest), ("consumer", services.at.consumer)):
        # While no list can be read, who is gone keeps the name that people know.
        names = services.names
        known |= {url: (role, names.get(url, f"{role} {place_of(url)}")) for url in told}
    known |= {url: ("driver", f"driver {place_of(url)}") for url in services.at.drivers}
    known |= {url: (GATEWAY, f"SQS {place_of(url)}") for url in services.at.gateways}
    with contextlib.suppress(LakequeueError):
        try:
            listed = _nodes(services)
        except Unauthenticated:
            listed = {}
        for role in SERVICES:
            nodes = listed.get(role, [])
            services.learn(role, {node["url"]: node["node"] for node in nodes})
            known |= {node["url"]: (role, node["node"]) for node in nodes}
    order = ("ingest", "consumer", "driver", GATEWAY)
    found = [(role, name, url) for url, (role, name) in known.items()]
    return sorted(found, key=lambda one: (order.index(one[0]), one[1]))


def _nodes(services: Services) -> dict[str, Any]:
    last: LakequeueError | None = None
    for service in SERVICES:
        try:
            return dict(services.get(service, "/v1/nodes", within_s=0.3))
        except Unauthenticated:
            raise
        except LakequeueError as error:
            last = error
    raise last or Broken("nobody was asked")


def _looking(services: Services, role: str, name: str, url: str) -> Callable[[], Process]:
    def looked() -> Process:
        began = time.monotonic()
        readiness = services.look_at(url, "/readyz", _LOOK_S)
        if readiness.status is None:
            return Process(role, name, url, "silent", (f"no answer within {_LOOK_S:g} s",))
        if role == GATEWAY:
            # It has keys of its own, and no figure that the console shows.
            state, why = judged(readiness.status, readiness.body)
            return Process(role, name, url, state, why, (), round(1_000 * readiness.took_s))
        left = max(0.05, began + _LOOK_S - time.monotonic())
        counted = services.look_at(url, "/metrics", left)
        scrape = Scrape({})
        if counted.status == HTTPStatus.OK:
            scrape = read(counted.body.decode(errors="replace"), WANTED)
        state, why = judged(readiness.status, readiness.body)
        if counted.status in _FORBIDDEN:
            state = "refused"
        leading = scrape.all(metrics.every.LEADING.name)
        leads = tuple(
            sorted(dict(labels).get("election", "") for labels, v in leading.items() if v)
        )
        took_ms = round(1_000 * readiness.took_s)
        is_open = counted.status == HTTPStatus.OK
        return Process(role, name, url, state, why, leads, took_ms, is_open, scrape)

    return looked


def judged(status: int, body: bytes) -> tuple[State, tuple[str, ...]]:
    """(state, reasons) of an answer to `/readyz`. Pure."""
    said: Any = None
    with contextlib.suppress(orjson.JSONDecodeError):
        said = orjson.loads(body)
    said = said if isinstance(said, dict) else {}
    reasons = _details(said.get("reasons"))
    warnings = _details(said.get("warnings"))
    if status != 200:
        return "not_ready", reasons or (f"/readyz answers {status}",)
    return ("warns", warnings) if warnings else ("ready", ())


def _details(listed: object) -> tuple[str, ...]:
    if not isinstance(listed, list):
        return ()
    return tuple(str(one.get("detail") if isinstance(one, dict) else one) for one in listed)
