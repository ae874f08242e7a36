"""The rules of queue groups: leases on single records, attempts, and how each record ends.

Judges double-lease, early-redelivery, resurrection, ack-lost, stale-receipt, acked-twice,
ack-widening, repeated-attempt, falling-attempt, over-attempts, acked-and-dead, dead-twice,
dead-early, unsettled, key-overtaken, early-delivery, delivered-expired and expired-unrecorded.

A lease lives from its receive to the first of: its end (also as extended), a nack or ack of it
that was invoked, and its worker's leaving or being gone. Deadlines are of the wall clock: those of
a time in which a node's clock was off (`clock`) are not judged.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise

from history_checker.history import Event
from history_checker.indexed import SETTLES, Indexed, Place, where
from history_checker.verdict import Anomaly, GroupRequirements, Requirements, Verdict

Records = Mapping[Place, list[Event]]


def check_queues(history: Indexed, requirements: Requirements, verdict: Verdict) -> None:
    """Judge every queue group."""
    for group, asked in requirements.groups.items():
        if asked.mode == "queue":
            _Group(history, requirements, asked, verdict, history.groups.get(group, [])).judge()


def _windows(history: Indexed) -> list[tuple[int, int]]:
    """From when to when a node's clock was off."""
    begun: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    for e in history.of("clock"):
        if e.type == "invoke":
            begun[e.proc] = e.t_ns
        else:
            found.append((begun.pop(e.proc, 0), e.t_ns))
    return found + [(at, history.events[-1].t_ns) for at in begun.values()]


class _Group:
    def __init__(
        self,
        history: Indexed,
        requirements: Requirements,
        asked: GroupRequirements,
        verdict: Verdict,
        events: list[Event],
    ) -> None:
        self._history, self._asked, self._verdict = history, asked, verdict
        self._eps = requirements.clock_eps_us
        self._events = events
        self._records: dict[Place, list[Event]] = defaultdict(list)
        self._gone: dict[str, list[int]] = defaultdict(list)
        self._polled: dict[tuple[str, int], int] = {}
        for e in events:
            if e.offset >= 0:
                self._records[e.topic, e.part, e.offset].append(e)
            elif e.f == "leave":
                self._gone[e.proc].append(e.t_ns)
            elif e.f == "poll" and e.type == "invoke":
                self._polled[e.proc, e.poll] = e.t_ns
        self._crashes = [e.t_ns for e in history.of("crash")]
        for e in history.of("crash"):
            self._gone[e.proc].append(e.t_ns)
        self._off = _windows(history)
        self._dead = {p for p, es in self._records.items() if any(e.f == "dead" for e in es)}

    def judge(self) -> None:
        for place, events in self._records.items():
            receives = [e for e in events if e.f == "receive"]
            self._verdict.received += len(receives)
            self._verdict.redelivered += max(0, len(receives) - 1)
            self._judge_attempts(place, receives)
            self._judge_leases(events, receives)
            self._judge_times(events, receives)
            self._judge_acks(place, events, receives)
            self._judge_dead(place, events)
        if self._asked.drained:
            self._judge_ends()
        if self._asked.key_order:
            self._judge_keys()

    def _judge_attempts(self, place: Place, receives: list[Event]) -> None:
        for attempt, count in Counter(e.deliver_count for e in receives).items():
            if count > 1:
                self._verdict.add(Anomaly.REPEATED_ATTEMPT, f"{place}, {attempt} {count} times")
        # Those that nobody got do not count, whatever number they have used up.
        most, got = self._asked.max_attempts, {e.deliver_count for e in receives}
        if most and len(got) > most:
            self._verdict.add(Anomaly.OVER_ATTEMPTS, f"{place}, {sorted(got)} of {most}")
        for e in receives:
            asked = self._polled.get((e.proc, e.poll), e.t_ns)
            higher = [o for o in receives if o.t_ns < asked and o.deliver_count > e.deliver_count]
            if higher:
                self._verdict.add(
                    Anomaly.FALLING_ATTEMPT,
                    f"{where(e)}: {e.deliver_count} after {higher[0].deliver_count}",
                )

    def _judge_leases(self, events: list[Event], receives: list[Event]) -> None:
        by_attempt = sorted(receives, key=lambda e: e.deliver_count)
        for before, after in pairwise(by_attempt):
            if before.deliver_count == after.deliver_count or before.t_ns >= after.t_ns:
                continue
            if before.expires_at is None or self._is_over(before, after, events):
                continue
            if self._clock_was_off(before, after):
                continue
            other = before.proc != after.proc
            name = Anomaly.DOUBLE_LEASE if other else Anomaly.EARLY_REDELIVERY
            self._verdict.add(name, f"{where(after)}, held by {before.proc}")

    def _is_over(self, lease: Event, after: Event, events: list[Event]) -> bool:
        ends = [lease.expires_at or 0]
        for e in events:
            if e.deliver_count != lease.deliver_count or e.t_ns >= after.t_ns:
                continue
            if e.f in {"ack", "nack"} and e.type == "invoke":
                return True
            if e.f == "extend" and e.type == "ok" and e.expires_at is not None:
                ends.append(e.expires_at)
        # An extension may shorten, to the moment of its own: the newest counts.
        return ends[-1] <= after.wall + self._eps or any(
            lease.t_ns <= at <= after.t_ns for at in self._gone[lease.proc]
        )

    def _clock_was_off(self, *events: Event) -> bool:
        return any(begin <= e.t_ns <= end for e in events for begin, end in self._off)

    def _judge_times(self, events: list[Event], receives: list[Event]) -> None:
        due = {e.deliver_count: e.not_before for e in events if e.f == "nack" and e.type == "ok"}
        self._verdict.nacked += len(due)
        for e in receives:
            send = self._history.sends.get(e.value or "")
            at_all = (send.not_before if send is not None else None) or 0
            again = due.get(e.deliver_count - 1) or 0
            earliest = max(at_all, again)
            if self._clock_was_off(e):
                continue
            if e.wall + self._eps < earliest:
                self._verdict.add(Anomaly.EARLY_DELIVERY, f"{where(e)}: {earliest - e.wall} µs")
            elif again:
                self._verdict.late_ms.append((e.wall - earliest) / 1_000)
            expires = send.expires_at if send is not None else None
            if expires is not None and e.wall > expires + self._eps:
                self._verdict.add(Anomaly.DELIVERED_EXPIRED, f"{where(e)}: {e.wall - expires} µs")

    def _judge_acks(self, place: Place, events: list[Event], receives: list[Event]) -> None:
        settled = [e for e in events if e.f in SETTLES]
        self._verdict.refused += sum(e.type == "fail" for e in settled)
        invoked = {(e.f, e.proc, e.deliver_count): e for e in settled if e.type == "invoke"}
        done = [e for e in settled if e.type == "ok"]
        acks = [e for e in done if e.f == "ack"]
        self._verdict.acked += bool(acks)
        attempts = {e.deliver_count for e in acks}
        if len(attempts) > 1:
            self._verdict.add(Anomaly.ACKED_TWICE, f"{place}, attempts {sorted(attempts)}")
        for e in done:
            began = invoked.get((e.f, e.proc, e.deliver_count), e)
            self._judge_receipt(e, began, receives, events)
        for ack in acks:
            for e in receives:
                asked = self._polled.get((e.proc, e.poll), e.t_ns)
                late = asked > ack.t_ns or e.deliver_count > ack.deliver_count
                if e.t_ns > ack.t_ns and late:
                    crashed = any(ack.t_ns <= at <= e.t_ns for at in self._crashes)
                    name = Anomaly.ACK_LOST if crashed else Anomaly.RESURRECTION
                    self._verdict.add(name, f"{where(e)}: {e.deliver_count} after its ack")

    def _judge_receipt(
        self, e: Event, began: Event, receives: list[Event], events: list[Event]
    ) -> None:
        newer = [o for o in receives if o.deliver_count > e.deliver_count and o.t_ns < began.t_ns]
        leases = [o for o in receives if o.deliver_count == e.deliver_count]
        ends = [o.expires_at for o in leases if o.expires_at is not None] + [
            o.expires_at
            for o in events
            if o.f == "extend"
            and o.type == "ok"
            and o.deliver_count == e.deliver_count
            and o.expires_at is not None
            and o.t_ns <= began.t_ns
        ]
        over = bool(ends) and began.wall > 0 and began.wall > ends[-1] + self._eps
        over = over and not self._clock_was_off(began, *leases)
        if newer or over:
            why = f"after attempt {newer[0].deliver_count}" if newer else "after its end"
            self._verdict.add(Anomaly.STALE_RECEIPT, f"{e.f} {where(e)}, {e.deliver_count} {why}")

    def _judge_dead(self, place: Place, events: list[Event]) -> None:
        dead = [e for e in events if e.f == "dead"]
        self._verdict.dead += len(dead)
        if not dead:
            return
        if len(dead) > 1:
            self._verdict.add(Anomaly.DEAD_TWICE, f"{place}, {len(dead)} times")
        most = self._asked.max_attempts
        if any(e.deliver_count < most for e in dead):
            self._verdict.add(Anomaly.DEAD_EARLY, f"{place}, {dead[0].deliver_count} of {most}")
        if any(e.f == "ack" and e.type == "ok" for e in events):
            self._verdict.add(Anomaly.ACKED_AND_DEAD, str(place))

    def _judge_ends(self) -> None:
        topics = set(self._asked.topics) or {e.topic for e in self._events if e.topic}
        for e in self._history.final:
            place = (e.topic, e.part, e.offset)
            if e.topic not in topics or place in self._dead or e.value in self._history.erased:
                continue
            events = self._records.get(place, [])
            send = self._history.sends.get(e.value or "")
            received = any(o.f == "receive" for o in events)
            if any(o.f == "ack" and o.type in {"ok", "info"} for o in events):
                continue
            if send is not None and send.expires_at is not None:
                if not any(o.f == "expired" for o in events):
                    self._verdict.add(Anomaly.EXPIRED_UNRECORDED, str(place))
            elif received and not self._asks_again(events):
                widened = self._took_along(place, events)
                name = Anomaly.ACK_WIDENING if widened else Anomaly.UNSETTLED
                self._verdict.add(name, f"{place}, {widened or 'not acked'}")

    @staticmethod
    def _asks_again(events: list[Event]) -> bool:
        """Whether an ack was invoked that nothing followed: a maybe as well."""
        ended = {(e.proc, e.deliver_count) for e in events if e.f == "ack" and e.type != "invoke"}
        begun = {(e.proc, e.deliver_count) for e in events if e.f == "ack" and e.type == "invoke"}
        return bool(begun - ended)

    def _took_along(self, place: Place, events: list[Event]) -> str:
        """An ack of another record by a worker that had this one; "" if there is none."""
        had = {e.proc: e.t_ns for e in events if e.f == "receive"}
        for e in self._events:
            other = (e.topic, e.part, e.offset) != place and (e.topic, e.part) == place[:2]
            if e.f == "ack" and e.type == "ok" and other and had.get(e.proc, e.t_ns) < e.t_ns:
                return f"{e.proc} acked {e.offset}"
        return ""

    def _judge_keys(self) -> None:
        first: dict[Place, Event] = {}
        keys: dict[tuple[str, int, str | None], set[int]] = defaultdict(set)
        for e in self._events:
            if e.f == "receive":
                first.setdefault((e.topic, e.part, e.offset), e)
                keys[e.topic, e.part, e.key].add(e.offset)
        for (topic, part, key), offsets in keys.items():
            for before, after in pairwise(sorted(offsets)):
                place = (topic, part, before)
                settling = [
                    e.t_ns for e in self._records[place] if e.f == "ack" and e.type == "invoke"
                ]
                late = not settling or min(settling) > first[topic, part, after].t_ns
                if late and place not in self._dead:
                    self._verdict.add(
                        Anomaly.KEY_OVERTAKEN, f"{key}: {part}@{after} before {part}@{before}"
                    )
