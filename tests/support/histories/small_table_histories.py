"""Small histories of effects, tables and liveness: caught, and near misses."""

from __future__ import annotations

from typing import Any

from history_checker import Anomaly, GroupRequirements, Requirements
from history_checker.history import Event
from tests.support.histories.small_histories import (
    Cases,
    ack,
    commit,
    dead,
    got,
    history,
    read,
    send,
    sends,
    settle,
    took,
)

V = ("v0", "v1", "v2")
LOG = [*sends(*V), *read(*V)]
EXACTLY = Requirements({"g": GroupRequirements(delivery="exactly_once", topics=("t",))})
GRACE = Requirements({"g": GroupRequirements(drained=True)}, grace_s=20)
LEASES = Requirements({"w": GroupRequirements("queue", max_attempts=3)}, grace_s=20)
LATER = [Event("heal")] * 30
WAITING = [
    Event(f, proc="a", group=group, poll=n)
    for n, (f, group) in enumerate([("poll", "g"), ("poll", "w")] * 20)
]
"""Polls without a record."""


def effect(*offsets: int, part: int = 0) -> list[Event]:
    return [Event("effect", topic="t", part=part, offset=o, group="g") for o in offsets]


def sink(version: int, first: int, until: int, part: int = 0) -> Event:
    return Event(
        "sink", topic="t", part=part, offset=first, until=until, delta_version=version, group="g"
    )


def position(offset: int) -> Event:
    return Event("position", topic="t", part=0, offset=offset, group="g")


def change(version: int, added: int = 0, removed: int = 0, table: str = "log", **own: Any) -> Event:
    return Event("commit", topic=table, delta_version=version, added=added, removed=removed, **own)


def look(version: int, end: int, digest: str, part: int = 0) -> Event:
    return Event(
        "snapshot_read",
        proc="r",
        topic="t",
        part=part,
        offset=end,
        delta_version=version,
        value=digest,
    )


def replica(*values: str, start: int = 0) -> list[Event]:
    return [
        Event("replica_read", proc="copy", topic="t", part=0, offset=start + n, value=value)
        for n, value in enumerate(values)
    ]


EFFECT_CASES: dict[Anomaly, Cases] = {
    Anomaly.EFFECT_LOST: Cases(
        bad=[
            history(LOG, effect(0, 2), sink(1, 0, 3)),
            history(LOG, effect(0, 1), sink(1, 0, 1), sink(2, 1, 3)),
        ],
        good=[
            history(LOG, effect(0, 1, 2), sink(1, 0, 3)),
            # Not consumed yet.
            history(LOG, effect(0), sink(1, 0, 1)),
        ],
        requirements=EXACTLY,
    ),
    Anomaly.EFFECT_DOUBLED: Cases(
        bad=[
            history(LOG, effect(0, 1, 1), sink(1, 0, 2)),
            history(LOG, effect(0, 0), sink(1, 0, 1)),
        ],
        good=[
            history(LOG, effect(0, 1), sink(1, 0, 2)),
            history(LOG, sends("x"), read("x", part=1), effect(0), effect(0, part=1),
                    sink(1, 0, 1), sink(2, 0, 1, part=1)),
        ],
        requirements=EXACTLY,
    ),
    Anomaly.SINK_GAP: Cases(
        bad=[
            history(LOG, effect(0, 2), sink(1, 0, 1), sink(2, 2, 3)),
            history(LOG, effect(0, 1, 2), sink(1, 0, 1), sink(2, 2, 3)),
        ],
        good=[
            history(LOG, effect(0, 1, 2), sink(1, 0, 1), sink(2, 1, 3)),
            # Written down in another order than committed.
            history(LOG, effect(0, 1, 2), sink(2, 1, 3), sink(1, 0, 1)),
        ],
        requirements=EXACTLY,
    ),
    Anomaly.SINK_OVERLAP: Cases(
        bad=[
            history(LOG, effect(0, 1, 1, 2), sink(1, 0, 2), sink(2, 1, 3)),
            history(LOG, effect(0, 1, 2), sink(1, 0, 3), sink(2, 0, 3)),
        ],
        good=[
            history(LOG, effect(0, 1, 2), sink(1, 0, 2), sink(2, 2, 3)),
            history(LOG, sends("x"), read("x", part=1), effect(0, 1), effect(0, part=1),
                    sink(1, 0, 2), sink(2, 0, 1, part=1)),
        ],
        requirements=EXACTLY,
    ),
    Anomaly.SINK_DISAGREES: Cases(
        bad=[
            history(LOG, effect(0, 1), sink(1, 0, 1)),
            history(LOG, effect(0, 1), sink(1, 0, 2), position(3)),
        ],
        good=[
            history(LOG, effect(0, 1), sink(1, 0, 2), position(2)),
            # It died before the group was told.
            history(LOG, effect(0, 1), sink(1, 0, 2), position(0)),
        ],
        requirements=EXACTLY,
    ),
}  # fmt: skip

TABLE_CASES: dict[Anomaly, Cases] = {
    Anomaly.REPEATED_COMMIT: Cases(
        bad=[
            history(change(1, 3, batch="group 1"), change(2, 3, batch="group 1")),
            history(change(1, 3, batch="7"), change(2, 1, batch="8"), change(3, 1, batch="7")),
        ],
        good=[
            history(change(1, 3, batch="group 1"), change(2, 3, batch="group 2")),
            history(change(1, 3, batch="1"), change(1, 3, table="other", batch="1")),
        ],
    ),
    Anomaly.MIXED_COMMIT: Cases(
        bad=[
            history(change(1, added=3, removed=1)),
            history(change(1, 3), change(2, removed=1), change(3, 1, 1)),
        ],
        good=[
            # A compaction brings files, and no new record.
            history(change(1, added=3), change(2, added=0, removed=2)),
            history(change(1, added=3), change(2, removed=1)),
        ],
    ),
    Anomaly.VERSION_REUSED: Cases(
        bad=[
            # Acted on, lost with the power, and written anew.
            history(change(1, 3, batch="1"), change(2, 3, batch="2"), change(2, 1, batch="9")),
            history(change(1, 3), change(3, 1)),
        ],
        good=[
            history(change(1, 3, batch="1"), change(1, 3, batch="1")),
            # Older commits were cleaned up.
            history(change(7, 3), change(8, 1)),
        ],
    ),
    Anomaly.MAINTENANCE_VISIBLE: Cases(
        bad=[
            history(look(1, 3, "abc"), look(2, 3, "abd")),
            history(look(1, 3, "abc"), look(2, 4, "abcd"), look(3, 3, "bc")),
        ],
        good=[
            history(look(1, 3, "abc"), look(2, 3, "abc"), look(3, 4, "abcd")),
            history(
                send("v0"), look(1, 3, "abc"), Event("erase", topic="t", value="v0"),
                look(2, 3, "bc"),
            ),
            history(
                look(1, 3, "abc"), Event("first", topic="t", part=0, offset=1), look(2, 3, "bc")
            ),
        ],
    ),
    Anomaly.POSITION_BEYOND_LOG: Cases(
        bad=[history(LOG, position(4)), history(sends("v0"), read("v0"), position(3))],
        good=[
            history(LOG, position(3)),
            history(
                sends(*V), got(*V), Event("first", topic="t", part=0, offset=2),
                read("v2", start=2), position(3),
            ),
        ],
    ),
    Anomaly.REPLICA_NOT_PREFIX: Cases(
        bad=[history(LOG, replica("v0", "v2")), history(LOG, replica("v1", start=1))],
        good=[
            history(LOG, replica(*V)),
            # It is behind.
            history(LOG, replica("v0", "v1")),
        ],
    ),
    Anomaly.ENGINES_DIFFER: Cases(
        bad=[
            history(LOG, read("v0", "v1", proc="spark")),
            history(LOG, read(*V, proc="spark"), read("v0", "v2", "v1", proc="duck")),
        ],
        good=[
            history(LOG, read(*V, proc="spark")),
            history(LOG, read("v2", start=2, proc="spark"), read("v0", "v1", proc="spark")),
        ],
    ),
}  # fmt: skip

LIVENESS_CASES: dict[Anomaly, Cases] = {
    Anomaly.STUCK: Cases(
        bad=[
            history(send("v0", "invoke"), LATER),
            history(LOG, got(*V), commit(1, kind="invoke"), LATER),
        ],
        good=[
            history(send("v0", "invoke"), Event("crash", proc="p"), LATER),
            # It asked for all partitions, and was told of each.
            history(
                Event("snapshot_read", "invoke", proc="r", topic="t"), look(1, 0, ""), LATER
            ),
            history(LOG, got(*V), LATER, commit(1, kind="invoke")),
        ],
        requirements=GRACE,
    ),
    Anomaly.ORPHAN_PARTITION: Cases(
        bad=[
            history(LOG, got(*V, part=0), sends("x"), read("x", part=1), WAITING),
            history(
                LOG, got(*V), Event("heal"), sends("v3", "v4"), read("v3", "v4", start=3),
                WAITING,
            ),
        ],
        good=[
            history(LOG, sends("x"), read("x", part=1), got(*V), got("x", part=1), LATER),
            history(sends(*V), LATER, got(*V), read(*V)),
        ],
        requirements=GRACE,
    ),
    Anomaly.LAG_UNBOUNDED: Cases(
        bad=[
            history(
                Event("heal"), sends(*V), read(*V), got("v0"),
                WAITING,
                got("v1", "v2", start=1),
            ),
            history(
                Event("heal"), sends(*V), read(*V), got("v0", "v1"),
                WAITING,
            ),
        ],
        good=[
            # Late, but sent before the fault had ended.
            history(sends(*V), LATER, got(*V), read(*V)),
            history(Event("heal"), sends(*V), read(*V), got(*V)),
        ],
        requirements=GRACE,
    ),
    Anomaly.STARVED: Cases(
        bad=[
            history(
                Event("heal"), send("v0", key="slow"), send("v1", key="fast"), read("v0", "v1"),
                got("v1", start=1),
                WAITING,
                got("v0", proc="b"),
            ),
            history(
                Event("heal"), send("v0", key="slow"), sends("v1", "v2", key="fast"), read(*V),
                got("v1", "v2", start=1),
                WAITING,
            ),
        ],
        good=[
            history(
                Event("heal"), send("v0", key="slow"), send("v1", key="fast"), read("v0", "v1"),
                got("v0"), got("v1", start=1),
            ),
            history(
                send("v0", key="slow"), send("v1", key="fast"), LATER, got("v0"),
                got("v1", start=1), read("v0", "v1"),
            ),
        ],
        requirements=GRACE,
    ),
    Anomaly.LEASE_NEVER_EXPIRES: Cases(
        bad=[
            history(sends("v0", "v1"), read("v0", "v1"), took(0, until_s=10), WAITING, took(1),
                    ack(1)),
            history(sends("v0"), read("v0"), took(0, until_s=5), settle("ack", 0, kind="fail"),
                    WAITING),
        ],
        good=[
            history(sends("v0"), read("v0"), took(0, until_s=10), LATER, took(0, 2), ack(0, 2),
                    WAITING),
            history(sends("v0"), read("v0"), took(0, 3, until_s=10), dead(0),
                    WAITING),
            # Extended: it is its worker's to say.
            history(sends("v0"), read("v0"), took(0, until_s=10),
                    settle("extend", 0, kind="info"),
                    WAITING),
        ],
        requirements=LEASES,
    ),
}  # fmt: skip
