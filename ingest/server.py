"""An ingest node as a process."""

from __future__ import annotations

from ingest.http.app import create_app
from ingest.http.producing import Producing
from ingest.http.ways import Ways
from ingest.lean import let_arrow_go_without_pandas
from ingest.metrics import Metrics
from ingest.node import IngestNode
from lakequeue.settings import Settings
from lakequeue.steps import arm
from serving.process import DRAIN_S, Listening, Served, serve


def run(settings: Settings, node: str, parent: int | None) -> None:
    """Serve until SIGTERM or SIGINT. `parent`: end when this process (or 0: the parent) does."""
    ingest = settings.ingest
    at = Listening(ingest.host, ingest.port, settings.front, ingest.url)
    serve(node, at, lambda url: _start(settings, node, url), parent)


def _start(settings: Settings, name: str, url: str) -> Served:
    """Open the root and a shard."""
    let_arrow_go_without_pandas()
    node = IngestNode(settings, name, url).start()
    arm(settings.crash_at)
    metrics = Metrics(node)
    producing = Producing(node, metrics)
    return Served(
        app=create_app(node, metrics, producing),
        facts={"shard": node.appender.shard},
        on_term=node.stopping.set,
        close=lambda: node.close(DRAIN_S),
        ways=Ways(settings, node, producing).all(),
        bodies=node.budget,
        on_front=metrics.front.began,
    )
