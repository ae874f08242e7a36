"""The asyncio twins."""

from __future__ import annotations

import asyncio

from lakequeue import Message
from tests.support.backends import Backend


def test_the_loop_of_a_stream_group(backend: Backend) -> None:
    topic = backend.topic(partitions=2)

    async def run() -> list[int]:
        seen: list[int] = []
        async with backend.async_producer() as producer:
            handles = [await producer.send(topic, n, key=str(n)) for n in range(20)]
            await producer.flush()
            assert len({(await h).partition for h in handles}) == 2
        async with backend.async_consumer(topic, topic) as consumer:
            async for message in consumer:
                seen.append(message.value)
                message.ack()
                if len(seen) == 20:
                    break
            await consumer.commit()
        return seen

    assert sorted(asyncio.run(run())) == list(range(20))
    with backend.admin() as admin:
        assert sum(row.lag for row in admin.group(topic).partitions) == 0


def test_a_worker_of_a_queue_group(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "a", "b")

    async def run() -> list[tuple[int, int]]:
        seen: list[Message] = []
        async with backend.async_consumer(topic, topic, mode="queue", backoff_ms=0) as worker:
            async for message in worker:
                seen.append(message)
                if len(seen) == 1:
                    message.nack()
                else:
                    message.ack()
                if len(seen) == 3:
                    break
            await worker.commit()
        return sorted((m.offset, m.attempt) for m in seen)

    assert asyncio.run(run()) == [(0, 1), (0, 2), (1, 1)]


def test_a_consumer_that_waits_does_not_hold_up_the_loop(backend: Backend) -> None:
    topic = backend.topic()

    async def run() -> list[str]:
        async with (
            backend.async_consumer(topic, topic) as consumer,
            backend.async_producer() as producer,
        ):
            waits = asyncio.create_task(anext(consumer))
            await asyncio.sleep(0)
            await (await producer.send(topic, "late"))
            return [(await waits).value]

    assert asyncio.run(run()) == ["late"]


def test_poll_gives_up_when_nothing_comes(backend: Backend) -> None:
    topic = backend.topic()

    async def run() -> list[Message]:
        async with backend.async_consumer(topic, topic) as consumer:
            return await consumer.poll(backend.quiet_s)

    assert asyncio.run(run()) == []
