"""What whoever watches a driver sees: metrics and readiness of its jobs, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from coordination.zookeeper.registry import nodes
from coordination.zookeeper.session import Session
from coordination.zookeeper.session_metrics import session_samples
from jobs.streaming.leader import Leader
from jobs.streaming.query import ShardQuery
from lakequeue import metrics
from lakequeue.errors import CoordinationUnavailable
from lakequeue.metrics.declaring import Sample
from lakequeue.settings import Settings
from queue_tables.audit import Audit
from queue_tables.delta.storage_meter import METER, Usage, samples
from queue_tables.entries import AccessWatch, must_be_locked
from queue_tables.root import QueueRoot
from queue_tables.upkeep.health import TablesWatch
from serving.doors.gate import ServiceGate, names_of
from serving.doors.issuers import Issuers
from serving.host_samples import HostSamples
from serving.meters import Meters
from serving.monitor import Monitor
from serving.tls import tls_of

_ROLES = ("ingest", "consumer", "driver")


class DriverMetrics:
    """Of one driver process; its jobs are added as they start."""

    def __init__(self, node: str, session: Session, root: QueueRoot, settings: Settings) -> None:
        """Raises `UnlockedDoors`."""
        driver = settings.driver
        must_be_locked(root.uri, driver.host, settings.access)
        self._settings = driver
        self._audit = Audit(root, node)
        names = names_of("", driver.host)
        gate = ServiceGate("driver", settings.access, names, self._audit, host=driver.host)
        self._access = AccessWatch(root, gate.replace)
        self._issuers = Issuers(gate.doors, settings.ca)
        self.meters = Meters(metrics.every.EVERY + metrics.driver.DRIVER)
        self._session = session
        self._jobs: list[tuple[Leader, ShardQuery]] = []
        self._tables = TablesWatch(root)
        self._monitor = Monitor(
            node, self.reasons, self.meters.text, self.warnings, gate, tls_of(settings.tls)
        )
        self.meters.on_scrape(self._storage, *metrics.every.STORAGE)
        self.meters.on_scrape(lambda: session_samples(session), *metrics.every.ZOOKEEPER)
        host = HostSamples(settings, root.store.local_path)
        self.meters.on_scrape(host.samples, *metrics.every.HOST)
        self.meters.on_scrape(self._nodes, metrics.driver.NODES)
        self.meters.on_scrape(self._pending, metrics.driver.ORDER_PENDING)
        self.meters.on_scrape(self._waiting, metrics.driver.ORDER_WAITING)
        self.meters.on_scrape(
            self._states, metrics.every.READY, metrics.every.LEADING, metrics.driver.JOB_TERMS
        )

    def start(self) -> str | None:
        """Serve; the URL, or None if the port cannot be had."""
        self._access.start()
        self._issuers.start()
        self._audit.start()
        return self._monitor.start(self._settings.host, self._settings.port)

    def add(self, leader: Leader, query: ShardQuery) -> None:
        """A job starts."""
        self._jobs.append((leader, query))

    def close(self) -> None:
        """Serve no more."""
        self._monitor.close()
        self._access.stop()
        self._issuers.stop()
        self._audit.close()

    def reasons(self) -> list[str]:
        """Why this driver would be of no use now; [] when it leads, or is ready to."""
        if not self._jobs:
            return ["Spark is starting"]
        found = [why for leader, _ in self._jobs for why in leader.troubles()]
        if not self._session.connected.is_set() and not any(
            leader.leading for leader, _ in self._jobs
        ):
            # A leader goes on without ZooKeeper; a standby cannot become one.
            found.append("ZooKeeper does not answer: this standby could not take over")
        return found

    def warnings(self) -> list[str]:
        """What waits for a person, while all else goes on."""
        found = [why for leader, _ in self._jobs for why in leader.warnings()]
        found += [str(trouble) for trouble in self._tables.troubles()]
        for leader, query in self._jobs:
            if leader.leading:
                stuck = query.told().stuck.items()
                found += [f"{leader.name}: shard {s} cannot be read: {why}" for s, why in stuck]
        return found

    def _waiting(self) -> Iterator[Sample]:
        if any(leader.name == "order" and leader.leading for leader, _ in self._jobs):
            yield Sample(metrics.driver.ORDER_WAITING, len(self.warnings()))

    def _states(self) -> Iterator[Sample]:
        yield Sample(metrics.every.READY, float(not self.reasons()))
        for leader, _ in self._jobs:
            yield Sample(metrics.every.LEADING, float(leader.leading), (leader.name,))
            yield Sample(metrics.driver.JOB_TERMS, leader.terms, (leader.name,))

    def _storage(self) -> Iterator[Sample]:
        """Of this process, and of those that plan its batches."""
        told = [query.told().usage for _, query in self._jobs]
        return samples(reduce(Usage.plus, told, METER.snapshot()))

    def _pending(self) -> Iterator[Sample]:
        for leader, query in self._jobs:
            if leader.name == "order" and leader.leading:
                yield Sample(metrics.driver.ORDER_PENDING, query.told().pending)

    def _nodes(self) -> Iterator[Sample]:
        if not self._session.trusted():
            raise CoordinationUnavailable("ZooKeeper does not answer")
        for role in _ROLES:
            yield Sample(metrics.driver.NODES, len(nodes(self._session, role)), (role,))
