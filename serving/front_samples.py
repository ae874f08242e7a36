"""What a front has to say of itself in `/metrics`."""

from __future__ import annotations

from collections.abc import Iterator

from lakequeue import metrics
from lakequeue.metrics.declaring import Sample
from serving.front.hub import Hub

_BODIES, _HEADS = "bodies", "heads"


class FrontSamples:
    """Asked by the metrics of a node; there is nothing to say before the front takes requests."""

    def __init__(self) -> None:
        self._front: Hub | None = None

    def began(self, front: Hub) -> None:
        """The front takes requests."""
        self._front = front

    def samples(self) -> Iterator[Sample]:
        """All of it. From any thread: numbers are read one by one, and each is right by itself."""
        front = self._front
        if front is None:
            return
        yield Sample(metrics.front.FRONT_CONNECTIONS, len(front.connections))
        refused = dict(front.refused) | {
            _BODIES: front.bodies.refused,
            _HEADS: front.heads_held.refused,
        }
        for kind, share in list(front.shares.items()):
            yield Sample(metrics.front.FRONT_CALLS, share.busy, (kind,))
            yield Sample(metrics.front.FRONT_WAITING, share.parked, (kind,))
            yield Sample(metrics.front.FRONT_BYTES, share.answers.used, (f"answers: {kind}",))
            yield Sample(metrics.front.FRONT_LIMITS, share.answers.limit, (f"answers: {kind}",))
            for limit, count in share.refused.items():
                refused[limit] = refused.get(limit, 0) + count
            refused["answers"] += share.answers.refused
        for name, budget in ((_BODIES, front.bodies), (_HEADS, front.heads_held)):
            yield Sample(metrics.front.FRONT_BYTES, budget.used, (name,))
            yield Sample(metrics.front.FRONT_LIMITS, budget.limit, (name,))
        for limit, count in refused.items():
            yield Sample(metrics.front.FRONT_REFUSED, count, (limit,))
        for code, count in front.gate.refusals.items():
            yield Sample(metrics.front.ACCESS_REFUSED, count, (code,))
        yield Sample(metrics.front.ACCESS_PAUSES, front.pauses)
        for call, status, times, seconds in front.tally:
            labels = (call, status)
            yield Sample(metrics.front.HTTP_SECONDS, seconds, labels, times=times)
        for deadline, count in front.late.items():
            yield Sample(metrics.front.FRONT_LATE, count, (deadline,))
