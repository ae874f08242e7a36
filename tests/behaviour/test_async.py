"""The asyncio twins."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from lakequeue import Message
from tests.support.backends import Backend, take


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


def test_an_atomic_batch_is_placed_over_topics_or_not_at_all(backend: Backend) -> None:
    one, two = backend.topic(), backend.topic()

    async def run() -> None:
        async with backend.async_producer() as producer:
            with suppress(RuntimeError):
                async with producer.atomic() as failed:
                    failed.send(one, "never")
                    raise RuntimeError("the block fails")
            async with producer.atomic() as batch:
                batch.send(one, "a")
                batch.send(two, "b")
                batch.send(one, "c")
            placed = [(d.topic, d.offset) for d in batch.delivered]
            assert placed == [(one, 0), (two, 0), (one, 1)]
            assert len({d.stamp for d in batch.delivered}) == 1

    asyncio.run(run())


def test_consume_transform_produce_counts_once(backend: Backend) -> None:
    source, target = backend.topic(), backend.topic()
    backend.send(source, *range(5))

    async def run() -> None:
        async with (
            backend.async_consumer(source, source) as consumer,
            backend.async_producer() as producer,
        ):
            with suppress(RuntimeError):
                async with consumer.transform(producer, target, timeout_s=30) as tx:
                    tx.send(-1)
                    raise RuntimeError("the transform fails")
            done = 0
            while done < 5:
                async with consumer.transform(producer, target, max_records=2) as tx:
                    for message in tx.messages:
                        tx.send(message.value * 10)
                assert tx.counted or not tx.messages
                done += len(tx.messages)
            await consumer.commit()

    asyncio.run(run())
    with backend.consumer(target, target) as consumer:
        assert [m.value for m in take(consumer, 5)] == [0, 10, 20, 30, 40]
        assert consumer.poll(backend.quiet_s) == []
    with backend.admin() as admin:
        assert sum(row.lag for row in admin.group(source).partitions) == 0


def test_of_two_transformers_of_the_same_records_one_counts(backend: Backend) -> None:
    source, target = backend.topic(), backend.topic()
    backend.send(source, "a")

    async def run() -> list[bool]:
        async with (
            backend.async_consumer(source, source) as consumer,
            backend.async_producer() as producer,
        ):
            async with consumer.transform(producer, target, timeout_s=30) as tx:
                (message,) = tx.messages
                tx.send("mine")
                # As another consumer of the same records, which has been quicker.
                stretch = tx._stretch
                assert stretch is not None
                quick = producer.atomic()
                quick.send(target, "theirs")
                await producer.produce_whole(quick.records, stretch.consumed)
            assert message.value == "a"
            return [tx.counted]

    assert asyncio.run(run()) == [False]
    with backend.consumer(target, target) as consumer:
        assert [m.value for m in take(consumer, 1)] == ["theirs"]
        assert consumer.poll(backend.quiet_s) == []
