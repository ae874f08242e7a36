"""A job's life: standby, then one term as leader, then the end of the process.

The election is for liveness. Safety is the epoch in the job's own table: a leader that is not the
newest is refused there, whatever ZooKeeper says, and then this process ends with `Exit.FENCED`,
to be started again as a standby. While ZooKeeper is away a leader goes on.

| state | may | ends by |
|---|---|---|
| standby | keep its memory warm by following the table | the election is won |
| leading | order | a newer epoch in the table; the process stops |
"""

from __future__ import annotations

import contextlib
import logging
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import structlog
from pyspark.sql import SparkSession

from coordination.zookeeper.election import Election, leader
from coordination.zookeeper.epochs import next_epoch
from coordination.zookeeper.notifications import NotificationListener
from coordination.zookeeper.registry import nodes
from coordination.zookeeper.session import Session
from jobs.source.leader_state import LeaderState
from jobs.streaming.query import Part, ShardQuery
from lakequeue.errors import (
    CoordinationUnavailable,
    CorruptTable,
    LakequeueError,
    LeadershipLost,
    SchemaDrift,
    StorageUnavailable,
)
from lakequeue.records import Epoch
from serving.meters import Meters

log = structlog.get_logger("leader")

SLOW_POLL_S = 1.0
UPKEEP_S = 5.0
_LOOK_S = 0.2
_DAMAGED_S = 5.0
"""Between two looks at a table that is damaged: somebody may have repaired it."""
Say = Callable[..., None]
T = TypeVar("T")


class StreamingJob(ABC):
    """What a job does; the order job and the offsets job each are one."""

    name: str
    """Of the election and the epoch."""
    source_topic: str
    """The notification that wakes its source."""
    standby_topic: str
    """The notification that wakes its standby."""
    writers_role: str
    """The role of the nodes whose shards it reads."""
    done: Counter[str]
    """What this process has done, for its report."""

    @abstractmethod
    def warm(self) -> None:
        """Standby: load what a leader needs to know."""

    @abstractmethod
    def follow(self) -> None:
        """Standby: take in what the leader has committed since."""

    @abstractmethod
    def recorded_epoch(self) -> Epoch:
        """The newest epoch that the tables record."""

    @abstractmethod
    def begin(self, epoch: Epoch) -> None:
        """Commit the epoch. Raises `LeadershipLost` if a higher one is there."""

    @abstractmethod
    def state(self) -> LeaderState:
        """The term that has begun, with the watermarks of now."""

    @abstractmethod
    def process(self, spark: SparkSession, parts: Sequence[Part]) -> bool | None:
        """One batch, in parts that are read when they are called for; returns as `Ready`."""

    def prepare(self, spark: SparkSession, parts: Sequence[Part]) -> Callable[[], bool | None]:
        """All of a batch that nobody sees, before Spark runs it; what is returned does the rest."""
        return partial(self.process, spark, parts)

    def warnings(self) -> list[str]:
        """What waits for a person, while the job goes on."""
        return []

    def troubles(self) -> list[str]:
        """For what the whole job waits."""
        return []

    def stop(self) -> None:  # noqa: B027 -- most jobs wait for nothing
        """The process ends: wait for nothing any longer."""

    @abstractmethod
    def watch(self, meters: Meters) -> None:
        """Before it starts: let what it does be counted."""

    @abstractmethod
    def upkeep(self, live_nodes: set[str] | None) -> bool | None:
        """Leading, every few seconds, beside the batches; whether the term says something new.

        `live_nodes`: those whose shards are read; None while ZooKeeper does not tell.
        """


class Leader:
    """Runs one `StreamingJob` with its query, its election and its notifications."""

    def __init__(
        self,
        job: StreamingJob,
        session: Session,
        query: ShardQuery,
        say: Say,
        *,
        patient: bool = False,
    ) -> None:
        """`patient`: a damaged table is waited for, so that other jobs of the process go on."""
        self._patient = patient
        self.damage: LakequeueError | None = None
        """What keeps the job from its tables now; None: nothing."""
        self._job = job
        self._session = session
        self._query = query
        self._say = say
        # A dead leader sends no notification: whoever has won must not wait for one.
        news = threading.Event()
        self._election = Election(session, job.name, event=news)
        self._stopping = threading.Event()
        self._source_listener = NotificationListener(session, job.source_topic)
        self._standby_listener = NotificationListener(session, job.standby_topic, news)
        self.error: BaseException | None = None
        self.failed = threading.Event()
        self.leading = False
        self.terms = 0
        """Terms that this process has begun."""
        self._standing_by = False
        self._threads = [
            threading.Thread(target=self._live, name=f"{job.name}-leader", daemon=True),
            threading.Thread(target=self._hear, name=f"{job.name}-listener", daemon=True),
        ]

    def start(self) -> None:
        """Become a standby and a candidate, as soon as everything is warm."""
        for notifier in (self._source_listener, self._standby_listener):
            notifier.start()
        for thread in self._threads:
            thread.start()

    @property
    def name(self) -> str:
        """Of the job."""
        return self._job.name

    def warnings(self) -> list[str]:
        """What waits for a person, while this job goes on."""
        return self._job.warnings() if self.leading else []

    def troubles(self) -> list[str]:
        """Why this job neither leads nor could take over; [] if it does or could."""
        if self.error is not None:
            return [f"{self.name}: {self.error}"]
        if self._query.ended.is_set() or self._stopping.is_set():
            return [f"{self.name}: has ended"]
        if self.damage is not None:
            return [f"{self.name}: {self.damage}"]
        if not (self.leading or self._standing_by):
            return [f"{self.name}: warming up"]
        return [f"{self.name}: {why}" for why in self._job.troubles()] if self.leading else []

    def stop(self) -> None:
        """Finish the running batch, begin no other, resign."""
        self._stopping.set()
        self._job.stop()
        self._query.hold()
        self._election.stop()

    def _hear(self) -> None:
        while not self._stopping.is_set():
            if self._source_listener.wait(SLOW_POLL_S * 30):
                self._query.wake()

    def _live(self) -> None:
        try:
            self._mended(self._job.warm)
            while not self._query.rehearsed.wait(_LOOK_S):
                if self._stopping.is_set() or self._query.ended.is_set():
                    return
            # Only now: who waits for this state may count on a batch being quick.
            self._standing_by = True
            self._say(**{self._job.name: {"state": "standby"}})
            self._election.start()
            while not self._election.wait_leading(0.0):
                self._standby_listener.wait(SLOW_POLL_S)
                if self._stopping.is_set():
                    return
                self._mended(self._job.follow)
            self._lead()
        except BaseException as error:  # noqa: BLE001 -- the process ends by it, and says so
            self.error = error
            self.failed.set()

    def _lead(self) -> None:
        self._standby_listener.end()  # it would hear its own notifications
        epoch = self._mended(self._begin)
        if epoch is None:
            return
        self._query.lead(self._job.state)
        self.leading, self.terms = True, self.terms + 1
        state = {"state": "leading", "epoch": epoch}
        self._say(**{self._job.name: state})
        log.info("leader.elected", job=self._job.name, epoch=epoch)
        with contextlib.suppress(CoordinationUnavailable):
            # Told for people; nothing depends on it.
            self._election.announce({"epoch": epoch})
        while not self._stopping.wait(UPKEEP_S):
            self._check_superseded(epoch)
            if log.is_enabled_for(logging.DEBUG):  # it takes the JVM some milliseconds
                log.debug("query.triggered", job=self._job.name, **self._query.triggers())
            try:
                if self._job.upkeep(self._live_nodes()):
                    self._query.tell()
            except (SchemaDrift, CorruptTable, StorageUnavailable) as problem:
                # Of one table, or for a moment: ordering and folding do not wait for checkpoints.
                log.warning("upkeep.failed", job=self._job.name, why=str(problem))

    def _begin(self) -> Epoch:
        epoch = next_epoch(self._session, self._job.name, above=self._job.recorded_epoch())
        self._job.begin(epoch)
        return epoch

    def _mended(self, attempt: Callable[[], T]) -> T | None:
        """What the attempt returns; tried again while a table is damaged. None: stopping."""
        while True:
            try:
                result = attempt()
            except (SchemaDrift, CorruptTable) as damage:
                if not self._patient:
                    raise
                if self.damage is None:
                    log.warning("table.damaged", job=self._job.name, why=str(damage))
                self.damage = damage
                if self._stopping.wait(_DAMAGED_S):
                    return None
            else:
                self.damage = None
                return result

    def _live_nodes(self) -> set[str] | None:
        if not self._session.trusted():
            return None
        try:
            return set(nodes(self._session, self._job.writers_role))
        except CoordinationUnavailable:
            return None

    def _check_superseded(self, epoch: Epoch) -> None:
        """An idle leader would not meet the newer epoch in its table: ask who leads."""
        if self._election.leading.is_set() or not self._session.connected.is_set():
            return
        try:
            other = leader(self._session, self._job.name)
        except LakequeueError:
            return
        if other is not None and int(other.get("epoch") or 0) > epoch:
            raise LeadershipLost(
                f"{self._job.name}: epoch {epoch}, and {other['epoch']} leads now",
                hint="this process starts again as a standby",
            )
