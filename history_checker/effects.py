"""The rules of effects: what a group has consumed, and what its result table has of it.

Judges effect-lost, effect-doubled, sink-gap, sink-overlap and sink-disagrees. The count of effects
of each record must be 1 in exactly-once mode, at least 1 in at-least-once, at most 1 in
at-most-once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

from history_checker.history import Event
from history_checker.indexed import Indexed, Place, Slot
from history_checker.verdict import Anomaly, GroupRequirements, Requirements, Verdict


def check_effects(history: Indexed, requirements: Requirements, verdict: Verdict) -> None:
    """Judge every group that has effects in its history, or is asked for them."""
    for group, events in history.groups.items():
        asked = requirements.of(group)
        sinks = _sinks(events)
        effects = Counter((e.topic, e.part, e.offset) for e in events if e.f == "effect")
        if effects or sinks:
            _check_counts(history, group, asked, sinks, effects, verdict)
            _check_sinks(history, group, events, sinks, effects, verdict)


def _sinks(events: list[Event]) -> dict[Slot, list[Event]]:
    found: dict[Slot, list[Event]] = defaultdict(list)
    for e in sorted((e for e in events if e.f == "sink"), key=lambda e: e.delta_version):
        found[e.topic, e.part].append(e)
    return found


def _check_counts(
    history: Indexed,
    group: str,
    asked: GroupRequirements,
    sinks: dict[Slot, list[Event]],
    effects: Counter[Place],
    verdict: Verdict,
) -> None:
    topics = set(asked.topics) or {topic for topic, _, _ in effects}
    if asked.delivery != "at_least_once":
        for place, count in effects.items():
            if count > 1:
                verdict.add(Anomaly.EFFECT_DOUBLED, f"{group}: {place} {count} times")
    if asked.delivery == "at_most_once":
        return
    for e in history.final:
        taken = sinks.get((e.topic, e.part), [])
        consumed = asked.drained or (bool(taken) and e.offset < taken[-1].until)
        place = (e.topic, e.part, e.offset)
        if e.topic in topics and consumed and e.value is not None and not effects[place]:
            verdict.add(Anomaly.EFFECT_LOST, f"{group}: {place}")


def _check_sinks(
    history: Indexed,
    group: str,
    events: list[Event],
    sinks: dict[Slot, list[Event]],
    effects: Counter[Place],
    verdict: Verdict,
) -> None:
    positions = {(e.topic, e.part): e.offset for e in events if e.f == "position"}
    for slot, commits in sinks.items():
        for before, after in pairwise(commits):
            if after.offset > before.until:
                verdict.add(Anomaly.SINK_GAP, f"{group} {slot}: {before.until} to {after.offset}")
            elif after.offset < before.until:
                verdict.add(
                    Anomaly.SINK_OVERLAP, f"{group} {slot}: {after.offset} of {before.until}"
                )
        end = commits[-1].until
        highest = max((o for t, p, o in effects if (t, p) == slot), default=-1)
        # A position below the end is a group that died before it was told.
        if highest + 1 != end or positions.get(slot, 0) > end:
            verdict.add(
                Anomaly.SINK_DISAGREES,
                f"{group} {slot}: committed to {end}, effects to {highest},"
                f" position {positions.get(slot)}",
            )
