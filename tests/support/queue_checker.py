"""Judges a history of queue groups. This docstring is its specification.

Given: the events of all workers (`history.py`), with an attempt on each receive, ack and nack; the
offsets that stand in the log, and those that stand in the dead-letter topic with their attempts.

An ack or nack is *done* when it ended `ok`, *refused* when it ended `fail`, and *maybe* when it
ended `info` or not at all.

Always a fault:
  repeated_attempt   one attempt at one record received twice
  over_attempts      an attempt above `max_attempts` received
  early              received before it was due: `due` of a nack of the attempt before it, or the
                     time at which it may be delivered at all (wall clock, one machine)
  resurrection       received after an ack of it was done, or under a higher attempt than that
  zombie_ack         an ack done though a higher attempt had been received when it was invoked
  acked_twice        acks of two attempts at one record done
  acked_and_dead     an ack done, and in the dead-letter topic
  dead_twice         twice in the dead-letter topic
  dead_early         in the dead-letter topic with fewer than `max_attempts` attempts
  unsettled          of a drained group: neither acked (done or maybe) nor in the dead-letter topic
  phantom            received, and not in the log
  key_overtaken      with key order: received before the record of its key before it was settled

Deliveries beyond the first of a record are counted, not judged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from tests.support.history import Event

Place = tuple[int, int]
"""(partition, offset)"""


@dataclass(slots=True)
class QueueVerdict:
    """What was found, and the counts that were judged."""

    anomalies: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    records: int = 0
    received: int = 0
    redelivered: int = 0
    acked: int = 0
    nacked: int = 0
    refused: int = 0
    dead: int = 0
    late_ms: list[float] = field(default_factory=list)
    """How late nacked records came, where somebody waited."""

    @property
    def ok(self) -> bool:
        """No anomaly was found."""
        return not self.anomalies

    def add(self, anomaly: str, example: str) -> None:
        """Note one instance."""
        self.anomalies[anomaly].append(example)

    def __str__(self) -> str:
        counts = " ".join(
            f"{name}={getattr(self, name)}"
            for name in ("records", "received", "redelivered", "acked", "nacked", "refused", "dead")
        )
        found = "".join(
            f"\n  {name}: {len(examples)}, e.g. {'; '.join(examples[:3])}"
            for name, examples in sorted(self.anomalies.items())
        )
        return counts + (found or "\n  no anomaly")


def check_queue(
    history: Iterable[Event],
    log: Iterable[Place],
    dead: Iterable[tuple[Place, int]],
    max_attempts: int,
    *,
    drained: bool = True,
    key_order: bool = False,
    deliver_at: Mapping[Place, int] | None = None,
) -> QueueVerdict:
    """Judge the history of one queue group on one topic."""
    events = list(history)
    verdict = QueueVerdict()
    places = set(log)
    verdict.records = len(places)
    by_place: dict[Place, list[Event]] = defaultdict(list)
    for event in events:
        by_place[event.part, event.offset].append(event)
    buried = _check_dead(dead, max_attempts, verdict)
    for place, mine in by_place.items():
        if place not in places:
            verdict.add("phantom", str(place))
        _check_record(place, mine, max_attempts, (deliver_at or {}).get(place, 0), verdict)
        if place in buried and any(e.f == "ack" and e.type == "ok" for e in mine):
            verdict.add("acked_and_dead", str(place))
    for place in places - set(buried) if drained else ():
        if not any(e.f == "ack" and e.type in {"ok", "info"} for e in by_place[place]):
            verdict.add("unsettled", str(place))
    if key_order:
        _check_keys(events, by_place, buried, verdict)
    return verdict


def _check_dead(
    dead: Iterable[tuple[Place, int]], max_attempts: int, verdict: QueueVerdict
) -> dict[Place, int]:
    buried: dict[Place, int] = {}
    for place, attempts in dead:
        verdict.dead += 1
        if place in buried:
            verdict.add("dead_twice", str(place))
        if attempts < max_attempts:
            verdict.add("dead_early", f"{place} after {attempts} of {max_attempts}")
        buried[place] = attempts
    return buried


def _check_record(
    place: Place, events: list[Event], max_attempts: int, deliver_at: int, verdict: QueueVerdict
) -> None:
    receives = [e for e in events if e.f == "receive"]
    verdict.received += len(receives)
    verdict.redelivered += max(0, len(receives) - 1)
    due = {e.attempt: e.due for e in events if e.f == "nack" and e.type == "ok"}
    verdict.nacked += len(due)
    verdict.refused += sum(e.f in {"ack", "nack"} and e.type == "fail" for e in events)
    for attempt, count in Counter(e.attempt for e in receives).items():
        if count > 1:
            verdict.add("repeated_attempt", f"{place} attempt {attempt} {count} times")
        if attempt > max_attempts:
            verdict.add("over_attempts", f"{place} attempt {attempt} of {max_attempts}")
    for e in receives:
        earliest = max(due.get(e.attempt - 1) or 0, deliver_at)
        if e.wall < earliest:
            verdict.add("early", f"{place} attempt {e.attempt}: {earliest - e.wall} µs")
        elif e.attempt - 1 in due:
            verdict.late_ms.append((e.wall - earliest) / 1_000)
    _check_acks(place, events, receives, verdict)


def _check_acks(
    place: Place, events: list[Event], receives: list[Event], verdict: QueueVerdict
) -> None:
    done = [e for e in events if e.f == "ack" and e.type == "ok"]
    verdict.acked += bool(done)
    if len({e.attempt for e in done}) > 1:
        verdict.add("acked_twice", f"{place} attempts {sorted({e.attempt for e in done})}")
    invoked = {e.attempt: e.t_ns for e in events if e.f == "ack" and e.type == "invoke"}
    for ack in done:
        for e in receives:
            if e.t_ns > ack.t_ns and e.attempt > ack.attempt:
                verdict.add("resurrection", f"{place} attempt {e.attempt} after ack {ack.attempt}")
            if e.attempt > ack.attempt and e.t_ns < invoked[ack.attempt]:
                verdict.add("zombie_ack", f"{place} ack {ack.attempt} after attempt {e.attempt}")


def _check_keys(
    events: list[Event],
    by_place: Mapping[Place, list[Event]],
    buried: Mapping[Place, int],
    verdict: QueueVerdict,
) -> None:
    first: dict[Place, Event] = {}
    keys: dict[tuple[int, str | None], set[int]] = defaultdict(set)
    for e in events:
        if e.f == "receive":
            first.setdefault((e.part, e.offset), e)
            keys[e.part, e.key].add(e.offset)
    for (part, _), offsets in keys.items():
        ordered = sorted(offsets)
        for before, after in pairwise(ordered):
            if (part, before) in buried:
                continue
            settling = [
                e.t_ns for e in by_place[part, before] if e.f == "ack" and e.type == "invoke"
            ]
            if not settling or min(settling) > first[part, after].t_ns:
                verdict.add("key_overtaken", f"{part}@{after} before {part}@{before}")
