"""Records of stream groups that expire before they are delivered."""

from __future__ import annotations

from lakequeue import Consumer, Producer
from lakequeue.errors import UnknownGroup
from tests.support.services.backends import Backend, committed, lag, take
from tests.support.services.zookeeper import wait_for


def _passed(backend: Backend, group: str, offset: int) -> bool:
    """Whether the group is known, and stands there."""
    try:
        return committed(backend, group) == [offset]
    except UnknownGroup:  # until the node has told the tables of its first member
        return False


def test_what_has_expired_is_passed_and_leaves_no_lag(backend: Backend) -> None:
    topic = backend.topic()
    with backend.producer() as producer:
        producer.send(topic, "short", ttl_s=0.5)
        producer.send(topic, "long", ttl_s=600)
        for _ in range(3):
            producer.send(topic, "short", ttl_s=0.5)
    backend.pass_time(0.6)
    with backend.consumer(topic, topic) as consumer:
        (message,) = take(consumer, 1)
        assert (message.value, message.offset) == ("long", 1)
        message.ack()
        assert consumer.poll(backend.quiet_s) == []
        wait_for(lambda: _polled(consumer) and lag(backend, topic) == 0, "the others are passed")
    with backend.admin() as admin:
        assert [admin.status(topic, topic, 0, n).status for n in range(5)] == ["acked"] * 5
    assert committed(backend, topic) == [5]


def test_a_topic_of_which_all_has_expired_has_no_lag(backend: Backend) -> None:
    topic = backend.topic(ttl_ms=500)
    backend.send(topic, *range(5))
    backend.pass_time(0.6)
    with backend.consumer(topic, topic) as consumer:
        wait_for(lambda: _polled(consumer) and _passed(backend, topic, 5), "all is passed")
    assert lag(backend, topic) == 0


def test_a_transform_goes_on_over_what_has_expired(backend: Backend) -> None:
    topic, target = backend.topic(), backend.topic()
    with backend.producer() as producer:
        for value, ttl_s in ((1, 600), (-1, 0.5), (2, 600), (-2, 0.5)):
            producer.send(topic, value, ttl_s=ttl_s)
        producer.flush()
        backend.pass_time(0.6)
        with backend.consumer(topic, topic) as consumer:
            _transform_all(consumer, producer, target, 2)
            assert consumer.take(backend.quiet_s) is None, "the last one is not delivered"
        producer.send(topic, 3, ttl_s=600)
        with backend.consumer(topic, topic) as consumer:
            _transform_all(consumer, producer, target, 1)
            consumer.commit()
    assert committed(backend, topic) == [5]
    with backend.consumer(target, target) as consumer:
        assert [m.value for m in take(consumer, 3)] == [1, 2, 3]


def _transform_all(consumer: Consumer, producer: Producer, target: str, count: int) -> None:
    while count:
        with consumer.transform(producer, target) as tx:
            for message in tx.messages:
                tx.send(message.value)
        count -= len(tx.messages)


def _polled(consumer: Consumer) -> bool:
    return consumer.poll(0.05) == []
