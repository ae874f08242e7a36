"""A client that was made before a fork: the child is refused, nothing hangs, the parent goes on."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import pytest

from lakequeue import Admin, AsyncProducer, Consumer, Producer, Queue
from lakequeue.client.producing import unclosed
from lakequeue.errors import NotReady
from tests.integration.client.misbehaving import Misbehaving, misbehaving

forking = multiprocessing.get_context("fork")


@pytest.fixture
def server() -> Iterator[Misbehaving]:
    with misbehaving() as running:
        yield running


def in_child(*calls: Callable[[], Any]) -> list[str]:
    """What each call comes to in a forked process: its error, or ''."""
    here, there = forking.Pipe()

    def child(told: Connection) -> None:
        outcomes = []
        for call in calls:
            try:
                call()
                outcomes.append("")
            except NotReady as error:
                outcomes.append(f"{error.stored} {error.detail}")
        told.send(outcomes)
        os._exit(0)

    process = forking.Process(target=child, args=(there,))
    process.start()
    try:
        assert here.poll(10), "the child hangs"
        outcomes: list[str] = here.recv()
        return outcomes
    finally:
        process.kill()
        process.join()


REFUSED = "no the client was made before this process was forked"


@pytest.mark.parametrize("options", [{}, {"producer_id": "till"}])
def test_a_producer_that_has_not_sent_yet_is_its_parents(
    server: Misbehaving, options: dict[str, str]
) -> None:
    with Producer(server.url, **options) as producer:  # type: ignore[arg-type]
        outcomes = in_child(
            lambda: producer.send("orders", "child").result(5),
            lambda: producer.flush(5),
            producer.unacked,
            producer.close,
        )
        producer.send("orders", "parent").result(10)
    assert outcomes == [REFUSED, REFUSED, REFUSED, ""]
    assert list(server.ordered.values()) == ["parent"]


def test_a_child_does_not_wait_for_threads_and_locks_of_its_parent(server: Misbehaving) -> None:
    server.acts = ["hang"]
    with Producer(server.url) as producer:
        waiting = producer.send("orders", "parent")
        assert server.arrived.wait(10)
        held, done = threading.Event(), threading.Event()

        def hold() -> None:
            with producer._core.lock:
                held.set()
                done.wait(30)

        holding = threading.Thread(target=hold)
        holding.start()
        assert held.wait(10)
        outcomes = in_child(
            lambda: producer.send("orders", "child"),
            lambda: producer.flush(5),
            lambda: waiting.result(5),
            producer.close,
        )
        in_child(lambda: None if not unclosed._open else pytest.fail("it has the parent's"))
        done.set()
        holding.join()
        server.let_go.set()
        assert waiting.result(10).topic == "orders"
        assert outcomes[:2] == [REFUSED, REFUSED]
        assert outcomes[2].startswith("unknown the process that sends this record")
        assert outcomes[3] == ""


def test_the_async_twin_is_refused_alike(server: Misbehaving) -> None:
    producer = AsyncProducer(server.url)
    calls = (
        lambda: asyncio.run(producer.send("orders", "child")),
        lambda: asyncio.run(producer.flush(5)),
        lambda: asyncio.run(producer.close()),
    )
    assert in_child(*calls) == [REFUSED, REFUSED, ""]

    async def parent() -> None:
        async with producer:
            await (await producer.send("orders", "parent"))

    asyncio.run(parent())
    assert list(server.ordered.values()) == ["parent"]


def test_consumers_queues_and_admins_are_refused_alike(server: Misbehaving) -> None:
    with (
        Consumer("orders", "g", urls=server.url) as consumer,
        Admin(server.url, server.url) as admin,
        Queue("q", server.url, server.url) as queue,
    ):
        outcomes = in_child(
            lambda: consumer.poll(1),
            lambda: next(consumer),
            lambda: consumer.commit(1),
            admin.nodes,
            lambda: queue.send("child"),
            queue.receive,
            consumer.close,
            admin.close,
            queue.close,
        )
    assert outcomes == [REFUSED] * 6 + [""] * 3
    assert server.requests == []
