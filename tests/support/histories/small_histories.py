"""Small histories by hand: one second from event to event, one topic, groups `g` and `w`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from history_checker import GroupRequirements, Requirements
from history_checker.history import Event, Outcome

SECOND_NS = 10**9
STREAM = Requirements({"g": GroupRequirements(drained=True)})
QUEUE = Requirements({"w": GroupRequirements("queue", drained=True, max_attempts=3)})
Part = Event | Iterable[Event]


@dataclass(frozen=True)
class Cases:
    """Histories of one anomaly: each of `bad` is caught, each of `good` has no anomaly at all."""

    bad: Sequence[Sequence[Event]]
    good: Sequence[Sequence[Event]]
    requirements: Requirements = field(default_factory=Requirements)


def history(*parts: Part) -> list[Event]:
    """In this order, one second apart but for events that name their moment."""
    events: list[Event] = []
    for part in parts:
        events += [part] if isinstance(part, Event) else part
    timed = [
        e if e.t_ns else replace(e, t_ns=number * SECOND_NS) for number, e in enumerate(events, 1)
    ]
    return [e if e.wall else replace(e, wall=e.t_ns // 1_000) for e in timed]


def send(value: str, kind: Outcome = "ok", proc: str = "p", **said: Any) -> list[Event]:
    """Invoked, and ended so; an `invoke` is left open. What is `said` stands in both, but for \
the answer's own."""
    answer = {k: said.pop(k) for k in ("offset", "delta_version", "duplicate") if k in said}
    begun = Event("send", "invoke", proc=proc, topic="t", value=value, **said)
    return [begun] if kind == "invoke" else [begun, replace(begun, type=kind, **answer)]


def sends(*values: str, **said: Any) -> list[Event]:
    """One after the other, acknowledged."""
    return [e for value in values for e in send(value, **said)]


def read(*values: str | None, start: int = 0, **said: Any) -> list[Event]:
    """The final read of a partition."""
    fields: dict[str, Any] = {"proc": "final", "topic": "t", "part": 0} | said
    return [Event("read", offset=start + n, value=v, **fields) for n, v in enumerate(values)]


def got(*values: str, start: int = 0, epoch: int = 1, proc: str = "a", **said: Any) -> list[Event]:
    """Received by a member of the stream group."""
    fields: dict[str, Any] = {"topic": "t", "part": 0, "group": "g"} | said
    return [
        Event("receive", proc=proc, offset=start + n, value=v, lease_epoch=epoch, **fields)
        for n, v in enumerate(values)
    ]


def commit(
    offset: int, epoch: int = 1, kind: Outcome = "ok", proc: str = "a", **said: Any
) -> list[Event]:
    """A position committed by a member of the stream group."""
    fields: dict[str, Any] = {"topic": "t", "part": 0, "group": "g"} | said
    begun = Event("commit_offset", "invoke", proc=proc, offset=offset, lease_epoch=epoch, **fields)
    return [begun] if kind == "invoke" else [begun, replace(begun, type=kind)]


def took(
    offset: int, attempt: int = 1, proc: str = "a", until_s: int | None = 100, **said: Any
) -> Event:
    """Received by a worker of the queue group, until the second `until_s`; record `v<offset>`."""
    ends = None if until_s is None else until_s * 1_000_000
    fields: dict[str, Any] = {"value": f"v{offset}", "key": "k"} | said
    return Event(
        "receive",
        proc=proc,
        topic="t",
        part=0,
        offset=offset,
        group="w",
        deliver_count=attempt,
        expires_at=ends,
        **fields,
    )


def settle(
    f: str, offset: int, attempt: int = 1, kind: Outcome = "ok", proc: str = "a", **answer: Any
) -> list[Event]:
    """`ack`, `nack` or `extend` of a worker."""
    begun = Event(
        f, "invoke", proc=proc, topic="t", part=0, offset=offset, group="w", deliver_count=attempt
    )
    return [begun] if kind == "invoke" else [begun, replace(begun, type=kind, **answer)]


def ack(offset: int, attempt: int = 1, kind: Outcome = "ok", proc: str = "a") -> list[Event]:
    """An ack of a worker."""
    return settle("ack", offset, attempt, kind, proc)


def dead(offset: int, attempts: int = 3) -> Event:
    """In the dead-letter topic at the end."""
    return Event("dead", topic="t", part=0, offset=offset, group="w", deliver_count=attempts)
