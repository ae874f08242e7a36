"""The order job as a `StreamingJob`: what its leader does, and what its standby keeps warm."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyspark.sql import SparkSession

from coordination.zookeeper.notifications import Notifier
from jobs.ordering.batch_accumulator import Done
from jobs.ordering.executor_writer import write_on_executors
from jobs.ordering.maintenance_runs import MaintenanceRuns, jobs_of
from jobs.ordering.order_batch import OrderTerm, WriteFiles
from jobs.ordering.order_state import OrderState
from jobs.ordering.rejects import RejectsTable
from jobs.source.leader_state import LeaderState
from jobs.streaming.checkpoints import Checkpoints
from jobs.streaming.leader import StreamingJob
from jobs.streaming.query import Part
from jobs.streaming.sealing import Sealer
from jobs.streaming.table_sizes import TableSizes
from lakequeue import metrics
from lakequeue.errors import NotReady
from lakequeue.metrics.declaring import Sample
from lakequeue.records import Epoch, ShardName, Version
from lakequeue.settings import OrderSettings
from lakequeue.steps import Step, reach
from lakequeue.tracing import spans
from queue_tables.root import QueueRoot
from queue_tables.schema.reasons import Fate, with_fate
from queue_tables.schema.schemas import LOG, REJECTS
from serving.meters import Meters

log = structlog.get_logger("order")

PUT_ASIDE = frozenset(with_fate(Fate.PUT_ASIDE))


class OrderJob(StreamingJob):
    """Orders the inbox shards into `log`."""

    name = "order"
    source_topic = "inbox"
    standby_topic = "log"
    writers_role = "ingest"

    def __init__(
        self,
        root: QueueRoot,
        settings: OrderSettings,
        notifier: Notifier | None,
        tables_s: float = 0.0,
    ) -> None:
        self._root = root
        self._settings = settings
        self._notifier = notifier
        self._opened: OrderState | None = None
        self._term: OrderTerm | None = None
        self._lock = threading.Lock()
        self._halts: Counter[ShardName] = Counter()
        """How often each shard came to wait in this term."""
        self._news = False
        """The source has to hear of that, after the next commit."""
        self._sealer = Sealer(root, "inbox")
        self._log_checkpoints = Checkpoints(root, LOG.name, settings.checkpoint_every)
        self._reject_checkpoints = Checkpoints(root, REJECTS.name, settings.checkpoint_every)
        self._maintenance = MaintenanceRuns(
            root.uri,
            settings.maintenance_s,
            jobs=jobs_of(settings),
        )
        self._sizes = TableSizes(root.store, tables_s)
        self._meters: Meters | None = None
        self.done = Counter(batches=0, records=0, duplicates=0, refused=0)

    def watch(self, meters: Meters) -> None:
        """Count batches and maintenance; tell of the index, the topics and the tables."""
        self._meters = meters
        meters.counts(
            metrics.driver.ORDER_RECORDS,
            metrics.driver.ORDER_PUT_ASIDE,
            metrics.driver.ORDER_BATCH_S,
            metrics.driver.ORDER_BATCH_ROWS,
            metrics.driver.MAINTENANCE,
        )
        self._maintenance.ended = lambda job, outcome: meters.count(
            metrics.driver.MAINTENANCE, 1, job, outcome
        )
        meters.on_scrape(
            self._state_samples,
            metrics.driver.ORDER_INDEX,
            metrics.driver.TOPICS,
            metrics.driver.PARTITIONS,
        )
        meters.on_scrape(
            self._sizes.samples,
            metrics.driver.TABLE_FILES,
            metrics.driver.TABLE_BYTES,
            metrics.driver.TABLE_LOG_OBJECTS,
            metrics.driver.SHARDS,
        )

    def _state_samples(self) -> Iterator[Sample]:
        """Without the lock, which a batch may hold for long: sizes of dictionaries are enough."""
        if self._opened is None:
            return  # its tables are damaged, or it has just started
        yield Sample(metrics.driver.ORDER_INDEX, len(self._state.index))
        if self._term is None:
            return  # the leader tells
        topics = self._state.topics.list()
        yield Sample(metrics.driver.TOPICS, len(topics))
        yield Sample(metrics.driver.PARTITIONS, sum(topic.partitions for topic in topics))

    def warm(self) -> None:
        """Load the index of ids. Raises what is wrong with `log` and `topics`, if anything is."""
        with self._lock:
            if self._opened is None:
                self._opened = OrderState(self._root, self._settings.max_index_ids)
            self._state.warm()

    @property
    def _state(self) -> OrderState:
        if self._opened is None:
            raise NotReady("log and topics are not read yet")
        return self._opened

    def follow(self) -> None:
        """Take in the leader's commits."""
        with self._lock:
            self._state.catch_up()

    def recorded_epoch(self) -> Epoch:
        """The higher one of `log` and `rejects`."""
        with self._lock:
            self._state.catch_up()
            return max(self._state.epoch, RejectsTable(self._root).epoch)

    def begin(self, epoch: Epoch) -> None:
        """Commit the epoch; from here on only this leader orders."""
        with self._lock:
            term = OrderTerm(self._state, epoch, files=self._settings.tasks)
            term.begin()
            self._state.warm()
            self._term = term
            self._halts.clear()

    def state(self) -> LeaderState:
        """Epoch, watermarks, and the cut that must come first, if any."""
        with self._lock:
            term = self._begun()
            held = {shard: held.stamp for shard, held in term.blocked.items()}
            return LeaderState(
                term.epoch, self._state.watermarks(), term.plan, held, dict(self._halts)
            )

    def warnings(self) -> list[str]:
        """The shards that wait, and what brings each of them on."""
        held = self._term.blocked if self._term is not None else {}
        waits = [f"inbox/{shard} waits: {one.why}; {one.remedy}" for shard, one in held.items()]
        return [*waits, *self.troubles()]

    def troubles(self) -> list[str]:
        """That storage refuses a file without which nothing is ordered."""
        refused = self._term.refused if self._term is not None else None
        return [] if refused is None else [refused]

    def stop(self) -> None:
        """Wait for storage no longer."""
        if self._term is not None:
            self._term.stop()

    def _begun(self) -> OrderTerm:
        if self._term is None:
            raise NotReady("no term has begun")
        return self._term

    def process(self, spark: SparkSession, parts: Sequence[Part]) -> bool:
        """Order one cut, and ring."""
        return self.prepare(spark, parts)()

    def prepare(self, spark: SparkSession, parts: Sequence[Part]) -> Callable[[], bool]:
        """Number and write a cut; what is returned commits it, and rings."""
        began = time.perf_counter()
        with self._heeding() as term:
            commit = term.prepare(parts, partial(self._writer, spark))

        def ready() -> bool:
            with self._heeding():
                done = commit(lambda part: self._tell(part, began))
            if done is not None:
                self._tell(done, began)
            news, self._news = self._news, False
            return news

        return ready

    @contextmanager
    def _heeding(self) -> Iterator[OrderTerm]:
        """The term, and the lock; which shards come to wait is counted. Files may be back, and the
        shards go on, before what was prepared without them is committed."""
        with self._lock:
            term = self._begun()
            held = term.blocked
            try:
                yield term
            finally:
                if term.blocked != held:
                    self._halts.update(term.blocked.keys() - held.keys())
                    self._news = True

    def _tell(self, done: Done, began: float) -> None:
        if self._notifier is not None:
            self._notifier.notify(done.version)
        reach(Step.ORDER_NOTIFIED)
        self.done.update(
            batches=1, records=done.ordered, duplicates=done.duplicates, refused=done.refused
        )
        _trace(done, time.perf_counter() - began)
        if self._meters is not None:
            _count(self._meters, done, time.perf_counter() - began)
        log.debug(
            "batch.ordered",
            rows=done.rows,
            ordered=done.ordered,
            duplicates=done.duplicates,
            refused=done.refused,
            version=done.version,
            numbering_ms=round(done.numbering_s * 1e3, 1),
            writing_ms=round(done.writing_s * 1e3, 1),
            committing_ms=round(done.committing_s * 1e3, 1),
            all_ms=round((time.perf_counter() - began) * 1e3, 1),
        )

    def _writer(self, spark: SparkSession, rows: pa.Table) -> WriteFiles | None:
        if pc.sum(rows["bytes"]).as_py() <= self._settings.driver_batch_bytes:
            return None
        return partial(write_on_executors, spark)

    def upkeep(self, live_nodes: set[str] | None) -> bool:
        """Checkpoints of `log` and `rejects`, seals of shards whose node is gone, maintenance."""
        with self._lock:
            go_on = self._term is not None and self._term.unblock()
            version = self._state.log.version
            watermarks = self._state.watermarks()
            rejects_version = self._term.rejects_version if self._term else Version(0)
        self._log_checkpoints.write_if_due(version)
        self._reject_checkpoints.write_if_due(rejects_version)
        if live_nodes is not None:
            self._sealer.seal_abandoned(live_nodes, watermarks)
        self._maintenance.run_if_due()
        self._sizes.measure_if_due()
        return go_on


def _trace(done: Done, seconds: float) -> None:
    spans.passed(
        "order",
        None,
        "INTERNAL",
        seconds,
        links=done.traces,
        attributes={
            "messaging.batch.message_count": done.rows,
            "lakequeue.order.duplicates": done.duplicates,
            "lakequeue.order.refused": done.refused,
            "lakequeue.log.version": int(done.version),
        },
    )


def _count(meters: Meters, done: Done, seconds: float) -> None:
    for result, rows in {
        "ordered": done.ordered,
        "duplicate": done.duplicates,
        "refused": done.refused,
    }.items():
        meters.count(metrics.driver.ORDER_RECORDS, rows, result)
    for (topic, reason), rows in done.refusals.items():
        if reason in PUT_ASIDE:
            meters.count(metrics.driver.ORDER_PUT_ASIDE, rows, topic, reason)
    for phase, spent in {
        "numbering": done.numbering_s,
        "writing": done.writing_s,
        "committing": done.committing_s,
        "all": seconds,
    }.items():
        meters.observe(metrics.driver.ORDER_BATCH_S, spent, phase)
    meters.observe(metrics.driver.ORDER_BATCH_ROWS, done.rows)
