"""A history with what every rule asks of it: which sends there were, what the final read has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from history_checker.history import Event

Slot = tuple[str, int]
"""(topic, partition)."""
Place = tuple[str, int, int]
"""(topic, partition, offset)."""

READS = frozenset({"read", "receive"})
SETTLES = frozenset({"ack", "nack", "extend"})


@dataclass(slots=True)
class Send:
    """One value on its way in, by however many calls."""

    topic: str
    value: str
    invoked_ns: int
    ended_ns: int | None = None
    outcome: str = "info"
    """ok, fail, or info: an invoke that nothing follows is a maybe."""
    said: Event | None = None
    """The answer."""
    dedup_id: str = ""
    part: int = -1
    batch: str | None = None
    not_before: int | None = None
    expires_at: int | None = None
    proc: str = ""


@dataclass(slots=True)
class Indexed:
    """Everything in the order of time."""

    events: list[Event]
    sends: dict[str, Send] = field(default_factory=dict)
    final: list[Event] = field(default_factory=list)
    """The final read, of one reader."""
    stored: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    """By value."""
    stored_ids: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    """By the id that deduplication goes by."""
    first: dict[Slot, int] = field(default_factory=dict)
    erased: dict[str, int] = field(default_factory=dict)
    """Value to the moment at which its erasure was answered, or may have been (invoke)."""
    noted: set[str] = field(default_factory=set)
    """Values that are noted as expired or refused."""
    groups: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))

    def of(self, *fs: str) -> list[Event]:
        """The events of these kinds."""
        return [e for e in self.events if e.f in fs]

    def slots(self) -> dict[Slot, list[Event]]:
        """The final read by partition, in the order of offsets."""
        found: dict[Slot, list[Event]] = defaultdict(list)
        for e in sorted(self.final, key=lambda e: (e.topic, e.part, e.offset)):
            found[e.topic, e.part].append(e)
        return found


def index(history: Iterable[Event]) -> Indexed:
    """Read a history once. Events are expected in the order of time."""
    found = Indexed(list(history))
    readers = [e.proc for e in found.events if e.f == "read"]
    for e in found.events:
        if e.group is not None:
            found.groups[e.group].append(e)
        if e.f == "read" and e.proc == readers[0]:
            found.final.append(e)
            if e.value is not None:
                found.stored[e.value].append(e)
                found.stored_ids[e.dedup_id or e.value].append(e)
        elif e.value is not None or e.f == "first":
            _note(found, e, e.value or "")
    return found


def _note(found: Indexed, e: Event, value: str) -> None:
    match e.f:
        case "send":
            _note_send(found.sends, e, value)
        case "first":
            found.first[e.topic, e.part] = e.offset
        case "erase" if e.type != "fail":
            found.erased.setdefault(value, e.t_ns)
            if e.type == "ok":
                found.erased[value] = e.t_ns
        case "expired" | "reject":
            found.noted.add(value)
        case _:
            return


def _note_send(sends: dict[str, Send], e: Event, value: str) -> None:
    send = sends.get(value)
    if send is None:
        send = sends[value] = Send(e.topic, value, e.t_ns)
        send.dedup_id = value
    send.proc = send.proc or e.proc
    send.topic = send.topic or e.topic
    send.dedup_id = e.dedup_id or send.dedup_id
    send.part = e.part if e.part >= 0 else send.part
    send.batch = e.batch or send.batch
    send.not_before = e.not_before or send.not_before
    send.expires_at = e.expires_at or send.expires_at
    if e.type != "invoke":
        send.outcome, send.ended_ns, send.said = e.type, e.t_ns, e


def where(e: Event) -> str:
    """For an example."""
    return f"{e.group or ''} {e.proc} {e.topic}/{e.part}@{e.offset}".strip()
