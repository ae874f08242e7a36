"""An ingest node as a process."""

from __future__ import annotations

from ingest.app import create_app
from ingest.lean import let_arrow_go_without_pandas
from ingest.node import IngestNode
from lakequeue.settings import Settings
from lakequeue.steps import arm
from serving.process import DRAIN_S, Listening, Served, serve


def run(settings: Settings, node: str, parent: int | None) -> None:
    """Serve until SIGTERM or SIGINT. `parent`: end when this process (or 0: the parent) does."""
    ingest = settings.ingest
    # With no connections to spare beside the threads the health check would starve.
    at = Listening(ingest.host, ingest.port, ingest.threads, ingest.threads * 4 + 100, ingest.url)
    serve(node, at, lambda url: _start(settings, node, url), parent)


def _start(settings: Settings, name: str, url: str) -> Served:
    """In the worker: open the root and a shard."""
    let_arrow_go_without_pandas()
    node = IngestNode(settings, name, url)
    arm(settings.crash_at)
    return Served(
        app=create_app(node),
        facts={"shard": node.appender.shard},
        on_term=node.stopping.set,
        close=lambda: node.close(DRAIN_S),
    )
