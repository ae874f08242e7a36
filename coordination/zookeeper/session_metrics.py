"""What a session's connection looks like to whoever watches the process."""

from __future__ import annotations

from collections.abc import Iterator

from coordination.zookeeper.session import Session
from lakequeue import metrics
from lakequeue.metrics.declaring import Sample


def session_samples(session: Session | None) -> Iterator[Sample]:
    """Connected or not, sessions lost, skew. None: no session was ever opened."""
    connected = session is not None and session.connected.is_set()
    yield Sample(metrics.every.ZOOKEEPER_CONNECTED, float(connected))
    yield Sample(metrics.every.ZOOKEEPER_LOST, 0 if session is None else session.incarnation)
    yield Sample(metrics.every.CLOCK_SKEW, 0.0 if session is None else session.skew_s)
