"""What `/metrics` shows."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from consumer_service.holding.partition_states import PartitionState
from consumer_service.node import Node

_ACK_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """One registry per node, so that several can live in one test process."""

    def __init__(self, node: Node) -> None:
        self._registry = CollectorRegistry()
        self._delivered = Counter(
            "lakequeue_delivered_records_total",
            "Records that left in answers",
            ["group"],
            registry=self._registry,
        )
        self._ack_s = Histogram(
            "lakequeue_ack_seconds",
            "Time from the ack's arrival to its answer",
            ["group"],
            buckets=_ACK_S,
            registry=self._registry,
        )
        self._refused = Counter(
            "lakequeue_refused_acks_total",
            "Acks that were answered with an error",
            ["code"],
            registry=self._registry,
        )
        self.parked = Gauge(
            "lakequeue_parked_polls", "Long polls that wait", registry=self._registry
        )
        gauges = {
            "lakequeue_members": ("Members of this node", lambda: len(node.members.all())),
            "lakequeue_owned_partitions": (
                "Partitions that this node delivers",
                lambda: sum(h.state is PartitionState.OWNED for h in node.holdings.all()),
            ),
            "lakequeue_tail_bytes": ("Newest records in memory", lambda: node.segments.bytes),
            "lakequeue_ready": ("1 when ready", lambda: int(not node.not_ready())),
        }
        for name, (text, value) in gauges.items():
            Gauge(name, text, registry=self._registry).set_function(value)

    def delivered(self, group: str, count: int) -> None:
        """`count` records leave."""
        if count:
            self._delivered.labels(group).inc(count)

    def acked(self, group: str, seconds: float) -> None:
        """An ack was answered with 200."""
        self._ack_s.labels(group).observe(seconds)

    def refused(self, code: str) -> None:
        """An ack was answered with an error."""
        self._refused.labels(code).inc()

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self._registry)
