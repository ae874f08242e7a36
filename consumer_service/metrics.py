"""What `/metrics` of a consumer-service node shows."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from consumer_service.node import Node
from consumer_service.ownership.partition_states import Cause
from coordination.zookeeper.session_metrics import session_samples
from lakequeue import metrics
from lakequeue.metrics.declaring import Sample
from queue_tables.delta.storage_meter import METER, samples
from serving.front_samples import FrontSamples
from serving.host_samples import HostSamples
from serving.meters import Meters

_CHANGES = {Cause.TAKEN: "taken", Cause.RELEASED: "returned", Cause.LOST: "lost"}


class Metrics:
    """Counts what happens; asks the node for the rest when somebody looks."""

    def __init__(self, node: Node, host: HostSamples) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._polling = 0
        self._meters = meters = Meters(metrics.every.EVERY + metrics.consumer.CONSUMER)
        meters.counts(
            metrics.consumer.DELIVERED_RECORDS,
            metrics.consumer.DELIVERED_BYTES,
            metrics.consumer.ACK_S,
            metrics.consumer.ACKS_REFUSED,
            metrics.consumer.JOURNAL_COMMIT_S,
            metrics.consumer.LEASE_CHANGES,
        )
        meters.on_scrape(lambda: samples(METER.snapshot()), *metrics.every.STORAGE)
        meters.on_scrape(lambda: session_samples(node.session), *metrics.every.ZOOKEEPER)
        meters.on_scrape(host.samples, *metrics.every.HOST)
        self.front = FrontSamples()
        meters.on_scrape(self.front.samples, *metrics.front.FRONT)
        meters.on_scrape(
            node.dead_letters.samples,
            metrics.consumer.DEAD_LETTERS,
            metrics.consumer.DEAD_LETTERS_REFUSED,
        )
        meters.on_scrape(node.undecodable.samples, metrics.consumer.UNDECODABLE)
        meters.on_scrape(
            self._state,
            metrics.every.READY,
            metrics.consumer.PARKED_POLLS,
            metrics.consumer.MEMBERS,
            metrics.consumer.LEASES_HELD,
            metrics.consumer.OUTSTANDING,
            metrics.consumer.TAIL_BYTES,
            metrics.consumer.GAP_OFFSETS,
            metrics.every.LEADING,
            metrics.consumer.ASSIGNMENTS,
        )
        self.text = meters.text
        self.silent = meters.silent
        node.owned_partitions.moved = self._moved
        node.journal.timed = self._committed

    @contextlib.contextmanager
    def polling(self) -> Iterator[None]:
        """A long poll waits."""
        with self._lock:
            self._polling += 1
        try:
            yield
        finally:
            with self._lock:
                self._polling -= 1

    def delivered(self, group: str, count: int, size: int) -> None:
        """`count` records leave, in an answer of `size` bytes."""
        if count:
            self._meters.count(metrics.consumer.DELIVERED_RECORDS, count, group)
            self._meters.count(metrics.consumer.DELIVERED_BYTES, size, group)

    def acked(self, seconds: float) -> None:
        """An ack was answered with 200."""
        self._meters.observe(metrics.consumer.ACK_S, seconds)

    def refused(self, code: str) -> None:
        """An ack was answered with an error."""
        self._meters.count(metrics.consumer.ACKS_REFUSED, 1, code)

    def _moved(self, cause: Cause) -> None:
        change = _CHANGES.get(cause)
        if change is not None:
            self._meters.count(metrics.consumer.LEASE_CHANGES, 1, change)

    def _committed(self, phase: str, seconds: float) -> None:
        self._meters.observe(metrics.consumer.JOURNAL_COMMIT_S, seconds, phase)

    def _state(self) -> Iterator[Sample]:
        node = self._node
        owned = node.owned_partitions.all()
        yield Sample(metrics.every.READY, float(not node.not_ready()))
        yield Sample(metrics.consumer.PARKED_POLLS, self._polling)
        yield Sample(metrics.consumer.MEMBERS, len(node.members.all()))
        yield Sample(metrics.consumer.LEASES_HELD, sum(h.lease is not None for h in owned))
        out = sum(h.cursor.out if h.queue is None else h.queue.open for h in owned)
        yield Sample(metrics.consumer.OUTSTANDING, out)
        yield Sample(metrics.consumer.TAIL_BYTES, node.segments.bytes)
        yield Sample(metrics.consumer.GAP_OFFSETS, node.tailer.gap_offsets)
        leading = node.controller.election.leading.is_set()
        yield Sample(metrics.every.LEADING, float(leading), ("controller",))
        yield Sample(metrics.consumer.ASSIGNMENTS, node.controller.written)
