"""The checker is only worth what it catches: bad histories flip the verdict, near misses do not."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.checker import check
from tests.support.history import Event


def good_history() -> list[Event]:
    """One producer, two partitions, one group; a take-over at offset 2 of partition 0."""
    events: list[Event] = []

    def add(f: str, kind: str, proc: str, **fields: object) -> None:
        events.append(Event(f, kind, t_ns=len(events), proc=proc, topic="t", **fields))  # type: ignore[arg-type]

    for n in range(6):
        add("send", "invoke", "p", value=f"v{n}", part=n % 2)
        add("send", "ok", "p", value=f"v{n}", part=n % 2)
    for n in (0, 2):
        add("receive", "ok", "a", part=0, offset=n // 2, value=f"v{n}", group="g", epoch=1)
    add("ack", "invoke", "a", part=0, offset=1, group="g", epoch=1)
    add("ack", "ok", "a", part=0, offset=1, group="g", epoch=1)
    for n in (2, 4):
        add("receive", "ok", "b", part=0, offset=n // 2, value=f"v{n}", group="g", epoch=2)
    add("ack", "invoke", "b", part=0, offset=3, group="g", epoch=2)
    add("ack", "ok", "b", part=0, offset=3, group="g", epoch=2)
    for n in (1, 3, 5):
        add("receive", "ok", "b", part=1, offset=n // 2, value=f"v{n}", group="g", epoch=1)
    for n in range(6):
        add("read", "ok", "final", part=n % 2, offset=n // 2, value=f"v{n}")
    return events


def judged(events: list[Event]) -> set[str]:
    return set(check(events, drained_groups=["g"]).anomalies)


def find(events: list[Event], **want: object) -> int:
    for i, e in enumerate(events):
        if all(getattr(e, k) == v for k, v in want.items()):
            return i
    raise AssertionError(f"no event with {want}")


def without(events: list[Event], **want: object) -> list[Event]:
    i = find(events, **want)
    return events[:i] + events[i + 1 :]


def changed(events: list[Event], want: dict[str, object], **to: object) -> list[Event]:
    i = find(events, **want)
    return [*events[:i], replace(events[i], **to), *events[i + 1 :]]  # type: ignore[arg-type]


def added(events: list[Event], after: dict[str, object], event: Event) -> list[Event]:
    i = find(events, **after)
    return [*events[: i + 1], event, *events[i + 1 :]]


LAST_SEND: dict[str, object] = {"f": "send", "type": "ok", "value": "v5"}
BAD: dict[str, list[Callable[[list[Event]], list[Event]]]] = {
    "lost": [
        lambda h: without(h, f="read", value="v5"),
        lambda h: added(h, LAST_SEND, Event("send", "ok", proc="p", value="v9", part=0)),
    ],
    "duplicate": [
        lambda h: [*h, Event("read", "ok", topic="t", part=0, offset=3, value="v4")],
        lambda h: [*h, Event("read", "ok", topic="t", part=1, offset=3, value="v4")],
    ],
    "phantom": [
        lambda h: [*h, Event("read", "ok", topic="t", part=0, offset=3, value="nobody")],
        lambda h: changed(h, {"f": "receive", "value": "v5"}, value="nobody"),
    ],
    "aborted_read": [
        lambda h: changed(h, {"f": "send", "type": "ok", "value": "v5"}, type="fail"),
        lambda h: changed(h, {"f": "send", "type": "ok", "value": "v0"}, type="fail"),
    ],
    "inconsistent": [
        lambda h: changed(h, {"f": "receive", "value": "v5"}, value="v3"),
        lambda h: changed(h, {"f": "receive", "proc": "b", "value": "v2"}, value="v4"),
    ],
    "gap": [
        lambda h: changed(h, {"f": "read", "value": "v5"}, offset=3),
        lambda h: without(h, f="read", value="v0"),
    ],
    "misordered_send": [
        lambda h: changed(
            changed(h, {"f": "read", "value": "v0"}, offset=1),
            {"f": "read", "value": "v2"},
            offset=0,
        ),
        lambda h: changed(
            changed(h, {"f": "read", "value": "v1"}, offset=2),
            {"f": "read", "value": "v5"},
            offset=0,
        ),
    ],
    "undelivered": [
        lambda h: without(h, f="receive", value="v5"),
        lambda h: without(h, f="receive", value="v0"),
    ],
    "poll_skip": [
        lambda h: without(h, f="receive", value="v3"),
        lambda h: changed(h, {"f": "receive", "value": "v5"}, offset=1),
    ],
    "ahead_of_commit": [
        lambda h: without(h, f="receive", proc="b", value="v2"),
        lambda h: without(h, f="receive", value="v1"),
    ],
    "resurrection": [
        lambda h: [
            *h,
            Event("receive", "ok", 99, "c", "t", 0, 1, value="v2", group="g", epoch=3),
        ],
        lambda h: changed(
            changed(h, {"f": "ack", "type": "invoke", "proc": "a"}, offset=2),
            {"f": "ack", "type": "ok", "proc": "a"},
            offset=2,
        ),
    ],
    "zombie_commit": [
        lambda h: [
            *h,
            Event("ack", "invoke", 98, "a", "t", 0, 2, group="g", epoch=1),
            Event("ack", "ok", 99, "a", "t", 0, 2, group="g", epoch=1),
        ],
        lambda h: added(
            added(
                h,
                {"f": "receive", "proc": "b", "value": "v2"},
                Event("ack", "invoke", proc="a", topic="t", part=0, offset=1, group="g", epoch=1),
            ),
            {"f": "receive", "proc": "b", "value": "v4"},
            Event("ack", "ok", proc="a", topic="t", part=0, offset=1, group="g", epoch=1),
        ),
    ],
}

NEAR_MISSES: list[Callable[[list[Event]], list[Event]]] = [
    # An unknown outcome may have been stored …
    lambda h: changed(h, LAST_SEND, type="info"),
    lambda h: without(h, **LAST_SEND),
    # … or not.
    lambda h: added(h, LAST_SEND, Event("send", "info", proc="p", value="v9", part=0)),
    # A refused send that nobody reads.
    lambda h: added(h, LAST_SEND, Event("send", "fail", proc="p", value="v9", part=0)),
    # A superseded ack that is refused.
    lambda h: [
        *h,
        Event("ack", "invoke", 98, "a", "t", 0, 2, group="g", epoch=1),
        Event("ack", "fail", 99, "a", "t", 0, 2, group="g", epoch=1),
    ],
    # A step back exactly to the committed position.
    lambda h: [*h, Event("receive", "ok", 99, "c", "t", 1, 0, value="v1", group="g", epoch=2)],
]


def test_a_good_history_has_no_anomaly() -> None:
    assert judged(good_history()) == set()


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("variant", [0, 1])
def test_a_seeded_anomaly_is_named(name: str, variant: int) -> None:
    assert name in judged(BAD[name][variant](good_history()))


@pytest.mark.parametrize("variant", range(len(NEAR_MISSES)))
def test_a_near_miss_is_not_an_anomaly(variant: int) -> None:
    assert judged(NEAR_MISSES[variant](good_history())) == set()


def test_dropping_or_doubling_any_delivery_or_stored_record_flips_the_verdict() -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    history = good_history()
    judged_events = [i for i, e in enumerate(history) if e.f in {"read", "receive"}]
    for i in rng.sample(judged_events, len(judged_events)):
        redelivered = history[i].value == "v2" and history[i].proc == "a"
        if not redelivered:  # the only delivery that may vanish: it was made again
            assert judged(history[:i] + history[i + 1 :]), f"dropping {history[i]}"
        assert judged([*history[: i + 1], *history[i:]]), f"doubling {history[i]}"
