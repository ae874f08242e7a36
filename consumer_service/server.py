"""A consumer-service node as a process."""

from __future__ import annotations

import threading
from pathlib import Path

import structlog

from consumer_service.clients import Clients
from consumer_service.http.app import create_app
from consumer_service.http.native import Native
from consumer_service.http.ways import ways_of
from consumer_service.memory import return_what_is_free
from consumer_service.metrics import Metrics
from consumer_service.node import Node
from consumer_service.own_key import OwnKey
from coordination.groups.webhooks import Webhook
from coordination.zookeeper.session import Session
from lakequeue.calling.credentials import Credentials, use
from lakequeue.client.consuming.consumer import Consumer
from lakequeue.client.redrive_parts import redrive_part
from lakequeue.errors import MissingDependency
from lakequeue.settings import Settings
from lakequeue.steps import arm
from queue_tables.audit import Audit
from queue_tables.entries import AccessWatch, must_be_locked
from queue_tables.files.import_guard import keep_pandas_out
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG, TOPICS
from serving.doors.gate import ServiceGate, names_of
from serving.doors.issuers import Issuers
from serving.host_samples import HostSamples
from serving.process import DRAIN_S, Listening, Served, serve
from serving.tls import tls_of

log = structlog.get_logger()


def run(settings: Settings, name: str, parent: int | None) -> None:
    """Serve until SIGTERM or SIGINT. `parent`: end when this process (or 0: the parent) does."""
    # Before there are threads.
    log.debug("memory.configured", **return_what_is_free())
    consumer = settings.consumer
    at = Listening(consumer.host, consumer.port, settings.front, tls_of(settings.tls), consumer.url)
    serve(name, at, lambda url: _start(settings, name, url), parent, "consumer")


def _start(settings: Settings, name: str, url: str) -> Served:
    """Become a node."""
    keep_pandas_out()
    must_be_locked(settings.root, settings.consumer.host, settings.access)
    # Asked for when a client calls: until then nothing is read.
    keys: list[OwnKey] = []
    use(Credentials(lambda: keys[0].secret() if keys else None, ca=_text(settings.ca)))
    node = make_node(settings, name)
    audit = Audit(node.root, name).start()
    names = names_of(url, settings.consumer.host)
    gate = ServiceGate("consumer", settings.access, names, audit, host=settings.consumer.host)
    watch = AccessWatch(node.root, gate.replace).start()
    issuers = Issuers(gate.doors, settings.ca).start()
    keys.append(OwnKey(node.root, name, lambda: gate.doors.registry))
    metrics = Metrics(node, HostSamples(settings, node.root.store.local_path))
    app = create_app(node, metrics, audit)
    arm(settings.crash_at)
    node.start(url)
    # A thread: the event loop must not wait, and has to answer meanwhile.
    draining = threading.Thread(target=node.drain, name="drain")

    def drain() -> None:
        if draining.ident is None:
            draining.start()

    def close() -> None:
        drain()
        draining.join(DRAIN_S)
        keys[0].close()
        issuers.stop()
        watch.stop()
        audit.close()

    def alive() -> dict[str, str]:
        return {"status": "alive", "node": name, "shard": node.journal.shard}

    return Served(
        app,
        {"shard": node.journal.shard},
        on_term=drain,
        close=close,
        ways=ways_of(settings, alive, Native(node, metrics)),
        gate=gate,
        on_front=metrics.front.began,
    )


def make_node(settings: Settings, name: str) -> Node:
    """Open the root, connect, and put a node together. Raises what `lakequeue.errors` names."""
    if settings.zookeeper is None:
        raise MissingDependency(
            "a consumer-service node needs ZooKeeper",
            hint="give --zookeeper host:port, or let `lakequeue up` start the embedded one",
        )
    root = QueueRoot.open(settings.root, needs=(TOPICS.name, LOG.name))
    session = Session(
        settings.zookeeper, root.queue_id, name, settings.coordination, _remember_in(settings, name)
    )
    session.start()
    try:
        return Node(settings, root, session, name, Clients(_worker, redrive_part))
    except BaseException:
        session.stop()  # a damaged table is tried again, with a session anew
        raise


def _worker(webhook: Webhook, url: str) -> Consumer:
    return Consumer(
        list(webhook.topics),
        webhook.group,
        urls=url,
        mode="queue",
        max_in_flight=webhook.concurrency,
        max_poll_records=webhook.concurrency,
        **webhook.options,
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _remember_in(settings: Settings, name: str) -> Path | None:
    return None if settings.work_dir is None else settings.work_dir / f"session-{name}.json"
