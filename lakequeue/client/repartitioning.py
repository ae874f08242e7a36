"""Growing a topic without losing the order of any key: see docs/protocols/repartitioning.md."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any, Protocol

from lakequeue.errors import InvalidRequest, LakequeueError, NotDrained, UnknownGroup
from lakequeue.wire import MAX_CLOSED_MS, GroupDescription, GroupSummary, TopicDescription

_LOOK_S = 0.2
_MARGIN_S = 15.0
"""The topic stays closed for so much longer than we try: clocks may be 5 s off, calls repeated."""


class Topics(Protocol):
    """What is asked of an `Admin`."""

    def topic(self, topic: str) -> TopicDescription:
        """Describe a topic."""

    def alter_topic(self, topic: str, **changes: Any) -> TopicDescription:
        """Change settings; partitions only grow."""

    def settle_topic(self, topic: str, timeout_s: float) -> None:
        """Of a closed topic: wait until all that any node has taken is ordered."""

    def groups(self) -> list[GroupSummary]:
        """All groups, by name."""

    def group(self, group: str) -> GroupDescription:
        """Positions, lag, owners and members."""


def repartition(admin: Topics, topic: str, partitions: int, timeout_s: float) -> TopicDescription:
    """Close the topic, have it ordered and consumed to its end, then let it grow and open it.

    Whoever dies on the way leaves a topic that opens by itself, with the partitions it had.
    """
    found = admin.topic(topic)
    if partitions <= found.partitions:
        # As it is, or refused: nothing to wait for.
        return admin.alter_topic(topic, partitions=partitions)
    began = time.monotonic()
    closed_ms = min(round((timeout_s + _MARGIN_S) * 1_000), MAX_CLOSED_MS)
    closed = admin.alter_topic(topic, closed_for_ms=closed_ms)
    try:
        left_s = began + timeout_s - time.monotonic()
        try:
            admin.settle_topic(topic, max(left_s, 1.0))
        except InvalidRequest:  # it is open
            _check_closed(admin, closed)
            raise
        _wait_consumed(admin, topic, began + timeout_s)
        _check_closed(admin, closed)
        return admin.alter_topic(topic, partitions=partitions, closed_for_ms=0)
    except BaseException:
        # If that fails too it opens by itself.
        with contextlib.suppress(LakequeueError):
            if _closed_as(admin, closed):
                admin.alter_topic(topic, closed_for_ms=0)
        raise


def _check_closed(admin: Topics, closed: TopicDescription) -> None:
    if not _closed_as(admin, closed):
        raise NotDrained(
            f"somebody else has opened or closed topic {closed.topic} meanwhile",
            hint="let one drain it at a time, and try again",
        )


def _closed_as(admin: Topics, closed: TopicDescription) -> bool:
    """Whether it is closed still as we have closed it: then it was never open in between."""
    now = admin.topic(closed.topic)
    return (now.topic_id, now.closed_until) == (closed.topic_id, closed.closed_until)


def _wait_consumed(admin: Topics, topic: str, deadline: float) -> None:
    pause = threading.Event()
    while behind := lags(admin, topic):
        if time.monotonic() > deadline:
            named = ", ".join(f"{group} by {lag}" for group, lag in sorted(behind.items()))
            raise NotDrained(
                f"topic {topic} was not consumed to its end in time: {named}",
                hint="wait longer (--timeout), start more consumers, or delete a group that is "
                "not needed; without --drain it grows at once",
            )
        # Lag is asked for: groups may be at any node, and tell nobody when they are through.
        pause.wait(_LOOK_S)


def lags(admin: Topics, topic: str) -> dict[str, int]:
    """Group → records of the topic that it has not settled, of every group that has any."""
    found: dict[str, int] = {}
    for summary in admin.groups():
        try:
            rows = admin.group(summary.group).partitions
        except UnknownGroup:
            continue
        lag = sum(row.lag for row in rows if row.topic == topic)
        if lag:
            found[summary.group] = lag
    return found
