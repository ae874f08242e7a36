"""Small histories of the log, of batches and of looks at it: caught, and near misses."""

from __future__ import annotations

from history_checker import Anomaly, Requirements
from history_checker.history import Event
from tests.support.histories.small_histories import Cases, got, history, read, send, sends

WINDOW = Requirements(dedup_window_s=20)
REDRIVE = Event("redrive", value="v0")


def look(version: int, end: int, kind: str = "ok", proc: str = "r", **said: str) -> Event:
    return Event(
        "snapshot_read",
        kind,  # type: ignore[arg-type]
        proc=proc,
        topic="t",
        part=0,
        offset=end,
        delta_version=version,
        **said,  # type: ignore[arg-type]
    )


def erase(value: str, kind: str = "ok") -> Event:
    return Event("erase", kind, value=value, topic="t")  # type: ignore[arg-type]


LOG_CASES: dict[Anomaly, Cases] = {
    Anomaly.LOST_WRITE: Cases(
        bad=[
            history(sends("v0", "v1"), read("v1")),
            history(send("v0", offset=0, part=0), send("x", "invoke"), read("x")),
            history(send("v0", "info"), got("v0")),
        ],
        good=[
            history(send("v0", "info"), send("v1"), read("v1")),
            history(sends("v0", "v1"), Event("reject", value="v0"), read("v1")),
            history(
                sends("v0", "v1"),
                got("v0"),
                Event("first", topic="t", part=0, offset=1),
                read("v1", start=1),
            ),
        ],
    ),
    Anomaly.UNSEEN: Cases(
        bad=[history(sends("v0", "v1"), read("v0")), history(send("v0"))],
        good=[
            history(send("v0"), send("v1", "invoke"), read("v0")),
            history(send("v0"), send("v1", "fail"), read("v0")),
        ],
    ),
    Anomaly.DUPLICATE: Cases(
        bad=[
            history(sends("v0"), read("v0", "v0")),
            history(sends("v0"), read("v0"), read("v0", part=1)),
        ],
        good=[
            # Sent twice by a client that heard nothing, stored once.
            history(send("v0", "info"), send("v0"), read("v0")),
            # Received twice is not stored twice.
            history(sends("v0"), got("v0"), got("v0", epoch=2, proc="b"), read("v0")),
        ],
    ),
    Anomaly.INCONSISTENT_OFFSETS: Cases(
        bad=[
            history(sends("v0", "v1"), got("v1"), read("v0", "v1")),
            history(sends("v0", "v1"), got("v0"), got("v1", proc="b"), read("v0", "v1")),
        ],
        good=[
            history(sends("v0", "v1"), got("v0", part=1), read("v1"), read("v0", part=1)),
            # Erased since: the offset has no value any more.
            history(sends("v0", "v1"), got("v0"), erase("v0"), read(None, "v1")),
        ],
    ),
    Anomaly.OFFSET_REUSE: Cases(
        bad=[
            history(sends("v0", "v1"), got("v0"), Event("restore"), read("v1", "v0")),
            history(sends("v0", "v1"), got("v0"), Event("crash", proc="n"), read("v1", "v0")),
        ],
        good=[
            # A topic that was created again is another incarnation.
            history(
                sends("v0", "v1"),
                got("v0", topic_id="one"),
                Event("restore"),
                Event("reject", value="v0"),
                read("v1", topic_id="two"),
            ),
            history(sends("v0", "v1"), got("v0"), Event("crash", proc="n"), read("v0", "v1")),
        ],
    ),
    Anomaly.ABORTED_READ: Cases(
        bad=[
            history(send("v0", "fail"), read("v0")),
            history(send("v0", "fail"), send("v1"), got("v0"), read("v1", start=0)),
        ],
        good=[
            history(send("v0", "info"), read("v0")),
            history(send("v0", "fail"), send("v0"), read("v0")),
        ],
    ),
    Anomaly.PHANTOM: Cases(
        bad=[history(read("nobody")), history(sends("v0"), got("ghost", part=1), read("v0"))],
        good=[
            history(send("v0", "invoke"), read("v0")),
            history(sends("v0"), erase("v0"), read(None)),
        ],
    ),
    Anomaly.GAP: Cases(
        bad=[
            history(sends("v0", "v1"), read("v0"), read("v1", start=2)),
            history(sends("v0"), read("v0", start=1)),
        ],
        good=[
            history(
                sends("v0"), Event("first", topic="t", part=0, offset=1), read("v0", start=1)
            ),
            history(sends("v0", "v1", "v2"), erase("v1"), read("v0", None, "v2")),
        ],
    ),
    Anomaly.NONMONOTONIC_SEND: Cases(
        bad=[
            history(sends("v0", "v1"), read("v1", "v0")),
            history(sends("v0", "v1", batch="b"), read("v1", "v0", delta_version=1)),
        ],
        good=[
            # In flight together, …
            history(
                send("v0", "invoke"), send("v1"), send("v0"), read("v1", "v0")
            ),
            # … of two producers, and of two partitions.
            history(send("v0"), send("v1", proc="q"), read("v1", "v0")),
            history(sends("v0", "v1"), read("v0", part=1), read("v1")),
        ],
    ),
    Anomaly.GARBAGE_OFFSET: Cases(
        bad=[
            history(send("v0"), send("v1", offset=0, part=0), read("v0", "v1")),
            history(send("v0", offset=7, part=0), read("v0")),
        ],
        good=[
            history(send("v0"), send("v1", offset=1, part=0), read("v0", "v1")),
            # A duplicate is answered with the place of the original.
            history(
                send("v0", dedup_id="d"),
                send("v1", dedup_id="d", offset=0, part=0, duplicate=True),
                read("v0", dedup_id="d"),
            ),
        ],
    ),
    Anomaly.DEDUP_MISS: Cases(
        bad=[
            history(sends("v0", "v1", dedup_id="d"), read("v0", "v1", dedup_id="d")),
            history(
                send("v0", "info", dedup_id="d"),
                send("v1", dedup_id="d"),
                read("v0", dedup_id="d"),
                read("v1", dedup_id="d", part=1),
            ),
        ],
        good=[
            history(sends("v0", "v1", dedup_id="d"), read("v0", dedup_id="d")),
            # Further apart than the window.
            history(
                send("v0", dedup_id="d"),
                [Event("heal")] * 20,
                send("v1", dedup_id="d"),
                read("v0", "v1", dedup_id="d"),
            ),
        ],
        requirements=WINDOW,
    ),
    Anomaly.DEDUP_FALSE_DROP: Cases(
        bad=[
            history(send("v0"), send("v1", duplicate=True), read("v0")),
            history(
                send("v0", duplicate=True, dedup_id="d"),
                send("v1", dedup_id="d"),
                read("v1", dedup_id="d"),
            ),
        ],
        good=[
            history(
                send("v0", dedup_id="d"),
                send("v1", dedup_id="d", duplicate=True),
                read("v0", dedup_id="d"),
            ),
            # Its own first call had come in, though nobody said so.
            history(send("v0", "info"), send("v0", duplicate=True), read("v0")),
        ],
    ),
    Anomaly.DEDUP_GHOST: Cases(
        bad=[
            history(
                send("v0", "info", dedup_id="d"),
                send("v1", dedup_id="d", duplicate=True),
                send("v2"),
                read("v2"),
            ),
            history(send("v0", "fail", dedup_id="d"), send("v1", dedup_id="d", duplicate=True)),
        ],
        good=[
            history(
                send("v0", "info", dedup_id="d"),
                send("v1", dedup_id="d", duplicate=True),
                read("v0", dedup_id="d"),
            ),
            history(
                send("v0", "info", dedup_id="d"),
                send("v1", dedup_id="d", duplicate=True),
                erase("v1"),
            ),
        ],
    ),
    Anomaly.REDRIVE_LOST: Cases(
        bad=[
            history(send("v0"), REDRIVE, read("v0")),
            history(sends("v0", "v1"), REDRIVE, REDRIVE, read("v0", "v1", "v0")),
        ],
        good=[
            history(send("v0"), REDRIVE, read("v0", "v0")),
            history(send("v0"), Event("redrive", "info", value="v0"), read("v0")),
        ],
    ),
    Anomaly.REDRIVE_DOUBLED: Cases(
        bad=[
            history(send("v0"), REDRIVE, read("v0", "v0", "v0")),
            history(
                send("v0"),
                Event("redrive", "info", value="v0"),
                read("v0", "v0"),
                read("v0", part=1),
            ),
        ],
        good=[
            history(send("v0"), REDRIVE, REDRIVE, read("v0", "v0", "v0")),
            history(send("v0"), Event("redrive", "info", value="v0"), read("v0", "v0")),
        ],
    ),
    Anomaly.ERASED_READ: Cases(
        bad=[
            history(send("v0"), erase("v0"), got("v0"), read(None)),
            history(send("v0"), erase("v0"), read("v0")),
        ],
        good=[
            history(send("v0"), got("v0"), erase("v0"), read(None)),
            # The poll had begun before, and its answer came after.
            history(
                send("v0"),
                Event("poll", "invoke", proc="a", group="g", poll=1),
                erase("v0"),
                got("v0", poll=1),
                read(None),
            ),
            history(send("v0"), erase("v0", "info"), read("v0")),
        ],
    ),
    Anomaly.TORN_BATCH: Cases(
        bad=[
            history(sends("v0", "v1", batch="b"), read("v0", delta_version=1)),
            history(
                sends("v0", "v1", batch="b"),
                read("v0", delta_version=1),
                read("v1", start=1, delta_version=2),
            ),
        ],
        good=[
            history(
                send("v0", "info", batch="b"), send("v1", "info", batch="b"), send("v2"), read("v2")
            ),
            # A poll may return a part of it.
            history(
                sends("v0", "v1", batch="b"),
                got("v0", poll=1),
                got("v1", start=1, poll=2),
                read("v0", "v1", delta_version=1),
            ),
        ],
    ),
    Anomaly.INTERLEAVED_BATCH: Cases(
        bad=[
            history(
                sends("v0", "v1", batch="b"),
                send("x", proc="q"),
                read("v0", "x", "v1", delta_version=1),
            ),
            history(
                sends("v0", "v1", batch="b"),
                sends("x0", "x1", batch="c", proc="q"),
                read("v0", "x0", "v1", "x1", delta_version=1),
            ),
        ],
        good=[
            history(
                sends("v0", "v1", batch="b"),
                send("x", proc="q"),
                read("x", "v0", "v1", delta_version=1),
            ),
            history(
                sends("v0", "v1", batch="b"),
                send("x", proc="q"),
                read("v0", "x", delta_version=1),
                read("v1", part=1, delta_version=1),
            ),
        ],
    ),
    Anomaly.READ_CYCLE: Cases(
        bad=[
            history(
                send("v0", batch="one"),
                send("v1", batch="two"),
                got("v1", batch="one"),
                got("v0", part=1, batch="two"),
                read("v1"),
                read("v0", part=1),
            ),
            history(
                *(send(f"v{n}", batch=f"b{n}") for n in range(3)),
                *(got(f"v{n}", part=n, batch=f"b{(n + 1) % 3}") for n in range(3)),
                *(read(f"v{n}", part=n) for n in range(3)),
            ),
        ],
        good=[
            history(
                *(send(f"v{n}", batch=f"b{n}") for n in range(3)),
                *(got(f"v{n}", part=n, batch=f"b{n + 1}") for n in range(2)),
                *(read(f"v{n}", part=n) for n in range(3)),
            ),
            # Two ways to one transaction are no circle.
            history(
                *(send(f"v{n}", batch=f"b{n}") for n in range(3)),
                got("v0", batch="b1"),
                got("v0", epoch=2, batch="b2"),
                got("v1", part=1, batch="b2"),
                *(read(f"v{n}", part=n) for n in range(3)),
            ),
        ],
    ),
    Anomaly.PRECOMMITTED_READ: Cases(
        bad=[
            history(send("v0", batch="b"), got("v0", batch="b"), read("v0", delta_version=1)),
            history(got("v0"), send("v0"), read("v0")),
        ],
        good=[
            history(send("v0", batch="b"), got("v0", batch="c"), read("v0", delta_version=1)),
            # Received before its answer came.
            history(
                send("v0", "invoke"),
                got("v0"),
                Event("send", proc="p", topic="t", value="v0"),
                read("v0"),
            ),
        ],
    ),
    Anomaly.STALE_ACK: Cases(
        bad=[
            history(
                send("v0", offset=0, part=0, delta_version=5), look(-1, -1, "invoke"), look(4, 1),
                read("v0"),
            ),
            history(
                send("v0", offset=0, part=0, delta_version=5), look(-1, -1, "invoke"), look(5, 0),
                read("v0"),
            ),
        ],
        good=[
            history(
                look(-1, -1, "invoke"), send("v0", offset=0, part=0, delta_version=5), look(4, 0),
                read("v0"),
            ),
            # Not waited for: nothing is promised.
            history(send("v0"), look(-1, -1, "invoke"), look(4, 0), read("v0")),
        ],
    ),
    Anomaly.VERSION_REGRESSION: Cases(
        bad=[
            history(look(5, 1), look(4, 1)),
            history(look(5, 1), look(6, 1), look(5, 1)),
        ],
        good=[
            history(look(5, 1), look(4, 1, proc="other")),
            history(look(5, 1), look(5, 1)),
        ],
    ),
}  # fmt: skip
