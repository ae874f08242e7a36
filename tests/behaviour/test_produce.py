"""What a producer can rely on."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest

from lakequeue import AsyncProducer
from lakequeue.client.producing.outgoing import Outgoing, RecordMetadata
from lakequeue.errors import (
    InvalidRequest,
    LakequeueError,
    ProducerFenced,
    TooLarge,
    UnknownTopic,
)
from tests.support.services.backends import Backend, take


def test_offsets_are_gapless_and_follow_the_order_of_sending(backend: Backend) -> None:
    topic = backend.topic(partitions=3)
    with backend.producer(batch_size=7) as producer:
        handles = [producer.send(topic, n, partition=n % 3) for n in range(60)]
        producer.flush()
    placed = [handle.result() for handle in handles]
    for partition in range(3):
        offsets = [p.offset for p in placed if p.partition == partition]
        assert offsets == list(range(20))


def test_records_of_a_key_are_in_one_partition_in_order(backend: Backend) -> None:
    topic = backend.topic(partitions=4)
    with backend.producer() as producer:
        for n in range(40):
            producer.send(topic, n, key=f"k{n % 5}")
    with backend.consumer(topic, topic) as consumer:
        messages = take(consumer, 40)
    for key in (f"k{i}" for i in range(5)):
        mine = [m for m in messages if m.key == key]
        assert len({m.partition for m in mine}) == 1
        assert [m.value % 5 for m in mine] == [int(key[1])] * 8
        assert [m.value for m in mine] == sorted(m.value for m in mine)


@pytest.mark.parametrize(
    "value",
    ["text", "", b"\x00\xff", {"a": [1, 2.5, None, "ü"]}, [], 17, True, None],
    ids=repr,
)
def test_values_and_keys_come_back_as_they_were_sent(backend: Backend, value: Any) -> None:
    topic = backend.topic()
    backend.send(topic, value, key=value)
    with backend.consumer(topic, topic) as consumer:
        (message,) = take(consumer, 1)
    assert (message.value, message.key) == (value, value)
    assert type(message.value) is type(value)


def test_headers_and_time_come_back_as_they_were_sent(backend: Backend) -> None:
    topic = backend.topic()
    headers = [("a", "1"), ("a", b"\xff"), ("b", None)]
    backend.send(topic, "v", headers=headers, timestamp=1_359_615_600_000_000)
    with backend.consumer(topic, topic) as consumer:
        (message,) = take(consumer, 1)
    assert message.headers == [("a", b"1"), ("a", b"\xff"), ("b", None)]
    assert message.timestamp == 1_359_615_600_000_000


def test_a_time_before_1973_is_sent_as_a_datetime(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "v", timestamp=datetime(1960, 1, 1, tzinfo=UTC))
    with backend.consumer(topic, topic) as consumer:
        (message,) = take(consumer, 1)
    assert message.time == datetime(1960, 1, 1, tzinfo=UTC)
    with pytest.raises(InvalidRequest, match="before 1973"), backend.producer() as producer:
        producer.send(topic, "v", timestamp=1_600_000_000).result(60)


def test_a_copy_gets_the_offset_of_the_original(backend: Backend) -> None:
    topic = backend.topic(partitions=2)
    with backend.producer() as producer:
        first = producer.send(topic, "a", partition=1, message_id="m1").result(60)
        again = producer.send(topic, "b", partition=0, message_id="m1").result(60)
        other = producer.send(topic, "c", partition=1, message_id="m2").result(60)
    assert (first.partition, first.offset, first.duplicate) == (1, 0, False)
    assert (again.partition, again.offset, again.duplicate) == (1, 0, True)
    assert (other.partition, other.offset) == (1, 1)


def test_an_answer_that_did_not_wait_for_the_order_does_not_say_that_it_is_no_copy(
    backend: Backend,
) -> None:
    topic = backend.topic()
    with backend.producer(acks="committed") as producer:
        placed = [producer.send(topic, "v", message_id="m").result(60) for _ in range(2)]
    assert [(p.offset, p.duplicate) for p in placed] == [(None, None)] * 2


def test_an_id_counts_within_its_topic_alone(backend: Backend) -> None:
    one, two = backend.topic(), backend.topic()
    with backend.producer() as producer:
        placed = [producer.send(t, "v", message_id="m").result(60) for t in (one, two)]
    assert [p.duplicate for p in placed] == [False, False]


def test_an_atomic_batch_is_placed_over_topics_and_partitions(backend: Backend) -> None:
    one, two = backend.topic(partitions=2), backend.topic()
    with backend.producer() as producer:
        with producer.atomic() as batch:
            for n in range(4):
                batch.send(one, n, partition=n % 2)
            batch.send(two, "x")
        assert [(d.topic, d.partition, d.offset) for d in batch.delivered] == [
            *((one, 0, 0), (one, 1, 0), (one, 0, 1), (one, 1, 1)),
            (two, 0, 0),
        ]
        assert len({d.stamp for d in batch.delivered}) == 1


def test_an_atomic_batch_with_one_bad_record_is_refused_whole(backend: Backend) -> None:
    topic = backend.topic(partitions=2)
    with backend.producer() as producer:
        batch = producer.atomic()
        batch.send(topic, "good", partition=0)
        batch.send(topic, "bad", partition=7)
        with pytest.raises(InvalidRequest) as refused, batch:
            pass
        assert refused.value.extra["record"] == 1
        assert refused.value.stored == "no"
        assert producer.send(topic, "next", partition=0).result(60).offset == 0


def test_one_bad_record_is_given_up_and_the_others_go(backend: Backend) -> None:
    topic = backend.topic(partitions=2)
    acked: list[tuple[Outgoing, RecordMetadata]] = []
    failed: list[tuple[Outgoing, LakequeueError]] = []
    with backend.producer(
        on_ack=lambda record, delivered: acked.append((record, delivered)),
        on_error=lambda record, error: failed.append((record, error)),
        linger_ms=200,
    ) as producer:
        handles = [producer.send(topic, n, partition=7 if n == 1 else 0) for n in range(3)]
        with pytest.raises(InvalidRequest, match="partition 7 does not exist"):
            producer.flush()
        assert [record.value for record in producer.unacked()] == [1]
    assert [handles[0].result().offset, handles[2].result().offset] == [0, 1]
    assert [record.value for record, _ in acked] == [0, 2]
    assert [(record.value, error.stored) for record, error in failed] == [(1, "no")]


def test_a_record_over_the_limit_is_too_large(backend: Backend) -> None:
    topic = backend.topic(max_record_bytes=100)
    with backend.producer() as producer:
        with pytest.raises(TooLarge, match="101 bytes, at most 100"):
            producer.send(topic, "x" * 101).result(60)
        assert producer.send(topic, "x" * 100).result(60).offset == 0
        # What was given up is told once more, by whoever asks for all.
        with pytest.raises(TooLarge):
            producer.flush()


def test_a_value_that_does_not_satisfy_the_schema_of_its_topic_is_refused(backend: Backend) -> None:
    topic = backend.topic(value_schema='{"type": "object", "required": ["id"]}')
    with backend.producer() as producer:
        with pytest.raises(InvalidRequest, match='"id" is a required property'):
            producer.send(topic, {"name": "x"}).result(60)
        assert producer.send(topic, {"id": 1}).result(60).offset == 0
        with pytest.raises(InvalidRequest):
            producer.flush()


def test_an_atomic_batch_over_the_limits_of_a_request_is_refused(backend: Backend) -> None:
    topic = backend.topic()
    with backend.producer() as producer:
        many, big = producer.atomic(), producer.atomic()
        for n in range(10_001):
            many.send(topic, n)
        for _ in range(9):
            big.send(topic, "x" * 1_000_000)
        with pytest.raises(TooLarge, match="10001 records or more in one request, at most 10000"):
            many.__exit__(None, None, None)
        with pytest.raises(TooLarge, match="an atomic request of 9000000 bytes"):
            big.__exit__(None, None, None)
        assert producer.send(topic, "next").result(60).offset == 0


def test_an_unknown_topic_says_how_to_create_it(backend: Backend) -> None:
    with backend.producer() as producer:
        with pytest.raises(UnknownTopic, match="topic create no-such-topic") as unknown:
            producer.send("no-such-topic", "v").result(60)
        assert unknown.value.stored == "no"
        with pytest.raises(UnknownTopic):
            producer.flush()


def test_a_newer_instance_shuts_the_older_one_out(backend: Backend) -> None:
    topic = backend.topic()
    name = f"till-{topic}"
    with backend.producer(producer_id=name, fence=True) as old:
        assert old.send(topic, "a").result(60).offset == 0
        with backend.producer(producer_id=name, fence=True) as new:
            assert new.init() == 2
            assert new.next_sequence(topic) == 1
            with pytest.raises(ProducerFenced, match="epoch 1 presented, 2 current"):
                old.send(topic, "zombie").result(60)
            assert new.send(topic, "b").result(60).offset == 1
        with pytest.raises(ProducerFenced):
            old.flush()


def test_two_runs_under_one_name_lose_nothing(backend: Backend) -> None:
    topic = backend.topic()
    name = f"till-{topic}"
    for run in range(2):
        with backend.producer(producer_id=name) as producer:
            placed = [producer.send(topic, f"{run}{n}").result(60) for n in range(3)]
        assert [(p.offset, p.duplicate) for p in placed] == [(run * 3 + n, False) for n in range(3)]


def test_a_fenced_run_after_one_without_a_fence_loses_nothing(backend: Backend) -> None:
    topic = backend.topic()
    name = f"till-{topic}"
    with backend.producer(producer_id=name) as producer:
        for n in range(3):
            producer.send(topic, n)
    # Ids that anybody may have derived from name and sequence are not in the way either.
    backend.send(topic, "derived", message_id=f"{name}:0")
    for run in range(2):
        with backend.producer(producer_id=name, fence=True) as producer:
            producer.init()
            assert producer.next_sequence(topic) == run
            placed = producer.send(topic, f"fenced {run}").result(60)
        assert (placed.offset, placed.duplicate) == (4 + run, False)


def test_an_async_producer_s_second_run_under_one_name_loses_nothing(backend: Backend) -> None:
    topic = backend.topic()

    async def run() -> int | None:
        options = {"producer_id": f"till-{topic}", "acks": "ordered"}
        async with AsyncProducer(backend.ingest_url, **options) as producer:  # type: ignore[arg-type] # of these names
            return (await (await producer.send(topic, "v"))).offset

    assert [asyncio.run(run()) for _ in range(2)] == [0, 1]


@pytest.mark.parametrize(
    "value",
    [1 << 63, -(1 << 63), 1 << 200, {"a": [1 << 70, -0.0, 1e22, 0.1, 12345678901234567]}],
    ids=repr,
)
def test_numbers_come_back_as_they_were_sent(backend: Backend, value: Any) -> None:
    topic = backend.topic()
    backend.send(topic, value, key=value)
    with backend.consumer(topic, topic) as consumer:
        (message,) = take(consumer, 1)
    assert (message.value, message.key) == (value, value)
    with backend.admin() as admin:
        looked_at = admin.browse(topic, 0).records[0], admin.record(topic, 0, 0)
    assert [(type(r.value), r.value) for r in looked_at] == [(type(value), value)] * 2


class Odd(Enum):
    """Values that JSON cannot hold, by another name."""

    NOT_A_NUMBER = float("nan")
    MANY = (1, float("inf"))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), "nan cannot be sent: JSON has no such number"),
        ({"t": [None, float("-inf")]}, "-inf cannot be sent"),
        (Odd.NOT_A_NUMBER, "nan cannot be sent"),
        ({"t": [Odd.MANY]}, "inf cannot be sent"),
        (Decimal("1.10"), "a Decimal cannot be sent"),
        ({"a": b"x"}, "a dict cannot be sent"),
        ({1: 2}, "Dict key must be str"),
        ({"a": 1 << 70, 1: 2}, "a name in an object must be text"),
        ("half a character \ud83d", "half of a character"),
    ],
    ids=repr,
)
def test_what_json_cannot_hold_is_refused_before_it_is_sent(
    backend: Backend, value: Any, why: str
) -> None:
    topic = backend.topic()
    with backend.producer() as producer:
        with pytest.raises(InvalidRequest, match=why):
            producer.send(topic, value)
        with pytest.raises(InvalidRequest, match=why):
            producer.send(topic, "v", key=value)
        assert producer.send(topic, "next").result(60).offset == 0
