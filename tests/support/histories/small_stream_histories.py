"""Small histories of stream groups: caught, and near misses."""

from __future__ import annotations

from history_checker import Anomaly, GroupRequirements, Requirements
from history_checker.history import Event
from tests.support.histories.small_histories import STREAM, Cases, commit, got, history, read, sends

TWO_GROUPS = Requirements(
    {"g": GroupRequirements(drained=True), "h": GroupRequirements(drained=True)}
)
ONCE = Requirements({"g": GroupRequirements(delivery="at_most_once")})
V = ("v0", "v1", "v2")
LOG = [*sends(*V), *read(*V)]


STREAM_CASES: dict[Anomaly, Cases] = {
    Anomaly.INT_POLL_SKIP: Cases(
        bad=[
            history(LOG, got("v0", poll=1), got("v2", start=2, poll=1)),
            history(LOG, sends("x"), read("x", part=1), got("x", part=1, poll=2),
                    got("v0", poll=2), got("v2", start=2, poll=2)),
        ],
        good=[
            # The one between is erased, …
            history(sends(*V), Event("erase", value="v1"), got("v0", poll=1),
                    got("v2", start=2, poll=1), read("v0", None, "v2")),
            # … or was removed by retention.
            history(sends(*V), got("v0", poll=1), got("v1", start=1, epoch=2, proc="b"),
                    got("v2", start=2, poll=1), Event("first", topic="t", part=0, offset=2),
                    read("v2", start=2)),
        ],
    ),
    Anomaly.INT_NONMONOTONIC_POLL: Cases(
        bad=[
            history(LOG, got("v1", "v2", start=1, poll=1), got("v0", poll=1)),
            history(LOG, got("v0", poll=1), got("v0", poll=1)),
        ],
        good=[
            history(LOG, got(*V, poll=1)),
            # Another partition is another order.
            history(LOG, sends("x"), read("x", part=1), got(*V, poll=1), got("x", part=1, poll=1)),
        ],
    ),
    Anomaly.POLL_SKIP: Cases(
        bad=[
            history(LOG, got("v0", poll=1), got("v2", start=2, poll=2)),
            history(LOG, got("v0"), got("v2", start=2)),
        ],
        good=[
            history(LOG, got("v0", poll=1), got("v1", start=1, poll=2)),
            # A later lease begins at what another has committed meanwhile.
            history(LOG, got("v0"), commit(1), got("v1", start=1, epoch=2, proc="b"),
                    commit(2, 2, proc="b"), got("v2", start=2, epoch=3)),
        ],
    ),
    Anomaly.NONMONOTONIC_POLL: Cases(
        bad=[
            history(LOG, got(*V[:2], poll=1), got("v0", poll=2)),
            history(LOG, got("v0"), got("v0")),
        ],
        good=[
            # A step back over a change of the lease, exactly to the committed position.
            history(LOG, got(*V), commit(1), got("v1", "v2", start=1, epoch=2)),
            history(LOG, got(*V), got(*V, epoch=2, proc="b")),
        ],
    ),
    Anomaly.AHEAD_OF_COMMIT: Cases(
        bad=[
            history(LOG, got("v1", start=1)),
            history(LOG, got(*V), commit(1), got("v2", start=2, epoch=2)),
        ],
        good=[
            # Nobody knows whether it was committed.
            history(LOG, got(*V), commit(2, kind="info"), got("v2", start=2, epoch=2)),
            history(LOG, Event("seek", "invoke", topic="t", part=0, offset=2, group="g"),
                    got("v2", start=2)),
        ],
    ),
    Anomaly.ACK_LOST: Cases(
        bad=[
            history(LOG, got(*V), commit(2), got("v1", "v2", start=1, epoch=2)),
            history(LOG, got(*V), commit(3), got(*V, epoch=2, proc="b")),
        ],
        good=[
            history(LOG, got(*V), commit(2, kind="info"), got("v1", "v2", start=1, epoch=2)),
            history(LOG, got(*V), commit(3),
                    Event("seek", "invoke", topic="t", part=0, offset=0, group="g"),
                    got(*V, epoch=2)),
        ],
    ),
    Anomaly.ZOMBIE_COMMIT: Cases(
        bad=[
            history(LOG, got(*V), got(*V, epoch=2, proc="b"), commit(0)),
            history(LOG, got(*V), got("v0", epoch=2, proc="b"), commit(1, kind="invoke"),
                    got("v1", start=1, epoch=2, proc="b"),
                    Event("commit_offset", proc="a", topic="t", part=0, offset=1, group="g",
                          lease_epoch=1)),
        ],
        good=[
            # Refused, …
            history(LOG, got(*V), got(*V, epoch=2, proc="b"), commit(3, kind="fail")),
            # … or invoked before the other lease was known of.
            history(LOG, got(*V), commit(0, kind="invoke"), got(*V, epoch=2, proc="b"),
                    Event("commit_offset", proc="a", topic="t", part=0, offset=0, group="g",
                          lease_epoch=1)),
        ],
    ),
    Anomaly.TWO_OWNERS: Cases(
        bad=[
            history(LOG, got(*V), got(*V, proc="b")),
            history(LOG, got("v0", epoch=4), got("v0", epoch=5, proc="b"),
                    got("v1", start=1, epoch=4, proc="b")),
        ],
        good=[
            history(LOG, got(*V), got(*V, epoch=2, proc="b")),
            history(LOG, sends("x"), read("x", part=1), got(*V), got("x", part=1, proc="b")),
        ],
    ),
    Anomaly.DELIVERED_TWICE: Cases(
        bad=[
            history(LOG, got(*V), got("v2", start=2, epoch=2)),
            history(LOG, commit(3), got(*V), got("v2", start=2, epoch=2, proc="b")),
        ],
        good=[
            # One that nobody gets is allowed.
            history(LOG, commit(2), got("v0"), got("v2", start=2, epoch=2)),
            history(LOG, got(*V), got(*V, group="other")),
        ],
        requirements=ONCE,
    ),
    Anomaly.UNDELIVERED: Cases(
        bad=[history(LOG, got("v0", "v1")), history(LOG, sends("x"), read("x", part=1), got(*V))],
        good=[
            history(LOG, got("v0", "v1"), got("v2", start=2)),
            history(sends(*V), got("v0", "v1"), Event("erase", value="v2"),
                    read("v0", "v1", None)),
        ],
        requirements=STREAM,
    ),
    Anomaly.GROUP_DEPENDENCE: Cases(
        bad=[
            history(LOG, got(*V), commit(3), got("v0", "v1", group="h")),
            history(LOG, got("v0"), commit(1), got("v1", start=1, group="h"),
                    got(*V[1:], start=1)),
        ],
        good=[
            history(LOG, got(*V), commit(3), got(*V, group="h")),
            history(LOG, got(*V), commit(3, kind="info"), got(*V, group="h"),
                    commit(1, group="h")),
        ],
        requirements=TWO_GROUPS,
    ),
    Anomaly.REMOVED_UNCONSUMED: Cases(
        bad=[
            history(sends("v1"), Event("first", topic="t", part=0, offset=1),
                    read("v1", start=1), got("v1", start=1)),
            history(sends(*V), got("v0"), Event("first", topic="t", part=0, offset=2),
                    read("v2", start=2), got("v2", start=2, epoch=2)),
        ],
        good=[
            history(sends(*V), got(*V), Event("first", topic="t", part=0, offset=2),
                    read("v2", start=2)),
            history(LOG, got(*V), Event("first", topic="t", part=0, offset=0)),
        ],
        requirements=STREAM,
    ),
}  # fmt: skip
