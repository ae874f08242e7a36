"""A producer that others go on using while one of them flushes or closes it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from lakequeue import AsyncProducer, Producer
from lakequeue.errors import NotReady
from tests.integration.client.misbehaving import Misbehaving, misbehaving


@pytest.fixture
def server() -> Iterator[Misbehaving]:
    with misbehaving() as running:
        yield running


class Sending(threading.Thread):
    """Sends until it is told to stop, or refused. Some records are always on their way."""

    def __init__(self, producer: Producer) -> None:
        super().__init__(daemon=True)
        self.producer = producer
        self.told, self.begun = threading.Event(), threading.Event()
        self.refused: NotReady | None = None

    def run(self) -> None:
        before = self.producer.send("orders", 0)
        try:
            while not self.told.is_set():
                now = self.producer.send("orders", 0)
                before.result(timeout=10)
                before = now
                self.begun.set()
        except NotReady as error:
            self.refused = error


def test_a_flush_does_not_wait_for_what_is_sent_after_it(server: Misbehaving) -> None:
    with Producer(server.url, batch_size=1) as producer:
        other = Sending(producer)
        other.start()
        assert other.begun.wait(10)
        mine = producer.send("orders", "mine")
        producer.flush(2)
        assert mine.done()
        other.told.set()
        other.join(10)
    assert other.refused is None


def test_a_close_refuses_what_is_sent_while_it_flushes(server: Misbehaving) -> None:
    producer = Producer(server.url, batch_size=1)
    other = Sending(producer)
    other.start()
    assert other.begun.wait(10)
    producer.close(2)
    other.join(10)
    assert other.refused is not None
    assert producer.unacked() == []


def test_the_async_twin_flushes_and_closes_alike(server: Misbehaving) -> None:
    async def scenario() -> None:
        producer = AsyncProducer(server.url, batch_size=1)
        begun = asyncio.Event()

        async def others() -> None:
            before = await producer.send("orders", 0)
            while True:
                now = await producer.send("orders", 0)
                await before
                before = now
                begun.set()

        sending = asyncio.create_task(others())
        await begun.wait()
        mine = await producer.send("orders", "mine")
        await producer.flush(2)
        assert mine.done()
        await producer.close(2)
        with pytest.raises(NotReady):
            await sending
        assert producer.unacked() == []

    asyncio.run(scenario())
