"""Judges a history of stream groups. This docstring is its specification.

Given: all events of all processes (`history.py`), ended by `read` events that cover every record
of every partition from offset 0, made by a fresh reader after the load has stopped.

A send is *acknowledged* when it ended `ok`, *refused* when it ended `fail` (answered `stored: no`),
and *maybe* when it ended `info` or not at all.

Always a fault:
  lost               an acknowledged value that the final read does not have
  duplicate          a value that the final read has at more than one offset
  phantom            a value that was read or received, and that nobody sent
  aborted_read       a value whose send was refused, and that was read or received
  inconsistent       one (topic, partition, offset) with two values, over all readers
  gap                offsets of the final read of a partition are not 0, 1, 2, …
  misordered_send    of one process and partition: of two acknowledged sends, the second invoked
                     after the first was acknowledged, the later one has the lower offset
  undelivered        in the final read, and never received by a group that was drained
  poll_skip          within one (process, partition, epoch): received offsets do not go up by one
  ahead_of_commit    the first receive of a new epoch is beyond the highest position that was or
                     may have been committed (records between would be skipped)
  resurrection       received under a higher epoch than an ack that covers it and was answered `ok`
                     (in whatever order the answers arrived: the later epoch must have known)
  zombie_commit      an ack under epoch e answered `ok`, invoked after a receive under a higher
                     epoch of the same group and partition

Redeliveries that are allowed (unacked records after a take-over) are counted, not judged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.support.history import Event

Slot = tuple[str, int]
"""(topic, partition)."""


@dataclass(slots=True)
class Verdict:
    """What was found: anomalies by name with examples, and the counts that were judged."""

    anomalies: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    sent: int = 0
    acknowledged: int = 0
    stored: int = 0
    received: int = 0
    redelivered: int = 0

    def add(self, anomaly: str, example: str) -> None:
        """Note one instance of `anomaly`."""
        self.anomalies[anomaly].append(example)

    @property
    def ok(self) -> bool:
        """No anomaly was found."""
        return not self.anomalies

    def __str__(self) -> str:
        counts = (
            f"sent={self.sent} acknowledged={self.acknowledged} stored={self.stored} "
            f"received={self.received} redelivered={self.redelivered}"
        )
        found = "".join(
            f"\n  {name}: {len(examples)}, e.g. {'; '.join(examples[:3])}"
            for name, examples in sorted(self.anomalies.items())
        )
        return counts + (found or "\n  no anomaly")


def check(history: Iterable[Event], *, drained_groups: Iterable[str] = ()) -> Verdict:
    """Judge `history`; groups in `drained_groups` have to have received everything."""
    events = list(history)
    verdict = Verdict()
    final = [e for e in events if e.f == "read"]
    _check_log(events, final, verdict)
    _check_sends(events, final, verdict)
    for group in {e.group for e in events if e.group is not None}:
        _check_group([e for e in events if e.group == group], verdict)
    seen = {g: set[tuple[str, int, int]]() for g in drained_groups}
    for e in events:
        if e.f == "receive" and e.group in seen:
            seen[e.group].add((e.topic, e.part, e.offset))
    for group, slots in seen.items():
        for e in final:
            if (e.topic, e.part, e.offset) not in slots:
                verdict.add("undelivered", f"{group} never got {e.topic}/{e.part}@{e.offset}")
    return verdict


def _check_log(events: list[Event], final: list[Event], verdict: Verdict) -> None:
    values: dict[tuple[str, int, int], str | None] = {}
    for e in events:
        if e.f in {"read", "receive"}:
            first = values.setdefault((e.topic, e.part, e.offset), e.value)
            if first != e.value:
                verdict.add("inconsistent", f"{e.topic}/{e.part}@{e.offset}: {first} and {e.value}")
    by_slot: dict[Slot, list[int]] = defaultdict(list)
    for e in final:
        by_slot[e.topic, e.part].append(e.offset)
    for slot, offsets in by_slot.items():
        if sorted(offsets) != list(range(len(offsets))):
            verdict.add("gap", f"{slot} has {len(offsets)} offsets up to {max(offsets)}")
    for value, copies in Counter(e.value for e in final).items():
        if copies > 1:
            verdict.add("duplicate", f"{value} at {copies} offsets")
    verdict.stored = len(final)


def _check_sends(events: list[Event], final: list[Event], verdict: Verdict) -> None:
    outcome: dict[str | None, str] = {}
    for e in events:
        if e.f == "send":
            outcome[e.value] = e.type
    stored = {e.value: e for e in final}
    verdict.sent = len(outcome)
    verdict.acknowledged = sum(1 for o in outcome.values() if o == "ok")
    for value, end in outcome.items():
        if end == "ok" and value not in stored:
            verdict.add("lost", str(value))
    for e in events:
        if e.f in {"read", "receive"}:
            if e.value not in outcome:
                verdict.add("phantom", f"{e.value} at {e.topic}/{e.part}@{e.offset}")
            elif outcome[e.value] == "fail":
                verdict.add("aborted_read", f"{e.value} at {e.topic}/{e.part}@{e.offset}")
    _check_send_order(events, stored, verdict)


def _check_send_order(
    events: list[Event], stored: dict[str | None, Event], verdict: Verdict
) -> None:
    # Per process and partition: the highest offset of all sends acknowledged before this invoke
    # must be below this send's own offset.
    highest: dict[tuple[str, Slot], int] = {}
    floor_at_invoke: dict[str | None, dict[Slot, int]] = {}
    floors: dict[str, dict[Slot, int]] = defaultdict(dict)
    for e in events:
        if e.f != "send" or e.value not in stored:
            continue
        at = stored[e.value]
        slot = (at.topic, at.part)
        if e.type == "invoke":
            floor_at_invoke[e.value] = {slot: floors[e.proc].get(slot, -1)}
        elif e.type == "ok":
            floor = floor_at_invoke.get(e.value, {}).get(slot, -1)
            if at.offset <= floor:
                verdict.add("misordered_send", f"{e.proc}: {e.value}@{at.offset} after {floor}")
            top = max(highest.get((e.proc, slot), -1), at.offset)
            highest[e.proc, slot] = floors[e.proc][slot] = top


def _check_group(events: list[Event], verdict: Verdict) -> None:
    _check_deliveries(events, verdict)
    committed = _check_acks(events, verdict)
    for e in events:
        if e.f == "receive":
            upto = committed[e.topic, e.part]
            position = max((o for epoch, o in upto.items() if epoch < e.epoch), default=0)
            if e.offset < position:
                verdict.add("resurrection", f"{_where(e)}@{e.offset}, acked to {position}")


def _check_deliveries(events: list[Event], verdict: Verdict) -> None:
    last: dict[tuple[str, Slot, int], int] = {}
    may_be_committed: dict[Slot, int] = defaultdict(int)
    seen: set[tuple[str, int, int]] = set()
    for e in events:
        slot = (e.topic, e.part)
        if e.f == "ack" and e.type == "invoke":
            may_be_committed[slot] = max(may_be_committed[slot], e.offset)
        elif e.f == "receive":
            verdict.received += 1
            verdict.redelivered += (e.topic, e.part, e.offset) in seen
            seen.add((e.topic, e.part, e.offset))
            mark = (e.proc, slot, e.epoch)
            if mark in last and e.offset != last[mark] + 1:
                verdict.add("poll_skip", f"{_where(e)}: {e.offset} after {last[mark]}")
            elif mark not in last and e.offset > may_be_committed[slot]:
                verdict.add(
                    "ahead_of_commit",
                    f"{_where(e)}: began at {e.offset}, committed {may_be_committed[slot]}",
                )
            last[mark] = e.offset


def _check_acks(events: list[Event], verdict: Verdict) -> dict[Slot, dict[int, int]]:
    """Judge superseded acks; the position acked with `ok`, per partition and epoch."""
    highest_epoch: dict[Slot, int] = defaultdict(lambda: -1)
    committed: dict[Slot, dict[int, int]] = defaultdict(dict)
    superseded: set[tuple[str, Slot, int, int]] = set()
    for e in events:
        slot = (e.topic, e.part)
        attempt = (e.proc, slot, e.epoch, e.offset)
        if e.f == "receive":
            highest_epoch[slot] = max(highest_epoch[slot], e.epoch)
        elif e.f == "ack" and e.type == "invoke" and e.epoch < highest_epoch[slot]:
            superseded.add(attempt)
        elif e.f == "ack" and e.type == "ok":
            upto = committed[slot]
            upto[e.epoch] = max(upto.get(e.epoch, 0), e.offset)
            if attempt in superseded:
                verdict.add("zombie_commit", f"{_where(e)}: {e.offset}")
    return committed


def _where(e: Event) -> str:
    return f"{e.group} {e.proc} {e.topic}/{e.part} epoch {e.epoch}"
