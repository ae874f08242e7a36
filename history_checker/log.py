"""The rules of the log: what was sent, what is stored, and what any reader saw.

Judges lost-write, unseen, duplicate, inconsistent-offsets, offset-reuse, aborted-read, phantom,
gap, nonmonotonic-send, garbage-offset, dedup-miss, dedup-false-drop, dedup-ghost, redrive-lost,
redrive-doubled and erased-read. Batches and snapshots: `batches.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from history_checker.history import Event
from history_checker.indexed import READS, Indexed, Place, Send, Slot, where
from history_checker.verdict import Anomaly, Requirements, Verdict


def check_log(history: Indexed, requirements: Requirements, verdict: Verdict) -> None:
    """Judge it all."""
    verdict.sent = len(history.sends)
    verdict.acknowledged = sum(s.outcome == "ok" for s in history.sends.values())
    verdict.stored = len(history.final)
    _check_values(history, verdict)
    _check_offsets(history, verdict)
    if not requirements.final:
        return
    _check_copies(history, verdict)
    _check_ids(history, requirements, verdict)
    _check_gaps(history, verdict)
    _check_acknowledged(history, verdict)
    _check_send_order(history, verdict)


def _check_values(history: Indexed, verdict: Verdict) -> None:
    """Each value that was read must have been sent, not refused, and not erased before."""
    asked: dict[tuple[str, int], int] = {}
    for e in history.events:
        if e.f == "poll" and e.type == "invoke":
            asked[e.proc, e.poll] = e.t_ns
        if e.f not in READS or e.value is None:
            continue
        send = history.sends.get(e.value)
        if send is None:
            verdict.add(Anomaly.PHANTOM, f"{e.value} at {where(e)}")
        elif send.outcome == "fail":
            verdict.add(Anomaly.ABORTED_READ, f"{e.value} at {where(e)}")
        began = asked.get((e.proc, e.poll), e.t_ns)
        if history.erased.get(e.value, began) < began and _answered(history, e.value):
            verdict.add(Anomaly.ERASED_READ, f"{e.value} at {where(e)}")


def _answered(history: Indexed, value: str) -> bool:
    return any(e.type == "ok" and e.value == value for e in history.of("erase"))


def _check_offsets(history: Indexed, verdict: Verdict) -> None:
    """One place, one value; over whichever readers, nodes, restores and deaths."""
    seen: dict[tuple[str | None, Place], tuple[str, int]] = {}
    breaks = [e.t_ns for e in history.of("restore", "crash")]
    for e in history.events:
        if e.f not in READS or e.value is None:
            continue
        place = (e.topic_id, (e.topic, e.part, e.offset))
        value, at = seen.setdefault(place, (e.value, e.t_ns))
        if value != e.value:
            between = any(at <= b <= e.t_ns for b in breaks)
            name = Anomaly.OFFSET_REUSE if between else Anomaly.INCONSISTENT_OFFSETS
            verdict.add(name, f"{e.topic}/{e.part}@{e.offset}: {value} and {e.value}")


def _check_copies(history: Indexed, verdict: Verdict) -> None:
    again = history.of("redrive")
    sure = Counter(e.value for e in again if e.type == "ok")
    maybe = Counter(e.value for e in again if e.type in {"ok", "info"})
    for value, copies in history.stored.items():
        count = max(Counter((e.topic, e.topic_id) for e in copies).values())
        if count > 1 + maybe[value]:
            name = Anomaly.REDRIVE_DOUBLED if maybe[value] else Anomaly.DUPLICATE
            verdict.add(name, f"{value} at {', '.join(where(e) for e in copies)}")
    for redriven, times in sure.items():
        if len(history.stored.get(redriven or "", ())) < 1 + times:
            verdict.add(Anomaly.REDRIVE_LOST, str(redriven))


def _check_ids(history: Indexed, requirements: Requirements, verdict: Verdict) -> None:
    window_ns = None if requirements.dedup_window_s is None else requirements.dedup_window_s * 1e9
    again = {e.value for e in history.of("redrive")}
    for dedup_id, copies in history.stored_ids.items():
        values = {e.value or "" for e in copies}
        sent = sorted(history.sends[v].invoked_ns for v in values if v in history.sends)
        near = window_ns is None or any(b - a < window_ns for a, b in pairwise(sent))
        if len(values) > 1 and near and not values & again:
            verdict.add(Anomaly.DEDUP_MISS, f"{dedup_id}: {', '.join(where(e) for e in copies)}")


def _check_gaps(history: Indexed, verdict: Verdict) -> None:
    for slot, events in history.slots().items():
        offsets = sorted({e.offset for e in events})
        first = history.first.get(slot, 0)
        expected = list(range(first, first + len(offsets)))
        if offsets != expected:
            verdict.add(
                Anomaly.GAP, f"{slot} has {len(offsets)} from {offsets[0]} to {offsets[-1]}"
            )


def _check_acknowledged(history: Indexed, verdict: Verdict) -> None:
    received = {e.value: e for e in history.of("receive")}
    newest = {
        slot: max(history.sends[e.value].invoked_ns for e in events if e.value in history.sends)
        for slot, events in history.slots().items()
        if any(e.value in history.sends for e in events)
    }
    for send in history.sends.values():
        if send.value in history.erased or send.value in history.noted:
            continue
        if send.outcome != "ok":
            _check_received(history, send, received.get(send.value), verdict)
            continue
        said = send.said
        duplicate = said is not None and said.duplicate
        copies = history.stored.get(send.value) or history.stored_ids.get(send.dedup_id)
        if duplicate and not _sent_before(history, send):
            verdict.add(Anomaly.DEDUP_FALSE_DROP, f"{send.value}, id {send.dedup_id}")
        elif copies:
            _check_said(send, copies, verdict)
        elif duplicate:
            verdict.add(Anomaly.DEDUP_GHOST, f"{send.value}, id {send.dedup_id}")
        elif not _retained(history, received.get(send.value)):
            passed = _is_passed(history, send, newest)
            name = Anomaly.LOST_WRITE if passed else Anomaly.UNSEEN
            verdict.add(name, f"{send.value} of {send.proc}")


def _check_received(history: Indexed, send: Send, received: Event | None, verdict: Verdict) -> None:
    """Whoever has received a record has been told that it is stored."""
    if received is None or send.outcome == "fail" or send.value in history.stored:
        return
    if not _retained(history, received):
        verdict.add(Anomaly.LOST_WRITE, f"{send.value}, received as {where(received)}")


def _sent_before(history: Indexed, send: Send) -> bool:
    """Whether somebody else's send of that id may have come before its answer."""
    ended = send.ended_ns or 0
    return any(
        other.dedup_id == send.dedup_id and other.value != send.value and other.invoked_ns < ended
        for other in history.sends.values()
    ) or bool(history.stored.get(send.value))


def _retained(history: Indexed, received: Event | None) -> bool:
    """Retention has taken it since: it was received, below what is the first offset now."""
    if received is None:
        return False
    return received.offset < history.first.get((received.topic, received.part), 0)


def _is_passed(history: Indexed, send: Send, newest: dict[Slot, int]) -> bool:
    """Whether the log has gone on beyond the place of a send that it does not have."""
    said = send.said
    if said is not None and said.offset >= 0:
        slot = (send.topic, said.part)
        return any(e.offset >= said.offset for e in history.slots().get(slot, ()))
    return any(
        topic == send.topic and send.part in {-1, part} and at > (send.ended_ns or 0)
        for (topic, part), at in newest.items()
    )


def _check_said(send: Send, copies: list[Event], verdict: Verdict) -> None:
    said = send.said
    if said is None or said.offset < 0:
        return
    if all((e.part, e.offset) != (said.part, said.offset) for e in copies):
        verdict.add(
            Anomaly.GARBAGE_OFFSET,
            f"{send.value}: answered {said.part}@{said.offset}, is at {where(copies[0])}",
        )


def _check_send_order(history: Indexed, verdict: Verdict) -> None:
    """The highest offset acknowledged before an invoke must be below the offset of that send."""
    floors: dict[tuple[str, Slot], int] = defaultdict(lambda: -1)
    floor_at: dict[tuple[str, str], int] = {}
    for e in history.of("send"):
        copies = history.stored.get(e.value or "", ())
        if len(copies) != 1 or e.value is None:
            continue
        slot = (copies[0].topic, copies[0].part)
        if e.type == "invoke":
            floor_at[e.proc, e.value] = floors[e.proc, slot]
        elif e.type == "ok" and not e.duplicate:
            offset, floor = copies[0].offset, floor_at.get((e.proc, e.value), -1)
            if offset <= floor:
                verdict.add(
                    Anomaly.NONMONOTONIC_SEND, f"{e.proc}: {e.value}@{offset} after {floor}"
                )
            floors[e.proc, slot] = max(floors[e.proc, slot], offset)
