"""Fenceable producers: killed, frozen and started again, each record is ordered once, in order."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable
from typing import IO, cast

import pytest

from lakequeue import Admin, AsyncProducer, Producer
from lakequeue.errors import InvalidRequest, NotOrdered, ProducerFenced, UnknownTopic
from queue_tables.root import QueueRoot
from tests.integration.client.conftest import HERE, IngestProcess
from tests.support.data.order_truth import judge, log_rows
from tests.support.faults.stopped import stopped
from tests.support.forking.forked import Forked
from tests.support.kinds import one_now
from tests.support.services.order_thread import ordering

pytestmark = pytest.mark.timeout(300)
Start = Callable[..., IngestProcess]
COUNT = 120


def values(root: QueueRoot) -> list[int]:
    return [int(row["value"]) for row in log_rows(root)]


def producer(node: IngestProcess) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.runs.producer_process", "--url", node.url]
    return Forked(
        [*command, "--producer-id", "counter", "--count", str(COUNT)],
        cwd=HERE,
        stdout=subprocess.PIPE,
        text=True,
    )


def lines_until(process: subprocess.Popen[str], count: int) -> list[str]:
    out: list[str] = []
    for line in cast(IO[str], process.stdout):
        out.append(line.strip())
        if len(out) == count:
            break
    return out


def ready(start_ingest: Start) -> tuple[IngestProcess, QueueRoot]:
    node = start_ingest()
    with Admin(node.url) as admin:
        admin.create_topic("orders", partitions=1)
    return node, QueueRoot.open(str(node.root))


@pytest.mark.parametrize("seed", one_now([1, 2]))
def test_a_producer_that_is_killed_goes_on_where_the_log_ends(
    start_ingest: Start, seed: int
) -> None:
    rng = random.Random(seed)
    node, root = ready(start_ingest)
    with ordering(root):
        for life in range(1, 20):
            process = producer(node)
            said = lines_until(process, rng.randint(1, 5))
            assert said[0].split()[:2] == ["began", str(life)]
            if life < 4:
                process.kill()
            code = process.wait(60)
            cast(IO[str], process.stdout).close()
            if code == 0:
                break
    assert values(root) == list(range(COUNT))
    judge(root)


def test_a_frozen_producer_that_wakes_up_is_fenced(start_ingest: Start) -> None:
    node, root = ready(start_ingest)
    with ordering(root):
        old = producer(node)
        lines_until(old, 3)
        with stopped(old.pid):
            new = producer(node)
            assert new.wait(60) == 0
        cast(IO[str], old.stdout).read()
        assert old.wait(60) == 10
        for process in (old, new):
            cast(IO[str], process.stdout).close()
    assert values(root) == list(range(COUNT))
    judge(root)


def test_what_is_on_its_way_is_given_up_and_nothing_more_is_taken(start_ingest: Start) -> None:
    node, root = ready(start_ingest)
    with ordering(root), Producer(node.url, producer_id="p", fence=True) as old:
        assert (old.epoch, old.init(), old.epoch) == (None, 1, 1)
        assert old.send("orders", 0).result(30).offset == 0
        with Producer(node.url, producer_id="p", fence=True) as new:
            assert (new.init(), new.next_sequence("orders")) == (2, 1)
            with pytest.raises(ProducerFenced, match="epoch 1 presented, 2 current"):
                old.send("orders", 77).result(30)
            assert [r.value for r in old.unacked()] == [77]
            with pytest.raises(ProducerFenced):
                old.send("orders", 78)
            assert new.send("orders", 1).result(30).message_id == "p:2:1"
        with pytest.raises(ProducerFenced):
            old.flush()
    assert values(root) == [0, 1]


def test_from_asyncio(start_ingest: Start) -> None:
    node, root = ready(start_ingest)

    async def scenario() -> None:
        async with AsyncProducer(node.url, producer_id="p", fence=True) as one:
            assert (await (await one.send("orders", 0))).offset == 0
            assert one.epoch == 1
        async with AsyncProducer(node.url, producer_id="p", fence=True) as two:
            assert await two.init() == 2
            assert (await (await two.send("orders", 1))).offset == 1

    with ordering(root):
        asyncio.run(scenario())
    assert values(root) == [0, 1]


def test_a_record_that_is_acknowledged_and_not_ordered_is_given_up(start_ingest: Start) -> None:
    node, root = ready(start_ingest)
    with Producer(node.url, acks="ordered") as sender:
        handle = sender.send("orders", 1)
        node.wait_for_inbox(1)
        with Admin(node.url) as admin:
            admin.delete_topic("orders")
        with ordering(root), pytest.raises(NotOrdered, match="topic_gone"):
            handle.result(30)
        with pytest.raises(NotOrdered):
            sender.flush()


def batch_of(sender: Producer, error: Exception | None, *topics: str) -> None:
    with sender.atomic() as batch:
        for topic in topics:
            batch.send(topic, 99)
        if error is not None:
            raise error


def test_an_atomic_batch_is_visible_at_once_over_topics_or_not_at_all(start_ingest: Start) -> None:
    node, root = ready(start_ingest)
    with Admin(node.url) as admin, Producer(node.url, producer_id="p", fence=True) as sender:
        admin.create_topic("audit", partitions=3)
        with ordering(root):
            with sender.atomic() as batch:
                for n in range(20):
                    batch.send("orders" if n % 2 else "audit", n, key=str(n))
            assert [d.topic for d in batch.delivered[:2]] == ["audit", "orders"]
            assert [d.offset for d in batch.delivered if d.topic == "orders"] == list(range(10))
            with pytest.raises(RuntimeError):
                batch_of(sender, RuntimeError("on second thoughts"), "orders")
            with pytest.raises(UnknownTopic):
                batch_of(sender, None, "orders", "nowhere")
    rows = log_rows(root)
    assert sorted(int(r["value"]) for r in rows) == list(range(20))
    assert len({r["ordered_at"] for r in rows}) == 1
    judge(root)


def test_a_fence_needs_a_name() -> None:
    with pytest.raises(InvalidRequest, match="producer_id"):
        Producer(fence=True)
    with Producer() as plain, pytest.raises(InvalidRequest, match="not fenceable"):
        plain.init()
