"""One event of a right history dropped, doubled or exchanged: the verdict turns where it must."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from history_checker import check
from history_checker.history import Event
from tests.support.histories.model_history import TERMS, ModelHistory

seeds = st.integers(0, 10_000)
few = settings(max_examples=15)


def made(seed: int) -> list[Event]:
    return ModelHistory(random.Random(seed)).events


def place(e: Event) -> tuple[object, ...]:
    return (e.f, e.group, e.part, e.offset)


def flips(events: list[Event]) -> bool:
    return not check(events, TERMS).ok


def without(events: list[Event], *gone: int) -> list[Event]:
    return [e for i, e in enumerate(events) if i not in gone]


@few
@given(seeds)
def test_a_right_history_has_no_anomaly(seed: int) -> None:
    events = made(seed)
    verdict = check(events, TERMS)
    assert verdict.ok, str(verdict)


@few
@given(seeds)
def test_dropping_the_only_one_of_its_kind_is_found(seed: int) -> None:
    events = made(seed)
    counts = Counter(map(place, events))
    for i, e in enumerate(events):
        needed = e.f in {"read", "receive", "effect"} and counts[place(e)] == 1
        # An ack without its answer is a maybe; without both the record is not settled.
        settled = e.f == "ack" and e.type == "ok"
        stored = (
            e.f == "send"
            and e.type == "invoke"
            and any(r.f == "read" and r.value == e.value for r in events)
        )
        if needed:
            assert flips(without(events, i)), f"dropping {e}"
        if settled:
            assert flips(without(events, i - 1, i)), f"dropping {e}"
        if stored:
            assert flips(without(events, i, i + 1)), f"dropping {e}"


@few
@given(seeds)
def test_doubling_what_may_be_there_once_is_found(seed: int) -> None:
    events = made(seed)
    for i, e in enumerate(events):
        if e.f in {"read", "receive", "effect", "sink"}:
            assert flips([*events[: i + 1], *events[i:]]), f"doubling {e}"


@few
@given(seeds)
def test_exchanging_two_events_or_their_values_is_found(seed: int) -> None:
    events = made(seed)
    for i, (a, b) in enumerate(pairwise(events)):
        if a.f != b.f or a.part != b.part:
            continue
        rest = (events[:i], events[i + 2 :])
        if a.f in {"read", "receive"} and a.group != "w" and a.value != b.value:
            mixed = [replace(a, value=b.value), replace(b, value=a.value)]
            assert flips([*rest[0], *mixed, *rest[1]]), f"values of {a} and {b}"
        if a.f == "receive" and a.group == "g" and a.lease_epoch == b.lease_epoch:
            turned = [replace(b, t_ns=a.t_ns), replace(a, t_ns=b.t_ns)]
            assert flips([*rest[0], *turned, *rest[1]]), f"{a} and {b}"


@few
@given(seeds)
def test_an_outcome_that_is_turned_round_is_found(seed: int) -> None:
    events = made(seed)
    stored = {e.value for e in events if e.f == "read"}
    for i, e in enumerate(events):
        if e.f == "send" and e.type != "invoke":
            other = "fail" if e.value in stored else "ok"
            turned = replace(e, type=other)  # type: ignore[arg-type]
            assert flips([*events[:i], turned, *events[i + 1 :]]), f"{e} as {other}"
