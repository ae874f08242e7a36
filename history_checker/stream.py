"""The rules of stream groups: polls under a lease, positions over leases, and who gets what.

Judges int-poll-skip, int-nonmonotonic-poll, poll-skip, nonmonotonic-poll, ahead-of-commit,
ack-lost, zombie-commit, two-owners, delivered-twice; of every kind of group undelivered,
group-dependence and removed-unconsumed.

What a new lease delivers again, down to the committed position, is counted and not judged.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from history_checker.history import Event
from history_checker.indexed import Indexed, Place, Slot, where
from history_checker.verdict import Anomaly, GroupRequirements, Requirements, Verdict


def check_streams(history: Indexed, requirements: Requirements, verdict: Verdict) -> None:
    """Judge every group that is not a queue group."""
    for group, events in history.groups.items():
        asked = requirements.of(group)
        if asked.mode == "stream":
            _check_polls(history, events, verdict)
            _check_positions(history, events, asked, verdict)
            _check_commits(events, verdict)
            _check_owners(events, verdict)
            if asked.delivery == "at_most_once":
                _check_once(events, verdict)


def _check_once(events: list[Event], verdict: Verdict) -> None:
    counts = Counter((e.topic, e.part, e.offset) for e in events if e.f == "receive")
    for place, count in counts.items():
        if count > 1:
            verdict.add(Anomaly.DELIVERED_TWICE, f"{events[0].group} {place}, {count} times")


def _check_polls(history: Indexed, events: list[Event], verdict: Verdict) -> None:
    """Under one lease offsets go up by one, within an answer and from one to the next."""
    hidden: set[Place] = {(e.topic, e.part, e.offset) for e in history.final if e.value is None}
    last: dict[tuple[str, Slot, int], Event] = {}
    seen: set[Place] = set()
    for e in events:
        if e.f != "receive":
            continue
        place = (e.topic, e.part, e.offset)
        verdict.received += 1
        verdict.redelivered += place in seen
        seen.add(place)
        mark = (e.proc, (e.topic, e.part), e.lease_epoch)
        before = last.get(mark)
        last[mark] = e
        if before is None:
            continue
        inside = e.poll >= 0 and e.poll == before.poll
        if e.offset <= before.offset:
            name = Anomaly.INT_NONMONOTONIC_POLL if inside else Anomaly.NONMONOTONIC_POLL
            verdict.add(name, f"{where(e)} after {before.offset}")
        elif not _excused(history, hidden, before, e.offset):
            name = Anomaly.INT_POLL_SKIP if inside else Anomaly.POLL_SKIP
            verdict.add(name, f"{where(e)} after {before.offset}")


def _excused(history: Indexed, hidden: set[Place], before: Event, offset: int) -> bool:
    """Whether all between two offsets is erased, or was removed by retention."""
    first = history.first.get((before.topic, before.part), 0)
    return all(
        between < first or (before.topic, before.part, between) in hidden
        for between in range(before.offset + 1, offset)
    )


def _check_positions(
    history: Indexed, events: list[Event], asked: GroupRequirements, verdict: Verdict
) -> None:
    """Where each lease begins: not beyond what may be committed, nor below what surely is."""
    may_be: dict[Slot, int] = defaultdict(int)
    leases: set[tuple[str, Slot, int]] = set()
    surely: dict[Slot, dict[int, int]] = defaultdict(dict)
    sought = {(e.topic, e.part) for e in events if e.f == "seek"}
    for e in events:
        slot = (e.topic, e.part)
        if e.f in {"commit_offset", "seek"} and e.type == "invoke":
            may_be[slot] = max(may_be[slot], e.offset)
        elif e.f == "commit_offset" and e.type == "ok":
            upto = surely[slot]
            upto[e.lease_epoch] = max(upto.get(e.lease_epoch, 0), e.offset)
        elif e.f == "receive" and (e.proc, slot, e.lease_epoch) not in leases:
            leases.add((e.proc, slot, e.lease_epoch))
            most = max(may_be[slot], history.first.get(slot, 0))
            if e.offset > most and asked.delivery != "at_most_once":
                verdict.add(Anomaly.AHEAD_OF_COMMIT, f"{where(e)}, committed {most}")
    # In whatever order the answers arrived: the later lease must have known.
    for e in events:
        slot = (e.topic, e.part)
        if e.f == "receive" and slot not in sought:
            upto = surely[slot]
            position = max((o for epoch, o in upto.items() if epoch < e.lease_epoch), default=0)
            if e.offset < position:
                verdict.add(Anomaly.ACK_LOST, f"{where(e)}, acked to {position}")


def _check_commits(events: list[Event], verdict: Verdict) -> None:
    """No position is committed under a lease of which a later one has delivered."""
    highest: dict[Slot, int] = defaultdict(lambda: -1)
    superseded: set[tuple[str, Slot, int, int]] = set()
    for e in events:
        slot = (e.topic, e.part)
        attempt = (e.proc, slot, e.lease_epoch, e.offset)
        if e.f == "receive":
            highest[slot] = max(highest[slot], e.lease_epoch)
        elif e.f == "commit_offset" and e.type == "invoke" and e.lease_epoch < highest[slot]:
            superseded.add(attempt)
        elif e.f == "commit_offset" and e.type == "ok" and attempt in superseded:
            verdict.add(Anomaly.ZOMBIE_COMMIT, f"{where(e)} under {e.lease_epoch}")


def _check_owners(events: list[Event], verdict: Verdict) -> None:
    owners: dict[tuple[Slot, int], str] = {}
    for e in events:
        if e.f == "receive":
            owner = owners.setdefault(((e.topic, e.part), e.lease_epoch), e.proc)
            if owner != e.proc:
                verdict.add(Anomaly.TWO_OWNERS, f"{where(e)} and {owner}, epoch {e.lease_epoch}")


def check_coverage(history: Indexed, requirements: Requirements, verdict: Verdict) -> None:
    """A drained group has got everything, of whatever kind it is."""
    acked = {group: _acked(events) for group, events in history.groups.items()}
    for group, asked in requirements.groups.items():
        if not asked.drained or asked.delivery == "at_most_once":
            continue
        events = history.groups.get(group, [])
        topics = set(asked.topics) or {e.topic for e in events if e.topic}
        got = {(e.topic, e.part, e.offset) for e in events if e.f in {"receive", "dead", "expired"}}
        others = set().union(*(mine for other, mine in acked.items() if other != group))
        for slot, first in history.first.items():
            for offset in range(first) if slot[0] in topics else ():
                if (*slot, offset) not in got:
                    verdict.add(Anomaly.REMOVED_UNCONSUMED, f"{group}: {slot}@{offset}")
        for e in history.final:
            place = (e.topic, e.part, e.offset)
            if e.topic not in topics or place in got or not _wanted(history, asked, e):
                continue
            verdict.add(Anomaly.UNDELIVERED, f"{group} never got {where(e)}")
            if place in others:
                verdict.add(Anomaly.GROUP_DEPENDENCE, f"{group} never got {where(e)}")


def _wanted(history: Indexed, asked: GroupRequirements, e: Event) -> bool:
    if e.value is None or e.value in history.erased:
        return False
    send = history.sends.get(e.value)
    expires = asked.mode == "queue" and send is not None and send.expires_at is not None
    return not expires  # judged by the rules of queue groups


def _acked(events: list[Event]) -> set[Place]:
    """What a group has acknowledged for sure."""
    found = {(e.topic, e.part, e.offset) for e in events if e.f == "ack" and e.type == "ok"}
    upto: dict[Slot, int] = {}
    for e in events:
        if e.f == "commit_offset" and e.type == "ok":
            upto[e.topic, e.part] = max(upto.get((e.topic, e.part), 0), e.offset)
    return found | {(*slot, offset) for slot, end in upto.items() for offset in range(end)}
