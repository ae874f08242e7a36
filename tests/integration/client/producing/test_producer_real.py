"""The producers and `Admin` against a real ingest node, judged by its inbox tables."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from lakequeue import Admin, AsyncProducer, Producer
from lakequeue.errors import InvalidRequest, TooLarge, TopicExists, UnknownTopic
from tests.integration.client.conftest import IngestProcess

Start = Callable[..., IngestProcess]


def test_records_arrive_as_sent(start_ingest: Start) -> None:
    node = start_ingest()
    with Admin(node.url) as admin:
        topic, created = admin.create_topic("orders", partitions=3)
        assert (created, topic.partitions) == (True, 3)
    with Producer(node.url, producer_id="p") as producer:
        handles = [
            producer.send(
                "orders",
                {"n": 1.5},
                key="a",
                headers={"h": b"\xff"},
                timestamp=1_359_615_600_000_123,
            ),
            producer.send("orders", "text", key=b"\x00\xff", partition=2),
            producer.send("orders", None, key={"id": 7}, message_id="mine"),
        ]
        delivered = [h.result(timeout=10) for h in handles]
    own = [d.message_id for d in delivered]
    assert [name.rpartition(":")[2] for name in own] == ["0", "1", "mine"]
    assert own[0].startswith("p:")
    assert delivered[1].partition == 2
    rows = {r["message_id"]: r for r in node.inbox()}
    first, second, third = (rows[name] for name in own)
    assert (first["key"], first["value"]) == (b"a", b'{"n":1.5}')
    assert (first["key_format"], first["value_format"]) == (1, 2)
    assert first["headers"] == [{"key": "h", "value": b"\xff"}]
    assert (second["key"], second["value"]) == (b"\x00\xff", b"text")
    assert (third["value"], third["key"]) == (None, b'{"id":7}')
    assert [r["stamp"] for r in (first, second, third)] == [d.stamp for d in delivered]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (lambda n: b"\xff%d" % n, (0, lambda n: b"\xff%d" % n)),
        (lambda n: f"ä{n}", (1, lambda n: f"ä{n}".encode())),
        (lambda n: {"n": n}, (2, lambda n: b'{"n":%d}' % n)),
        (lambda n: (n % 2 and f"{n}") or None, None),
    ],
    ids=["bytes", "text", "json", "mixed"],
)
def test_many_records_arrive_as_sent(start_ingest: Start, value: Any, stored: Any) -> None:
    node = start_ingest()
    with Admin(node.url) as admin:
        admin.create_topic("orders", partitions=4)
    with Producer(node.url, linger_ms=500, acks="committed") as producer:
        handles = [producer.send("orders", value(n), f"k{n % 7}") for n in range(1_000)]
        delivered = [handle.result(timeout=30) for handle in handles]
    rows = {row["message_id"]: row for row in node.inbox()}
    assert len(rows) == 1_000
    for n, one in enumerate(delivered):
        row = rows[one.message_id]
        assert one.message_id == f"{producer.producer_id}:{n}"
        assert (row["partition"], row["stamp"]) == (one.partition, one.stamp)
        assert (row["key"], row["key_format"], row["sequence"]) == (b"k%d" % (n % 7), 1, n)
        if stored is not None:
            assert (row["value_format"], row["value"]) == (stored[0], stored[1](n))


def test_a_record_that_is_too_large_among_columns_is_given_up_alone(start_ingest: Start) -> None:
    node = start_ingest()
    with Admin(node.url) as admin:
        admin.create_topic("orders", partitions=1, max_record_bytes=100)
    producer = Producer(node.url, linger_ms=500)
    handles = [producer.send("orders", b"v" * (300 if n == 150 else 5)) for n in range(300)]
    with pytest.raises(TooLarge):
        producer.close()
    assert [n for n, handle in enumerate(handles) if handle.exception(timeout=10)] == [150]
    assert [row["sequence"] for row in node.inbox()] == [n for n in range(300) if n != 150]


def test_order_and_single_ids_survive_kills_of_the_node(start_ingest: Start) -> None:
    node = start_ingest(options=("--crash-at", "ingest.committed:3"))
    with Admin(node.url) as admin:
        admin.create_topic("orders", partitions=1)
    with Producer(node.url, batch_size=20, linger_ms=1000, producer_id="p") as producer:
        for i in range(100):
            producer.send("orders", i)
        # The node dies after its third commit, before the answer.
        node.process.wait(timeout=30)
        node.end(kill=True)
        node.options = ()
        node.start()
        producer.flush(timeout_s=60)
    seen: dict[str, int] = {}
    for row in node.inbox():
        seen.setdefault(row["message_id"], int(row["value"]))
    assert [int(name.rpartition(":")[2]) for name in seen] == list(range(100))
    assert list(seen.values()) == list(range(100))
    assert len(node.inbox()) > 100, "the batch of the lost answer was sent again"


def test_refusals_of_the_node_reach_the_caller(start_ingest: Start) -> None:
    node = start_ingest()
    with Admin(node.url) as admin:
        admin.create_topic("orders", partitions=2, max_record_bytes=100)
        with pytest.raises(TopicExists):
            admin.create_topic("orders", partitions=5)
        same, created = admin.create_topic("orders", if_not_exists=True, partitions=5)
        assert (same.partitions, created) == (2, False)
        assert admin.alter_topic("orders", partitions=4).partitions == 4
        assert [t.topic for t in admin.topics()] == ["orders"]
        with pytest.raises(InvalidRequest, match="partitions"):
            admin.create_topic("more", partitions=0)
    with Producer(node.url, linger_ms=100) as producer:
        good, wrong, big, last = (
            producer.send("orders", "a"),
            producer.send("orders", "b", partition=9),
            producer.send("orders", "c" * 200),
            producer.send("orders", "d"),
        )
        lost = producer.send("nowhere", 1)
        with pytest.raises(UnknownTopic, match="nowhere"):
            lost.result(timeout=10)
        assert good.result(timeout=10).partition in range(4)
        assert last.result(timeout=10).partition in range(4)
        assert "9" in str(wrong.exception(timeout=10))
        assert big.exception(timeout=10) is not None
        with pytest.raises((UnknownTopic, InvalidRequest)):
            producer.flush()
    assert [r["value"] for r in node.inbox()] == [b"a", b"d"]
    with Admin(node.url) as admin:
        admin.delete_topic("orders")
        with pytest.raises(UnknownTopic):
            admin.topic("orders")


def test_the_async_twin_against_the_same_node(start_ingest: Start) -> None:
    node = start_ingest()
    with Admin(node.url) as admin:
        admin.create_topic("orders", partitions=1)

    async def scenario() -> list[Any]:
        async with AsyncProducer(node.url) as producer:
            handles = [await producer.send("orders", i) for i in range(1000)]
            await producer.flush()
            return [handle.result().stamp for handle in handles]

    stamps = asyncio.run(scenario())
    assert stamps == sorted(stamps)
    assert [int(r["value"]) for r in node.inbox()] == list(range(1000))
