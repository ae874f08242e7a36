"""What `/metrics` shows, in Prometheus' text format."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ingest.appender import Committed
from ingest.node import IngestNode

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_ROWS = (1, 10, 100, 1_000, 10_000, 100_000)


class Metrics:
    """Counters of one node; a registry of its own, so that several may live in one process."""

    def __init__(self, node: IngestNode) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "lakequeue_ingest_requests",
            "produce requests by outcome: ok, or the code of the error",
            ["outcome"],
            registry=self.registry,
        )
        self._records = Counter(
            "lakequeue_ingest_records", "records acknowledged", registry=self.registry
        )
        self._bytes = Counter(
            "lakequeue_ingest_record_bytes",
            "bytes of keys, values and headers acknowledged",
            registry=self.registry,
        )
        self._request_seconds = Histogram(
            "lakequeue_ingest_request_seconds",
            "time of a produce request that was answered with 200, from its headers on",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._commit_seconds = Histogram(
            "lakequeue_ingest_commit_seconds",
            "time of a group commit, from its stamp to durable",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._group_rows = Histogram(
            "lakequeue_ingest_group_rows",
            "records in a group commit",
            buckets=_ROWS,
            registry=self.registry,
        )
        pending = Gauge(
            "lakequeue_ingest_pending_bytes",
            "bytes being read, parsed or committed",
            registry=self.registry,
        )
        pending.set_function(lambda: node.budget.used)
        ready = Gauge(
            "lakequeue_ingest_ready", "1: the node takes requests", registry=self.registry
        )
        ready.set_function(lambda: not node.troubles())
        shards = Gauge(
            "lakequeue_ingest_incarnations",
            "inbox shards opened by this process; above 1: it was taken for dead",
            registry=self.registry,
        )
        shards.set_function(lambda: node.appender.incarnations)

    def committed(self, committed: Committed) -> None:
        """A group is durable."""
        self._commit_seconds.observe(committed.seconds)
        self._group_rows.observe(committed.rows)

    def produced(self, records: int, size: int, seconds: float) -> None:
        """A request is answered with 200."""
        self._requests.labels("ok").inc()
        self._records.inc(records)
        self._bytes.inc(size)
        self._request_seconds.observe(seconds)

    def refused(self, code: str) -> None:
        """A request is answered with an error."""
        self._requests.labels(code).inc()

    def text(self) -> bytes:
        """The exposition."""
        return generate_latest(self.registry)
