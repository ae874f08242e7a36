"""What `/metrics` of an ingest node shows."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator

from coordination.zookeeper.session_metrics import session_samples
from ingest.commit.appender import Committed
from ingest.commit.unordered import Unordered
from ingest.node import IngestNode
from lakequeue import metrics
from lakequeue.metrics.declaring import Sample
from queue_tables.delta.storage_meter import METER, samples
from serving.front_samples import FrontSamples
from serving.host_samples import HostSamples
from serving.meters import Meters

RECENT_S = 300.0
MOST_PRODUCERS = 10_000
COUNTED_AT_ONCE = 256


class Metrics:
    """Counts what happens; asks the node for the rest when somebody looks."""

    def __init__(self, node: IngestNode, host: HostSamples) -> None:
        self._node = node
        self._unordered = Unordered()
        self._producers = Recent(RECENT_S, MOST_PRODUCERS)
        self._meters = meters = Meters(metrics.every.EVERY + metrics.ingest.INGEST)
        meters.counts(
            metrics.ingest.INGEST_REQUESTS,
            metrics.ingest.INGEST_RECORDS,
            metrics.ingest.INGEST_BYTES,
            metrics.ingest.INGEST_REQUEST_S,
            metrics.ingest.INGEST_COMMIT_S,
            metrics.ingest.INGEST_GROUP_ROWS,
            metrics.ingest.INGEST_FAULTY,
        )
        meters.on_scrape(lambda: samples(METER.snapshot()), *metrics.every.STORAGE)
        meters.on_scrape(lambda: session_samples(node.presence.session), *metrics.every.ZOOKEEPER)
        meters.on_scrape(host.samples, *metrics.every.HOST)
        self.front = FrontSamples()
        meters.on_scrape(self.front.samples, *metrics.front.FRONT)
        meters.on_scrape(
            self._state,
            metrics.every.READY,
            metrics.ingest.INGEST_PENDING,
            metrics.ingest.INGEST_INCARNATIONS,
            metrics.ingest.INGEST_PRODUCERS,
        )
        meters.on_scrape(
            self._inbox,
            metrics.ingest.INBOX_RECORDS,
            metrics.ingest.INBOX_BYTES,
            metrics.ingest.INBOX_AGE,
        )
        self._answered: deque[tuple[int, int, float]] = deque()
        """Requests answered with 200 that are not counted yet: records, bytes, seconds."""
        self.silent = meters.silent

    def committed(self, committed: Committed) -> None:
        """A group is durable."""
        meters = self._meters
        for phase, seconds in committed.spent.items():
            meters.observe(metrics.ingest.INGEST_COMMIT_S, seconds, phase)
        meters.observe(metrics.ingest.INGEST_GROUP_ROWS, committed.rows)
        self._unordered.committed(committed.shard, committed.stamp, committed.rows, committed.bytes)

    def text(self) -> bytes:
        """The exposition."""
        self._count_answered()
        return self._meters.text()

    def produced(self, records: int, size: int, seconds: float, producer_id: str | None) -> None:
        """A request is answered with 200. Many are counted at once: each alone is a lock or two."""
        self._answered.append((records, size, seconds))
        if len(self._answered) >= COUNTED_AT_ONCE:
            self._count_answered()
        if producer_id is not None:
            self._producers.seen(producer_id, time.monotonic())

    def _count_answered(self) -> None:
        some: list[tuple[int, int, float]] = []
        with contextlib.suppress(IndexError):
            while True:
                some.append(self._answered.popleft())
        if not some:
            return
        meters = self._meters
        meters.count(metrics.ingest.INGEST_REQUESTS, len(some), "ok")
        meters.count(metrics.ingest.INGEST_RECORDS, sum(records for records, _, _ in some))
        meters.count(metrics.ingest.INGEST_BYTES, sum(size for _, size, _ in some))
        for _, _, seconds in some:
            meters.observe(metrics.ingest.INGEST_REQUEST_S, seconds)

    def faulty(self, records: int) -> None:
        """So many values that are not of their topic's schema were taken."""
        self._meters.count(metrics.ingest.INGEST_FAULTY, records)

    def refused(self, code: str) -> None:
        """A request is answered with an error."""
        self._meters.count(metrics.ingest.INGEST_REQUESTS, 1, code)

    def _state(self) -> Iterator[Sample]:
        node = self._node
        yield Sample(metrics.every.READY, float(not node.troubles()))
        yield Sample(metrics.ingest.INGEST_PENDING, node.budget.used)
        yield Sample(metrics.ingest.INGEST_INCARNATIONS, node.appender.incarnations)
        yield Sample(metrics.ingest.INGEST_PRODUCERS, self._producers.count(time.monotonic()))

    def _inbox(self) -> Iterator[Sample]:
        records, size, oldest = self._unordered.left(
            self._node.marks.read(*self._unordered.marks())
        )
        yield Sample(metrics.ingest.INBOX_RECORDS, records)
        yield Sample(metrics.ingest.INBOX_BYTES, size)
        age_s = 0.0 if oldest is None else max(0.0, (self._node.now() - oldest) / 1e6)
        yield Sample(metrics.ingest.INBOX_AGE, age_s)


class Recent:
    """How many different names were seen in the last while. Thread-safe."""

    def __init__(self, window_s: float, most: int) -> None:
        self._window_s = window_s
        self._most = most
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, float] = OrderedDict()

    def seen(self, name: str, now: float) -> None:
        """Once more; beyond the bound the longest silent one is forgotten."""
        with self._lock:
            self._seen[name] = now
            self._seen.move_to_end(name)
            if len(self._seen) > self._most:
                self._seen.popitem(last=False)

    def count(self, now: float) -> int:
        """Names seen within the window before `now`, in seconds of the same clock."""
        with self._lock:
            while self._seen and next(iter(self._seen.values())) < now - self._window_s:
                self._seen.popitem(last=False)
            return len(self._seen)
