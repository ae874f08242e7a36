"""The asyncio twins."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakequeue import Message, Redriven, Wanted, redrive_async
from lakequeue.errors import InvalidRequest
from tests.support.services.backends import Backend, take
from tests.support.services.zookeeper import wait_for


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
                span = tx._span
                assert span is not None
                quick = producer.atomic()
                quick.send(target, "theirs")
                await producer.produce_whole(quick.records, span.consumed)
            assert message.value == "a"
            return [tx.counted]

    assert asyncio.run(run()) == [False]
    with backend.consumer(target, target) as consumer:
        assert [m.value for m in take(consumer, 1)] == ["theirs"]
        assert consumer.poll(backend.quiet_s) == []


def test_effects_in_a_delta_table_are_there_once(backend: Backend, tmp_path: Path) -> None:
    topic, result = backend.topic(), str(tmp_path / "result")
    deltalake.DeltaTable.create(result, pa.schema([pa.field("n", pa.int64())]))
    backend.send(topic, *range(5))

    def rows() -> list[int]:
        found: list[int] = deltalake.DeltaTable(result).to_pyarrow_table()["n"].to_pylist()
        return sorted(found)

    async def run() -> None:
        async with backend.async_consumer(topic, topic) as consumer:
            with suppress(RuntimeError):
                async with consumer.transaction(result, timeout_s=30) as tx:
                    tx.append(pa.table({"n": [-1]}))
                    raise RuntimeError("the block fails")
            while len(rows()) < 5:
                async with consumer.transaction(result, max_records=2) as tx:
                    if tx.messages:
                        tx.append(pa.table({"n": [m.value for m in tx.messages]}))
                assert tx.counted or not tx.messages
            await consumer.commit()
        # The table wins over the group: what it has is skipped.
        with backend.admin() as admin:
            admin.seek(topic, "earliest")
        backend.send(topic, 5)
        async with backend.async_consumer(topic, topic) as consumer:
            async with consumer.transaction(result, timeout_s=30) as tx:
                assert [m.value for m in tx.messages] == [5]
                written = tx.table.version()
                await asyncio.to_thread(
                    deltalake.write_deltalake,
                    tx.table,
                    pa.table({"n": [5]}),
                    mode="append",
                    commit_properties=tx.commit_properties,
                )
            assert tx.counted
            assert tx.table.version() == written + 1

    asyncio.run(run())
    assert rows() == list(range(6))


def test_a_transaction_cancelled_while_it_commits_is_there_once(
    backend: Backend, tmp_path: Path
) -> None:
    topic, result = backend.topic(), str(tmp_path / "result")
    deltalake.DeltaTable.create(result, pa.schema([pa.field("n", pa.int64())]))
    backend.send(topic, 1, 2)
    writes, goes_on = threading.Event(), threading.Event()

    def slow_rows() -> Iterator[pa.RecordBatch]:
        writes.set()
        goes_on.wait(60)
        yield pa.record_batch({"n": [1, 2]})

    async def run() -> None:
        schema = pa.schema([pa.field("n", pa.int64())])
        async with backend.async_consumer(topic, topic) as consumer:

            async def round_of(rows: object) -> list[int]:
                async with consumer.transaction(result, timeout_s=30, max_records=2) as tx:
                    if tx.messages:
                        tx.append(rows)
                return [m.value for m in tx.messages]

            reader = pa.RecordBatchReader.from_batches(schema, slow_rows())
            cut_off = asyncio.create_task(round_of(reader))
            await asyncio.to_thread(writes.wait, 60)
            cut_off.cancel()
            goes_on.set()
            with pytest.raises(asyncio.CancelledError):
                await cut_off
            # It was written, and the table says so.
            backend.send(topic, 3)
            assert await round_of(pa.table({"n": [3]})) == [3]

    asyncio.run(run())
    found = deltalake.DeltaTable(result).to_pyarrow_table()["n"].to_pylist()
    assert sorted(found) == [1, 2, 3]


def test_dead_records_go_back_where_they_died(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "a", "b")
    with backend.worker(topic, max_attempts=1) as worker:
        for message in take(worker, 2):
            message.nack()
        worker.commit()
        dead = f"{topic}.dlq"
        with backend.admin() as admin, backend.consumer(dead, "look") as look:
            wait_for(lambda: dead in {t.topic for t in admin.topics()}, "a dead-letter topic")
            take(look, 2)
    said: list[Redriven] = []

    async def run(**options: Any) -> Redriven:
        return await redrive_async(
            dead,
            urls=backend.ingest_url,
            consumer_urls=backend.consumer_url,
            on_progress=said.append,
            **options,
        )

    done = asyncio.run(run(wanted=Wanted({"lakequeue-offset": "1"})))
    assert (done.redriven, done.kept) == (1, 1)
    assert said[-1] == done
    assert asyncio.run(run()).redriven == 1
    assert asyncio.run(run()).looked_at == 0
    with backend.consumer(topic, "back") as consumer:
        assert [m.value for m in take(consumer, 4)] == ["a", "b", "b", "a"]
    with pytest.raises(InvalidRequest, match="rate"):
        asyncio.run(run(rate=0))
