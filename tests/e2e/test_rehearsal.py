"""A disaster, rehearsed: a backup under load, the root and the ensemble lost, a restore elsewhere.

The history checker judges the restored queue as any other, over what docs/backup.md promises.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from coordination.embedded import EmbeddedZooKeeper
from coordination.zookeeper.notifications import Notifier
from coordination.zookeeper.session import Session
from history_checker import GroupRequirements, Requirements, check
from history_checker.history import load
from history_checker.load import LoadConsumer, LoadProducer, wait_until
from history_checker.truth import final_read, positions, truth
from jobs.backup import backup, restore
from lakequeue.client.admin import Admin
from queue_tables.root import QueueRoot
from tests.support.data.log_builder import LogBuilder
from tests.support.services.consumer_node import NodeProcess, Queue, own_queue, start_node
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import ordering
from tests.support.services.zookeeper import FAST

__all__ = ["own_queue", "start_node"]
pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.timeout(300)]
TOPIC, RATE = "orders", 100


def values(root: str) -> set[str]:
    return {str(event.value) for event in final_read(root, TOPIC)}


def places(root: str) -> dict[int, int]:
    return {event.part: event.offset for event in positions(root, "billing")}


def test_a_backup_under_load_becomes_a_queue_at_a_new_ensemble_that_the_checker_finds_sound(
    own_queue: Queue, start_node: Callable[..., NodeProcess], tmp_path: Path
) -> None:
    target, fresh = str(tmp_path / "backup"), str(tmp_path / "fresh")
    lost, first, second = own_queue.root.uri, tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with ExitStack() as stack:
        ingest, node = _serve(own_queue, start_node, stack, "lost")
        ingest.create(TOPIC, partitions=4)
        producer = LoadProducer([ingest.ready["url"]], TOPIC, first, "p", RATE).start()
        consumer = LoadConsumer([node.url], TOPIC, "billing", first, "c")
        stack.callback(consumer.kill)
        wait_until("records come", lambda: consumer.received() > 2 * RATE, 90)
        with Admin(ingest.ready["url"], node.url) as admin:
            admin.pause("billing", TOPIC, [3])
        ordered, done = values(lost), places(lost)
        backup(own_queue.root, target, "test")
        more = consumer.received() + RATE
        wait_until("more records come", lambda: consumer.received() > more, 90)
        producer.stop()
    shutil.rmtree(lost)
    restore(target, fresh, None, "test")
    kept = values(fresh)
    assert ordered <= kept, "what was ordered when the backup began is there"
    assert all(places(fresh)[part] >= at for part, at in done.items()), "no position is lost"
    with ExitStack() as stack:
        queue = _queue(QueueRoot.open(fresh), EmbeddedZooKeeper(tmp_path / "ensemble"), stack)
        ingest, node = _serve(queue, start_node, stack, "restored")
        for group in ("billing", "new"):
            consumer = LoadConsumer([node.url], TOPIC, group, second, group)
            stack.callback(consumer.stop)
        wait_until("the new group reads", lambda: consumer.received() > 0, 90)
        producer = LoadProducer([ingest.ready["url"]], TOPIC, second, "r", RATE).start()
        wait_until("it is sent", lambda: producer.acknowledged > 2 * RATE, 90)
        producer.stop()
        with Admin(ingest.ready["url"], node.url) as admin:

            def lags() -> dict[int, int]:
                return {row.partition: row.lag or 0 for row in admin.group("new").partitions}

            paused = {row.partition: row.paused for row in admin.group("billing").partitions}
            assert paused == {0: False, 1: False, 2: False, 3: True}, "what a person said"
            wait_until("all is read", lambda: not any(lags().values()), 90)
    sent = [event for event in load(first.glob("producer-*")) if event.value in kept]
    events = [
        *sent,
        *load(second.glob("producer-*")),
        *load(second.glob("consumer-new*")),
        *truth(fresh, [TOPIC], ["new"]),
    ]
    verdict = check(
        events,
        Requirements({"new": GroupRequirements(topics=(TOPIC,), drained=True)}),
    )
    assert verdict.ok, str(verdict)


def _queue(root: QueueRoot, server: EmbeddedZooKeeper, stack: ExitStack) -> Queue:
    server.start()
    stack.callback(server.stop)
    session = Session(server.hosts, root.queue_id, "order", FAST)
    session.start()
    stack.callback(session.stop)
    notifier = Notifier(session, "log").start()
    stack.callback(notifier.close)
    return Queue(root, server, session, LogBuilder(root, notifier))


def _serve(
    queue: Queue, start_node: Callable[..., NodeProcess], stack: ExitStack, name: str
) -> tuple[IngestService, NodeProcess]:
    """The services of a queue, and the order job in a thread."""
    notifier = Notifier(queue.session, "log").start()
    stack.callback(notifier.close)
    hosts = queue.zookeeper.hosts
    ingest = stack.enter_context(
        IngestService(Path(queue.root.uri), "--zookeeper", hosts, node=name)
    )
    node = start_node(queue, name)
    stack.callback(node.kill)
    stack.enter_context(ordering(queue.root, epoch=5 + len(name), notifier=notifier))
    return ingest, node
