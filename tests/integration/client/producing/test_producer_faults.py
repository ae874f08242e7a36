"""A producer against a server that misbehaves: nothing lost, nothing twice, nothing overtaken."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lakequeue import AsyncProducer, Producer, RecordMetadata
from lakequeue.errors import InvalidRequest, LakequeueError, NotReady, Overloaded, Unreachable
from tests.integration.client.misbehaving import Misbehaving, misbehaving


@pytest.fixture
def server() -> Iterator[Misbehaving]:
    with misbehaving() as running:
        yield running


def test_an_answer_that_is_lost_leads_to_the_same_request_again(server: Misbehaving) -> None:
    server.acts = ["store_and_drop"]
    with Producer(server.url) as producer:
        delivered = producer.send("orders", "a").result(timeout=10)
    assert (delivered.message_id, delivered.partition) == (f"{producer.producer_id}:0", 0)
    assert server.requests[0] == server.requests[1]
    assert server.ordered == {delivered.message_id: "a"}


def test_nothing_overtakes_a_batch_that_is_retried(server: Misbehaving) -> None:
    server.acts = ["drop", "unavailable", "store_and_drop", "overloaded"]
    acked: list[str] = []
    with Producer(
        server.url, batch_size=7, on_ack=lambda record, _: acked.append(record.value)
    ) as producer:
        for i in range(100):
            producer.send("orders", f"v{i}")
    wanted = [f"v{i}" for i in range(100)]
    assert list(server.ordered.values()) == wanted
    assert acked == wanted
    assert server.most_at_once == 1


def test_retry_after_is_waited_for(server: Misbehaving) -> None:
    server.acts = ["overloaded"]
    start = time.monotonic()
    with Producer(server.url) as producer:
        producer.send("orders", 1)
    assert time.monotonic() - start >= 0.3


def test_the_last_stamp_is_carried(server: Misbehaving) -> None:
    with Producer(server.url) as producer:
        stamp = producer.send("orders", 1).result(timeout=10).stamp
        producer.send("other", 2).result(timeout=10)
        assert producer.last_stamp == stamp + 1
    assert [r.get("after") for r in server.requests] == [None, stamp]


def test_one_bad_record_is_given_up_and_the_others_arrive_in_order(server: Misbehaving) -> None:
    server.refuse_values = {"bad"}
    errors: list[tuple[Any, LakequeueError]] = []
    values = ["a", "bad", "b", "c", "bad", "d"]
    with Producer(
        server.url,
        linger_ms=200,
        on_error=lambda r, e: errors.append((r.value, e)),
    ) as producer:
        handles = [producer.send("orders", v) for v in values]
        with pytest.raises(InvalidRequest):
            producer.flush()
        assert [r.value for r in producer.unacked()] == ["bad", "bad"]
    ids = [f"{producer.producer_id}:{n}" for n in (0, 2, 3, 5)]
    assert list(server.ordered.items()) == list(zip(ids, "abcd", strict=True))
    assert [value for value, _ in errors] == ["bad", "bad"]
    with pytest.raises(InvalidRequest):
        handles[1].result()


def test_a_request_that_is_too_large_is_halved(server: Misbehaving) -> None:
    server.max_records = 3
    with Producer(server.url, linger_ms=200) as producer:
        for i in range(10):
            producer.send("orders", i)
    assert list(server.ordered.values()) == list(range(10))


def test_a_dead_node_is_left_for_the_next(server: Misbehaving) -> None:
    with misbehaving() as gone:
        dead = gone.url
    with Producer([dead, server.url]) as producer:
        producer.send("orders", 1).result(timeout=10)
    assert list(server.ordered.values()) == [1]


def test_what_cannot_be_delivered_in_time_is_given_up_and_kept(server: Misbehaving) -> None:
    with misbehaving() as gone:
        dead = gone.url
    producer = Producer(dead, delivery_timeout_s=0.3)
    handle = producer.send("orders", "x", key="k")
    with pytest.raises(Unreachable) as caught:
        handle.result(timeout=10)
    assert caught.value.stored == "no"
    (kept,) = producer.unacked()
    assert (kept.value, kept.key, kept.error) == ("x", "k", caught.value)
    with pytest.raises(Unreachable):
        producer.close()
    with pytest.raises(NotReady):
        producer.send("orders", 2)


def test_the_buffer_is_bounded(server: Misbehaving) -> None:
    server.acts = ["hang"]
    with Producer(server.url, max_buffered_bytes=1000, max_block_s=0.2) as producer:
        producer.send("orders", "x" * 900)
        assert server.arrived.wait(10)
        with pytest.raises(Overloaded):
            producer.send("orders", "y" * 900)
        server.let_go.set()
        producer.flush()
        producer.send("orders", "z" * 900)
    assert [v[0] for v in server.ordered.values()] == ["x", "z"]


def test_a_callback_that_fails_does_not_stop_sending(server: Misbehaving) -> None:
    def fail(_record: object, _delivered: RecordMetadata) -> None:
        raise ValueError("in the user's code")

    with Producer(server.url, on_ack=fail, batch_size=1) as producer:
        for i in range(3):
            producer.send("orders", i)
    assert list(server.ordered.values()) == [0, 1, 2]


def test_the_async_twin_keeps_order_and_single_copies(server: Misbehaving) -> None:
    server.acts = ["drop", "store_and_drop", "unavailable"]

    async def scenario() -> list[RecordMetadata]:
        async with AsyncProducer(server.url, batch_size=7, producer_id="p") as producer:
            handles = [await producer.send("orders", f"v{i}") for i in range(50)]
            return [await handle for handle in handles]

    delivered = asyncio.run(scenario())
    # A run of its own, in the order of sending: p:<run>:<number>.
    assert [d.message_id.rpartition(":")[2] for d in delivered] == [f"{i}" for i in range(50)]
    assert {d.message_id.partition(":")[0] for d in delivered} == {"p"}
    assert list(server.ordered) == [d.message_id for d in delivered]
    assert list(server.ordered.values()) == [f"v{i}" for i in range(50)]
    assert server.most_at_once == 1


def test_the_async_twin_gives_up_alike() -> None:
    with misbehaving() as gone:
        dead = gone.url

    async def scenario() -> None:
        producer = AsyncProducer(dead, delivery_timeout_s=0.3)
        handle = await producer.send("orders", 1)
        with pytest.raises(Unreachable):
            await handle
        assert len(producer.unacked()) == 1
        with pytest.raises(Unreachable):
            await producer.close()

    asyncio.run(scenario())


def test_a_callback_that_ends_its_thread_ends_no_sending(server: Misbehaving) -> None:
    def leave(*_: object) -> None:
        sys.exit(3)

    with Producer(server.url, on_ack=leave, batch_size=1) as producer:
        first = producer.send("orders", "a")
        first.add_done_callback(leave)
        assert first.result(10).partition == 0
        assert producer.send("orders", "b").result(10).partition == 0
