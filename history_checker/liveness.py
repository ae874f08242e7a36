"""The rules of liveness: after the last fault has ended, everything goes on within a grace.

Judges stuck, orphan-partition, lease-never-expires, lag-unbounded and starved, if the requirements
name a grace. Only drained groups are looked at: of others nobody knows whether they wanted more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from history_checker.history import Event
from history_checker.indexed import Indexed, Send, Slot, where
from history_checker.verdict import Anomaly, Requirements, Verdict

_CALLS = frozenset({"send", "poll", "commit_offset", "ack", "nack", "extend", "snapshot_read"})


@dataclass(frozen=True, slots=True)
class _Wait:
    """One record that was sent after the heal, and when a group first got it."""

    send: Send
    at: Event
    key: str | None
    sent_ns: int
    got_ns: int | None


def check_liveness(history: Indexed, requirements: Requirements, verdict: Verdict) -> None:
    """Judge it all; nothing without a grace."""
    if requirements.grace_s is None or not history.events:
        return
    grace_ns = int(requirements.grace_s * 1e9)
    live = [e for e in history.events if e.f in _CALLS or e.f in {"receive", "heal"}]
    end_ns = max((e.t_ns for e in live), default=0)
    _check_stuck(live, {e.proc for e in history.of("crash")}, end_ns - grace_ns, verdict)
    healed = max((e.t_ns for e in history.of("heal")), default=0)
    for group, asked in requirements.groups.items():
        events = history.groups.get(group, [])
        if asked.mode == "queue":
            _check_leases(events, grace_ns // 1_000, verdict)
        if asked.drained:
            waits = list(_waits(history, events, healed))
            _check_lag(group, waits, events, (healed, end_ns, grace_ns), verdict)
            _check_keys(group, waits, (end_ns, grace_ns), verdict)


def _check_stuck(live: list[Event], dead: set[str], before_ns: int, verdict: Verdict) -> None:
    open_calls: dict[tuple[object, ...], Event] = {}
    for e in live:
        call = (e.proc, e.f, *_about(e))
        if e.type == "invoke":
            open_calls[call] = e
        else:
            open_calls.pop(call, None)
    for e in open_calls.values():
        if e.t_ns < before_ns and e.proc not in dead:
            verdict.add(Anomaly.STUCK, f"{e.f} {e.value or where(e)}")


def _about(e: Event) -> tuple[object, ...]:
    """What a call of one process is told from its others by."""
    match e.f:
        case "poll":
            return (e.poll,)
        case "snapshot_read":
            return (e.topic,)
        case "send":
            return (e.value,)
        case _:
            return (e.topic, e.part, e.offset, e.deliver_count)


def _waits(history: Indexed, events: list[Event], healed: int) -> Iterator[_Wait]:
    got: dict[tuple[str, int, int], int] = {}
    for e in events:
        if e.f == "receive":
            got.setdefault((e.topic, e.part, e.offset), e.t_ns)
    topics = {e.topic for e in events if e.topic}
    keys = {e.value: e.key for e in history.of("send") if e.key is not None}
    for send in history.sends.values():
        copies = history.stored.get(send.value, ())
        sent_ns = send.ended_ns
        late = send.not_before is not None or send.expires_at is not None
        if send.outcome != "ok" or sent_ns is None or late or send.invoked_ns < healed:
            continue
        for at in copies:
            if at.topic in topics:
                place = (at.topic, at.part, at.offset)
                yield _Wait(send, at, at.key or keys.get(send.value), sent_ns, got.get(place))


def _check_lag(
    group: str, waits: list[_Wait], events: list[Event], times: tuple[int, int, int], v: Verdict
) -> None:
    healed, end_ns, grace_ns = times
    served = {(e.topic, e.part) for e in events if e.f == "receive" and e.t_ns > healed}
    orphans: set[Slot] = set()
    for wait in waits:
        slot = (wait.at.topic, wait.at.part)
        waited_ns = (wait.got_ns or end_ns) - wait.sent_ns
        if waited_ns <= grace_ns:
            continue
        if slot in served:
            v.add(Anomaly.LAG_UNBOUNDED, f"{group}: {where(wait.at)} after {waited_ns / 1e9:.1f} s")
        elif slot not in orphans:
            orphans.add(slot)
            v.add(Anomaly.ORPHAN_PARTITION, f"{group}: {slot}")


def _check_keys(group: str, waits: list[_Wait], times: tuple[int, int], verdict: Verdict) -> None:
    end_ns, grace_ns = times
    by_slot: dict[Slot, list[_Wait]] = defaultdict(list)
    for wait in waits:
        by_slot[wait.at.topic, wait.at.part].append(wait)
    for mine in by_slot.values():
        late = [w for w in mine if (w.got_ns or end_ns) - w.sent_ns > grace_ns]
        for wait in late:
            until = (wait.got_ns or end_ns) - grace_ns
            if any(
                o.key != wait.key
                and o.send.invoked_ns > wait.sent_ns
                and o.got_ns is not None
                and o.got_ns < until
                for o in mine
            ):
                verdict.add(Anomaly.STARVED, f"{group}: key {wait.key} at {where(wait.at)}")


def _check_leases(events: list[Event], grace_us: int, verdict: Verdict) -> None:
    end = max((e.wall for e in events), default=0)
    newest: dict[tuple[str, int, int], Event] = {}
    settled: set[tuple[str, int, int]] = set()
    for e in events:
        place = (e.topic, e.part, e.offset)
        if e.f == "receive":
            newest[place] = e
        elif e.f in {"ack", "nack", "dead", "expired"}:
            # An invoke that nothing follows may have been taken.
            (settled.discard if e.type == "fail" else settled.add)(place)
        elif e.f == "extend" and e.type != "fail":
            newest.pop(place, None)
    for place, e in newest.items():
        over = e.expires_at is not None and e.expires_at + grace_us < end
        if over and place not in settled:
            verdict.add(Anomaly.LEASE_NEVER_EXPIRES, where(e))
