"""The table *call × right*: which right each call of each service needs, declared once. Pure.

Checks, tests and docs/security.md come from it. A call that does not stand here is refused as soon
as authentication is on, and a test fails as long as it is missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from queue_access.rights import Kind, Right

Service = Literal["ingest", "consumer", "driver"]
OPEN: Right | None = None
"""Needs nothing, not even a name: liveness and readiness."""
Needs = Right | Literal["known", "any"] | None
"""`known`: whoever has shown who they are; `any`: any right over what the call is about."""


@dataclass(frozen=True, slots=True)
class Also:
    """What a call needs of names that stand in its body: checked when that is read."""

    right: Right
    kind: Kind
    field: str


@dataclass(frozen=True, slots=True)
class CallRight:
    """One call."""

    method: str
    path: str
    """As in OpenAPI: `/v1/topics/{topic}`."""
    needs: Needs
    kind: Kind = Kind.QUEUE
    """What the right is over; its name is the part of the path that is called like the kind."""
    changes: bool = False
    """It changes something that outlives it: it is audited."""
    reads: bool = False
    """Records leave with its answer: quotas count its bytes."""
    keeps: bool = False
    """It keeps or settles what was delivered: who owes bytes may call it, else records would come
    again, and be read again."""
    also: tuple[Also, ...] = ()
    parts: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.path.split("/")))

    @property
    def name_at(self) -> int | None:
        """Where in the path the name stands that the right is over; None: nowhere."""
        part = "{producer_id}" if self.kind is Kind.PRODUCER else f"{{{self.kind}}}"
        return self.parts.index(part) if part in self.parts else None


def _reading(
    method: str, path: str, needs: Needs, kind: Kind, also: tuple[Also, ...] = ()
) -> CallRight:
    return CallRight(method, path, needs, kind, also=also, reads=True)


_T, _G = "/v1/topics/{topic}", "/v1/groups/{group}"
_M = _G + "/members/{member}"
_SEND_TOPICS = Also(Right.PRODUCE, Kind.TOPIC, "records[].topic")
_SEND_CONSUMED = (
    Also(Right.CONSUME, Kind.GROUP, "consumed.group"),
    Also(Right.CONSUME, Kind.TOPIC, "consumed.topic"),
)
_SEND_PRODUCER = Also(Right.PRODUCE, Kind.PRODUCER, "producer_id, with producer_epoch")
_CONSUME_TOPICS = Also(Right.CONSUME, Kind.TOPIC, "topics")
_DEAD_LETTERS = Also(Right.PRODUCE, Kind.TOPIC, "dead_letter_topic")
_STATE = (
    CallRight("GET", "/healthz", OPEN),
    CallRight("GET", "/readyz", OPEN),
    CallRight("GET", "/metrics", Right.READ),
)
_SERVICE = (
    *_STATE,
    CallRight("GET", "/openapi.json", "known"),
    CallRight("GET", "/v1/nodes", "known"),
)

INGEST: tuple[CallRight, ...] = (
    *_SERVICE,
    CallRight("GET", "/v1/topics", "known"),
    CallRight("GET", _T, "any", Kind.TOPIC),
    CallRight("PUT", _T, Right.MANAGE, Kind.TOPIC, changes=True, also=(_DEAD_LETTERS,)),
    CallRight("PATCH", _T, Right.MANAGE, Kind.TOPIC, changes=True, also=(_DEAD_LETTERS,)),
    CallRight("DELETE", _T, Right.MANAGE, Kind.TOPIC, changes=True),
    CallRight("POST", _T + "/settle", Right.MANAGE, Kind.TOPIC, changes=True),
    CallRight(
        "POST",
        _T + "/records",
        Right.PRODUCE,
        Kind.TOPIC,
        also=(*_SEND_CONSUMED, _SEND_PRODUCER),
    ),
    CallRight("POST", "/v1/records", "known", also=(_SEND_TOPICS, *_SEND_CONSUMED, _SEND_PRODUCER)),
    CallRight(
        "POST",
        "/v1/producers/{producer_id}/epochs",
        Right.PRODUCE,
        Kind.PRODUCER,
        changes=True,
    ),
)
CONSUMER: tuple[CallRight, ...] = (
    *_SERVICE,
    CallRight("GET", "/v1/groups", "known"),
    CallRight("GET", _G, "any", Kind.GROUP),
    CallRight("PUT", _G, Right.MANAGE, Kind.GROUP, changes=True, also=(_DEAD_LETTERS,)),
    CallRight("DELETE", _G, Right.MANAGE, Kind.GROUP, changes=True),
    CallRight(
        "POST",
        _G + "/members",
        Right.CONSUME,
        Kind.GROUP,
        also=(_CONSUME_TOPICS, _DEAD_LETTERS),
    ),
    CallRight("DELETE", _M, Right.CONSUME, Kind.GROUP, keeps=True),
    CallRight("POST", _M + "/heartbeat", Right.CONSUME, Kind.GROUP, keeps=True),
    CallRight(
        "GET", _M + "/records", Right.CONSUME, Kind.GROUP, also=(_CONSUME_TOPICS,), reads=True
    ),
    CallRight(
        "POST", _M + "/records", Right.CONSUME, Kind.GROUP, also=(_CONSUME_TOPICS,), reads=True
    ),
    CallRight(
        "GET", _M + "/events", Right.CONSUME, Kind.GROUP, also=(_CONSUME_TOPICS,), reads=True
    ),
    CallRight("POST", _M + "/acks", Right.CONSUME, Kind.GROUP, keeps=True),
    CallRight(
        "POST", _G + "/receive", Right.CONSUME, Kind.GROUP, also=(_CONSUME_TOPICS,), reads=True
    ),
    CallRight("POST", _G + "/acks", Right.CONSUME, Kind.GROUP, keeps=True),
    CallRight("POST", _G + "/seek", Right.MANAGE, Kind.GROUP, changes=True),
    CallRight("POST", _G + "/pause", Right.MANAGE, Kind.GROUP, changes=True),
    CallRight("POST", _G + "/resume", Right.MANAGE, Kind.GROUP, changes=True),
    CallRight("POST", _G + "/purge", Right.MANAGE, Kind.GROUP, changes=True),
    CallRight(
        "PUT",
        _G + "/webhook",
        Right.MANAGE,
        Kind.GROUP,
        changes=True,
        also=(_CONSUME_TOPICS, _DEAD_LETTERS),
    ),
    CallRight("GET", _G + "/webhook", Right.MANAGE, Kind.GROUP),
    CallRight("DELETE", _G + "/webhook", Right.MANAGE, Kind.GROUP, changes=True),
    CallRight(
        "GET",
        _G + "/topics/{topic}/partitions/{partition}/records/{offset}",
        "any",
        Kind.GROUP,
    ),
    CallRight("GET", _G + "/topics/{topic}/counts", "any", Kind.GROUP),
    CallRight("GET", _T + "/records", Right.READ, Kind.TOPIC, reads=True),
    CallRight(
        "GET", _T + "/partitions/{partition}/records/{offset}", Right.READ, Kind.TOPIC, reads=True
    ),
    CallRight(
        "POST",
        _T + "/redrive",
        Right.MANAGE,
        Kind.TOPIC,
        changes=True,
        also=(
            Also(Right.PRODUCE, Kind.TOPIC, "to"),
            # It takes records to a place where whoever redrives may read them.
            Also(Right.READ, Kind.TOPIC, "path, with to"),
        ),
    ),
    CallRight("GET", "/v1/advice", Right.READ),
)
CALLS: dict[Service, tuple[CallRight, ...]] = {
    "ingest": INGEST,
    "consumer": CONSUMER,
    "driver": _STATE,
}


MOST_KNOWN, MOST_KNOWN_CHARS = 1_024, 600
"""Paths that are kept with what they were found to be."""


class Calls:
    """Finds the call that a request is."""

    def __init__(self, calls: Iterable[CallRight]) -> None:
        self._calls: dict[tuple[str, int], list[CallRight]] = defaultdict(list)
        for call in calls:
            self._calls[call.method, len(call.parts)].append(call)
        self._found: dict[tuple[str, str], tuple[CallRight, str]] = {}
        """What was found last: clients call the same paths again and again."""

    def find(self, method: str, path: str) -> tuple[CallRight, str] | None:
        """(call, name that it is about) of a decoded path; None: there is no such call."""
        found = self._found.get((method, path))
        if found is None:
            found = self._find(method, path)
            if found is not None and len(path) <= MOST_KNOWN_CHARS:
                if len(self._found) >= MOST_KNOWN:
                    self._found.clear()
                self._found[method, path] = found
        return found

    def _find(self, method: str, path: str) -> tuple[CallRight, str] | None:
        if method == "HEAD":
            method = "GET"
        parts = (path[:-1] if len(path) > 1 and path.endswith("/") else path).split("/")
        for call in self._calls.get((method, len(parts)), ()):
            if all(
                there == said or (there.startswith("{") and said)
                for there, said in zip(call.parts, parts, strict=True)
            ):
                at = call.name_at
                return call, "" if at is None else parts[at]
        return None
