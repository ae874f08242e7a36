"""What becomes of values that are not of their topic's schema."""

from __future__ import annotations

import json
from typing import Literal

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import StringValue

from lakequeue.avro import Avro
from lakequeue.errors import InvalidRequest
from lakequeue.protobuf import schema_of
from tests.support.services.backends import Backend

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NOTE = {"name": "note", "type": "string", "default": ""}


def test_values_in_avro_are_judged_also_by_the_schemas_that_their_topic_had(
    backend: Backend,
) -> None:
    wider = ORDER | {"fields": [{"name": "id", "type": "long"}, NOTE]}
    first, second = Avro(ORDER), Avro(wider, earlier=[ORDER])
    topic = backend.topic(
        value_schema=json.dumps(ORDER), value_schema_type="avro", value_compatibility="full"
    )
    with backend.producer() as producer, backend.admin() as admin:
        producer.send(topic, first.encode({"id": 1}), partition=0).result(60)
        with pytest.raises(InvalidRequest, match="not backward compatible with version 1"):
            admin.alter_topic(topic, value_schema='"string"')
        admin.alter_topic(topic, value_schema=json.dumps(wider))
        for value in (first.encode({"id": 2}), second.encode({"id": 3, "note": "x"})):
            producer.send(topic, value, partition=0).result(60)
        for wrong in ({"id": 4}, "4", second.encode({"id": 5}) + b"-"):
            with pytest.raises(InvalidRequest, match="does not satisfy the topic's schema"):
                producer.send(topic, wrong).result(60)
        with pytest.raises(InvalidRequest):
            producer.flush()
    with backend.consumer(topic, group=f"of-{topic}", stop_after=3) as consumer:
        found = [second.decode(message.value) for message in consumer]
    assert found == [{"id": 1, "note": ""}, {"id": 2, "note": ""}, {"id": 3, "note": "x"}]


def test_values_in_protobuf_are_judged_by_their_message(backend: Backend) -> None:
    topic = backend.topic(
        value_schema=schema_of(Timestamp),
        value_schema_type="protobuf",
        value_compatibility="backward_transitive",
    )
    with backend.producer() as producer, backend.admin() as admin:
        producer.send(topic, Timestamp(seconds=7).SerializeToString(), partition=0).result(60)
        with pytest.raises(InvalidRequest, match="backward compatible with version 1: int64"):
            admin.alter_topic(topic, value_schema=schema_of(StringValue))
        for wrong in ({"seconds": 7}, "7", b"\x0a\x01a"):
            with pytest.raises(InvalidRequest, match="does not satisfy the topic's schema"):
                producer.send(topic, wrong).result(60)
        with pytest.raises(InvalidRequest):
            producer.flush()
    with backend.consumer(topic, group=f"of-{topic}", stop_after=1) as consumer:
        assert [Timestamp.FromString(m.value).seconds for m in consumer] == [7]


def test_a_value_that_a_topic_only_warns_of_is_taken_and_marked(backend: Backend) -> None:
    topic = backend.topic(value_schema='{"type": "integer"}', value_policy="warn")
    with backend.producer() as producer:
        producer.send(topic, "x", partition=0).result(60)
        producer.send(topic, 1, partition=0).result(60)
    with backend.consumer(topic, group=f"of-{topic}", stop_after=2) as consumer:
        wrong, right = (message.header("lakequeue-value-fault") for message in consumer)
    assert wrong is not None
    assert b"is not of type" in wrong
    assert right is None


@pytest.mark.parametrize("acks", ["committed", "ordered"])
def test_a_value_that_is_not_of_the_schema_goes_to_the_dead_letters(
    backend: Backend, acks: Literal["committed", "ordered"]
) -> None:
    topic = backend.topic(value_schema='{"type": "integer"}', value_policy="dead_letter")
    with backend.producer(acks=acks, producer_id=f"of-{topic}") as producer:
        handles = [
            producer.send(topic, value, key="k", headers={"a": "b"}) for value in (1, "x", 3)
        ]
        first, dead, last = (handle.result(60) for handle in handles)
    assert (first.dead_letter_topic, last.dead_letter_topic) == (None, None)
    assert dead.dead_letter_topic == f"{topic}.dlq"
    with backend.consumer(topic, group=f"of-{topic}", stop_after=2) as consumer:
        assert [message.json() for message in consumer] == [1, 3]
    with backend.consumer(f"{topic}.dlq", group=f"of-{topic}", stop_after=1) as consumer:
        [letter] = list(consumer)
    assert (letter.value, letter.key, letter.header("a")) == ("x", "k", b"b")
    assert (letter.partition, letter.header("lakequeue-topic")) == (dead.partition, topic.encode())
    assert letter.header("lakequeue-reason") == b"wrong_value"
    assert b"is not of type" in (letter.header("lakequeue-value-fault") or b"")
    with backend.admin() as admin:
        [waiting] = admin.dead_letters(f"{topic}.dlq")
        assert (waiting.origin, waiting.group, waiting.reason) == (topic, "-", "wrong_value")
        admin.alter_topic(topic, value_schema='{"type": ["integer", "string"]}')
        assert admin.redrive(f"{topic}.dlq").redriven == 1
    with backend.consumer(topic, group=f"again-{topic}", stop_after=3) as consumer:
        *_, back = list(consumer)
    assert (back.value, back.partition) == ("x", first.partition)
    assert [name for name, _ in back.headers] == ["a"]


def test_a_record_sent_again_is_one_dead_letter_and_a_fenced_producer_goes_on_behind_it(
    backend: Backend,
) -> None:
    topic = backend.topic(value_schema='{"type": "integer"}', value_policy="dead_letter")
    name = f"of-{topic}"
    with backend.producer(producer_id=name, fence=True) as producer:
        with producer.atomic() as batch:
            for value in (1, "x", 3):
                batch.send(topic, value, partition=0)
        again = producer.send(topic, "y", partition=0, message_id="a").result(60)
        assert producer.send(topic, "y", partition=0, message_id="a").result(60).duplicate
    with backend.producer(producer_id=name, fence=True) as producer:
        handle = producer.send(topic, 4, partition=0).result(60)
        assert (handle.offset, handle.duplicate) == (2, False)
    assert again.dead_letter_topic == f"{topic}.dlq"
    with backend.consumer(f"{topic}.dlq", group=name, stop_after=2) as consumer:
        assert sorted(message.value for message in consumer) == ["x", "y"]
