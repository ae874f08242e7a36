"""Small histories of queue groups: caught, and near misses."""

from __future__ import annotations

from history_checker import Anomaly, GroupRequirements, Requirements
from history_checker.history import Event
from tests.support.histories.small_histories import (
    QUEUE,
    Cases,
    ack,
    dead,
    history,
    read,
    send,
    sends,
    settle,
    took,
)

KEYED = Requirements(
    {"w": GroupRequirements("queue", drained=True, max_attempts=3, key_order=True)}
)
V = ("v0", "v1", "v2")
LOG = [*sends(*V), *read(*V)]
LOG1 = [*sends("v0"), *read("v0")]


def gone(proc: str, f: str = "leave") -> Event:
    return Event(f, proc=proc, group="w" if f == "leave" else None)


def failed(*attempts: int) -> list[Event]:
    """Each of these attempts ended in a nack."""
    return [event for n in attempts for event in (took(0, n), *settle("nack", 0, n))]


QUEUE_CASES: dict[Anomaly, Cases] = {
    Anomaly.DOUBLE_LEASE: Cases(
        bad=[
            history(LOG1, took(0), took(0, 2, "b"), ack(0, 2, proc="b")),
            # The extension holds it longer than that.
            history(LOG1, took(0, until_s=5), settle("extend", 0, expires_at=90_000_000),
                    took(0, 2, "b"), ack(0, 2, proc="b")),
        ],
        good=[
            history(LOG1, took(0, until_s=5), took(0, 2, "b"), ack(0, 2, proc="b")),
            # Given back when the worker went, or was killed.
            history(LOG1, took(0), gone("a"), took(0, 2, "b"), ack(0, 2, proc="b")),
            history(LOG1, took(0), gone("a", "crash"), took(0, 2, "b"), ack(0, 2, proc="b")),
        ],
        requirements=QUEUE,
    ),
    Anomaly.EARLY_REDELIVERY: Cases(
        bad=[
            history(LOG1, took(0), took(0, 2), ack(0, 2)),
            history(LOG1, took(0), gone("b"), took(0, 2), ack(0, 2)),
        ],
        good=[
            history(LOG1, took(0), settle("nack", 0), took(0, 2), ack(0, 2)),
            # The ack may have been taken as a nack is: it was invoked, and the answer says no.
            history(LOG1, took(0, until_s=5), ack(0, kind="fail"), took(0, 2), ack(0, 2)),
        ],
        requirements=QUEUE,
    ),
    Anomaly.RESURRECTION: Cases(
        bad=[
            history(LOG1, took(0), ack(0), took(0, 2, "b")),
            history(LOG1, took(0), ack(0), Event("poll", "invoke", proc="b", group="w", poll=4),
                    took(0, 1, "b", poll=4)),
        ],
        good=[
            history(LOG1, took(0), ack(0, kind="info"), took(0, 2, "b"), ack(0, 2, proc="b")),
            history(LOG1, took(0), ack(0, kind="fail"), took(0, 2, "b"), ack(0, 2, proc="b")),
        ],
        requirements=QUEUE,
    ),
    Anomaly.ACK_LOST: Cases(
        bad=[
            history(LOG1, took(0), ack(0), Event("crash", proc="node"), took(0, 2, "b")),
            history(LOG1, took(0), settle("nack", 0), took(0, 2), ack(0, 2),
                    Event("crash", proc="node"), took(0, 3, "b")),
        ],
        good=[
            history(LOG1, took(0), ack(0, kind="info"), Event("crash", proc="node"),
                    took(0, 2, "b"), ack(0, 2, proc="b")),
            history(LOG1, took(0), Event("crash", proc="a"), took(0, 2, "b"), ack(0, 2, proc="b")),
        ],
        requirements=QUEUE,
    ),
    Anomaly.STALE_RECEIPT: Cases(
        bad=[
            history(LOG1, took(0, until_s=5), took(0, 2, "b"), ack(0)),
            # Nobody has it again yet, and all the same its time is over.
            history(LOG1, took(0, until_s=2), ack(0)),
        ],
        good=[
            history(LOG1, took(0, until_s=5), took(0, 2, "b"), ack(0, kind="fail"),
                    ack(0, 2, proc="b")),
            # Invoked in time, answered late.
            history(LOG1, took(0, until_s=6), [*ack(0, kind="invoke"), Event("heal"),
                    Event("ack", proc="a", topic="t", part=0, offset=0, group="w",
                          deliver_count=1)]),
            history(LOG1, took(0, until_s=5), settle("extend", 0, expires_at=90_000_000), ack(0)),
            # By the clock of a node that was off.
            history(LOG1, Event("clock", "invoke", proc="n"), took(0, until_s=2),
                    Event("clock", proc="n"), ack(0)),
        ],
        requirements=QUEUE,
    ),
    Anomaly.ACKED_TWICE: Cases(
        bad=[
            history(LOG1, took(0, until_s=5), took(0, 2, "b"), ack(0), ack(0, 2, proc="b")),
            history(LOG1, took(0, until_s=5), ack(0, kind="invoke"), took(0, 2, "b"),
                    ack(0, 2, proc="b"), Event("ack", proc="a", topic="t", part=0, offset=0,
                                               group="w", deliver_count=1)),
        ],
        good=[
            # Said twice of one attempt.
            history(LOG1, took(0), ack(0), ack(0)),
            history(LOG1, took(0, until_s=5), ack(0, kind="info"), took(0, 2, "b"),
                    ack(0, 2, proc="b")),
        ],
        requirements=QUEUE,
    ),
    Anomaly.ACK_WIDENING: Cases(
        bad=[
            history(LOG, took(0), took(1), took(2), ack(0), ack(2)),
            history(LOG, took(0), took(1), took(2), ack(0), ack(1, kind="fail"), ack(2)),
        ],
        good=[
            history(LOG, took(0), took(1), took(2), ack(0), ack(1, kind="info"), ack(2)),
            history(LOG, took(0), took(1), took(2), ack(0), settle("nack", 1), ack(2), took(1, 2),
                    ack(1, 2)),
        ],
        requirements=QUEUE,
    ),
    Anomaly.UNSETTLED: Cases(
        bad=[
            history(LOG1, took(0)),
            history(LOG1, took(0), settle("nack", 0), took(0, 2), ack(0, 2, kind="fail")),
        ],
        good=[
            history(LOG1, took(0), ack(0, kind="invoke")),
            history(LOG1, took(0), settle("nack", 0), took(0, 2), settle("nack", 0, 2), took(0, 3),
                    settle("nack", 0, 3), dead(0)),
        ],
        requirements=QUEUE,
    ),
    Anomaly.REPEATED_ATTEMPT: Cases(
        bad=[
            history(LOG1, took(0), took(0, 1, "b"), ack(0)),
            history(LOG1, took(0), settle("nack", 0), took(0), ack(0)),
        ],
        good=[
            # A death may skip one.
            history(LOG1, took(0), gone("a"), took(0, 3, "b"), ack(0, 3, proc="b")),
            history(LOG, took(0), took(1), took(2), ack(0), ack(1), ack(2)),
        ],
        requirements=QUEUE,
    ),
    Anomaly.FALLING_ATTEMPT: Cases(
        bad=[
            history(LOG1, took(0, 2, until_s=5), took(0, 1, "b"), ack(0, 2)),
            history(LOG1, took(0, 3, until_s=5),
                    Event("poll", "invoke", proc="b", group="w", poll=1),
                    took(0, 2, "b", poll=1), ack(0, 3)),
        ],
        good=[
            # The answer to an earlier poll was written down late.
            history(LOG1, Event("poll", "invoke", proc="b", group="w", poll=1),
                    took(0, 2, until_s=50), took(0, 1, "b", poll=1, until_s=5), ack(0, 2)),
            history(LOG1, took(0, until_s=5), took(0, 2, "b"), ack(0, 2, proc="b")),
        ],
        requirements=QUEUE,
    ),
    Anomaly.OVER_ATTEMPTS: Cases(
        bad=[
            history(LOG1, *failed(1, 2, 3), took(0, 4), ack(0, 4)),
            history(LOG1, *failed(2, 3, 4), took(0, 7), ack(0, 7, kind="info")),
        ],
        good=[
            # Two of them nobody got: they came back unopened.
            history(LOG1, *failed(1, 4), took(0, 5), ack(0, 5)),
            history(LOG1, took(0, 3), ack(0, 3)),
            history(LOG1, took(0, 3), settle("nack", 0, 3), dead(0)),
        ],
        requirements=QUEUE,
    ),
    Anomaly.ACKED_AND_DEAD: Cases(
        bad=[
            history(LOG1, took(0, 3), ack(0, 3), dead(0)),
            history(LOG1, took(0), ack(0), dead(0)),
        ],
        good=[
            history(LOG1, took(0, 3), ack(0, 3, kind="info"), dead(0)),
            history(LOG1, took(0, 3), ack(0, 3, kind="fail"), dead(0)),
        ],
        requirements=QUEUE,
    ),
    Anomaly.DEAD_TWICE: Cases(
        bad=[
            history(LOG1, took(0, 3), dead(0), dead(0)),
            history(LOG, took(0), ack(0), took(1), ack(1), took(2, 3), [dead(2)] * 3),
        ],
        good=[
            history(LOG, [dead(0), dead(1), dead(2)]),
            history(LOG1, took(0, 3), settle("nack", 0, 3), dead(0)),
        ],
        requirements=QUEUE,
    ),
    Anomaly.DEAD_EARLY: Cases(
        bad=[
            history(LOG1, took(0), settle("nack", 0), dead(0, 1)),
            history(LOG1, took(0, 2), dead(0, 2)),
        ],
        good=[
            history(LOG1, took(0, 3), dead(0)),
            # The last attempt never left: the node died with it.
            history(LOG1, took(0, 2), settle("nack", 0, 2), dead(0, 3)),
        ],
        requirements=QUEUE,
    ),
    Anomaly.EARLY_DELIVERY: Cases(
        bad=[
            history(send("v0", not_before=50_000_000), read("v0"), took(0), ack(0)),
            history(LOG1, took(0), settle("nack", 0, not_before=50_000_000), took(0, 2),
                    ack(0, 2)),
        ],
        good=[
            history(send("v0", not_before=4_000_000), read("v0"), took(0), ack(0)),
            history(LOG1, took(0), settle("nack", 0, not_before=50_000_000), [Event("heal")] * 60,
                    took(0, 2), ack(0, 2)),
        ],
        requirements=QUEUE,
    ),
    Anomaly.DELIVERED_EXPIRED: Cases(
        bad=[
            history(send("v0", expires_at=3_000_000), read("v0"), took(0), ack(0)),
            history(send("v0", expires_at=6_000_000), read("v0"), took(0), settle("nack", 0),
                    took(0, 2), ack(0, 2)),
        ],
        good=[
            history(send("v0", expires_at=4_000_000), read("v0"), took(0), ack(0)),
            history(send("v0", expires_at=3_000_000), read("v0"),
                    Event("expired", topic="t", part=0, offset=0, group="w", value="v0")),
        ],
        requirements=QUEUE,
    ),
    Anomaly.EXPIRED_UNRECORDED: Cases(
        bad=[
            history(send("v0", expires_at=3_000_000), read("v0")),
            history(send("v0", expires_at=9_000_000), read("v0"), took(0), settle("nack", 0)),
        ],
        good=[
            history(send("v0", expires_at=9_000_000), read("v0"), took(0), ack(0)),
            history(send("v0", expires_at=9_000_000), read("v0"), took(0), settle("nack", 0),
                    Event("expired", topic="t", part=0, offset=0, group="w", value="v0")),
        ],
        requirements=Requirements(
            {"w": GroupRequirements("queue", topics=("t",), drained=True, max_attempts=3)}
        ),
    ),
    Anomaly.KEY_OVERTAKEN: Cases(
        bad=[
            history(LOG, took(0), took(1), ack(0), ack(1), took(2), ack(2)),
            history(LOG, took(1), ack(1), took(0), ack(0), took(2), ack(2)),
        ],
        good=[
            # The ack is on its way when the next is delivered.
            history(LOG, took(0), ack(0, kind="invoke"), took(1), ack(1), took(2), ack(2)),
            history(LOG, took(0, key="x"), took(1, key="y"), took(2, key="z"), ack(2), ack(1),
                    ack(0)),
        ],
        requirements=KEYED,
    ),
}  # fmt: skip
