"""What a poll brings is acknowledged as one."""

from __future__ import annotations

import pytest

from lakequeue.errors import SkippedRecords
from tests.support.services.backends import Backend, committed, lag
from tests.support.services.zookeeper import wait_for


def test_what_a_poll_brings_is_acknowledged_as_one(backend: Backend) -> None:
    topic = backend.topic(partitions=2)
    for partition in (0, 1):
        backend.send(topic, *range(4), partition=partition)
    with backend.consumer(topic, topic) as consumer:
        seen: list[tuple[int, int]] = []
        while len(seen) < 8:
            batch = consumer.poll(5.0, 3)
            seen += [(m.partition, m.offset) for m in batch]
            if len(seen) > 3:
                batch[0].ack()  # one that is done already does not matter
            batch.ack()
        consumer.commit()
        assert sorted(seen) == [(p, n) for p in (0, 1) for n in range(4)]
        assert committed(backend, topic) == [4, 4]


def test_a_batch_is_not_acknowledged_over_records_of_an_earlier_one(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, *range(4))
    with backend.consumer(topic, topic) as consumer:
        first = consumer.poll(5.0, 1)
        second = consumer.poll(5.0, 1)
        with pytest.raises(SkippedRecords, match="offset 1 acknowledged, 0 is not yet"):
            second.ack()
        first.ack()
        second.ack()
        consumer.commit()
        assert committed(backend, topic) == [2]


def test_a_batch_of_a_queue_group_is_settled_as_one(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, *range(5))
    with backend.worker(topic) as worker:
        count = 0
        while count < 5:
            batch = worker.poll(5.0, 5)
            count += len(batch)
            batch.ack()
        worker.commit()
        wait_for(lambda: lag(backend, topic) == 0, "all is settled")
