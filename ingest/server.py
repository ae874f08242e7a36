"""An ingest node as a process."""

from __future__ import annotations

from ingest.http.app import create_app
from ingest.http.producing import Producing
from ingest.http.ways import Ways
from ingest.metrics import Metrics
from ingest.node import IngestNode
from lakequeue.settings import Settings
from lakequeue.steps import arm
from queue_tables.audit import Audit
from queue_tables.entries import AccessWatch, must_be_locked
from queue_tables.files.import_guard import keep_pandas_out
from serving.doors.gate import ServiceGate, names_of
from serving.doors.issuers import Issuers
from serving.host_samples import HostSamples
from serving.process import DRAIN_S, Listening, Served, serve
from serving.tls import tls_of


def run(settings: Settings, node: str, parent: int | None) -> None:
    """Serve until SIGTERM or SIGINT. `parent`: end when this process (or 0: the parent) does."""
    ingest = settings.ingest
    at = Listening(ingest.host, ingest.port, settings.front, tls_of(settings.tls), ingest.url)
    serve(node, at, lambda url: _start(settings, node, url), parent, "ingest")


def _start(settings: Settings, name: str, url: str) -> Served:
    """Open the root and a shard."""
    keep_pandas_out()
    must_be_locked(settings.root, settings.ingest.host, settings.access)
    node = IngestNode(settings, name, url).start()
    audit = Audit(node.root, name).start()
    names = names_of(url, settings.ingest.host)
    gate = ServiceGate("ingest", settings.access, names, audit, host=settings.ingest.host)
    watch = AccessWatch(node.root, gate.replace).start()
    issuers = Issuers(gate.doors, settings.ca).start()
    arm(settings.crash_at)
    metrics = Metrics(node, HostSamples(settings, node.root.store.local_path))
    producing = Producing(node, metrics, audit)

    def close() -> None:
        node.close(DRAIN_S)
        issuers.stop()
        watch.stop()
        audit.close()

    return Served(
        app=create_app(node, metrics, producing, audit),
        facts={"shard": node.appender.shard},
        on_term=node.stopping.set,
        close=close,
        ways=Ways(settings, node, producing, gate).all(),
        bodies=node.budget,
        gate=gate,
        on_front=metrics.front.began,
    )
