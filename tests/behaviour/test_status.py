"""What became of a record in a group."""

from __future__ import annotations

import pytest

from lakequeue.errors import UnknownGroup, UnknownRecord, UnknownTopic
from lakequeue.wire import RecordStatus
from tests.support.services.backends import Backend, take
from tests.support.services.zookeeper import wait_for


def statuses(backend: Backend, group: str, topic: str, count: int) -> list[RecordStatus]:
    """Of the first records of partition 0."""
    with backend.admin() as admin:
        return [admin.status(group, topic, 0, offset) for offset in range(count)]


def names(backend: Backend, group: str, topic: str, count: int) -> list[str]:
    return [one.status for one in statuses(backend, group, topic, count)]


def test_a_worker_moves_its_records_from_status_to_status(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "acked", "held", "nacked", "dead")
    with backend.worker(topic, max_attempts=1) as worker:
        acked, held, _, dead = take(worker, 4)
        assert names(backend, topic, topic, 4) == ["in_flight"] * 4
        acked.ack()
        dead.nack()
        worker.commit()
        backend.send(topic, "later", delay_s=3_600)
        backend.send(topic, "new")
        assert take(worker, 1)[0].value == "new"
        wait_for(lambda: names(backend, topic, topic, 4)[3] == "dead", "it is dead")
        found = statuses(backend, topic, topic, 6)
        assert [one.status for one in found] == [
            *("acked", "in_flight", "in_flight", "dead", "parked", "in_flight")
        ]
        assert [one.attempt for one in found] == [None, 1, 1, 1, 0, 1]
        assert found[1].deadline is not None
        assert found[1].member is not None
        assert found[3].reason == "max_attempts"
        letter = found[3].dead_letter
        assert letter is not None
        assert letter.topic == f"{topic}.dlq"
        with backend.admin() as admin:
            assert admin.record(letter.topic, letter.partition, letter.offset).value == "dead"
        held.ack()
        worker.commit()
        assert names(backend, topic, topic, 2) == ["acked", "acked"]


def test_what_a_member_of_a_stream_group_has_got_is_in_flight(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, 1, 2)
    with backend.consumer(topic, "g") as consumer:
        first, _ = take(consumer, 2)
        backend.send(topic, 3)
        first.ack()
        consumer.commit()
        found = statuses(backend, "g", topic, 2)
        assert [one.status for one in found] == ["acked", "in_flight"]
        assert (found[1].member, found[1].attempt) == (consumer.member_id, None)


def test_what_does_not_exist_has_no_status(backend: Backend) -> None:
    topic, other = backend.topic(partitions=2), backend.topic()
    backend.send(topic, "a", partition=0)
    backend.send(other, "a")
    with backend.consumer(topic, topic) as consumer, backend.admin() as admin:
        take(consumer, 1)
        with pytest.raises(UnknownTopic):
            admin.status(topic, "nowhere", 0, 0)
        with pytest.raises(UnknownRecord, match="partition 2 does not exist"):
            admin.status(topic, topic, 2, 0)
        with pytest.raises(UnknownRecord, match="offsets 0 to 0, not 1"):
            admin.status(topic, topic, 0, 1)
        with pytest.raises(UnknownRecord, match="no record, not 0"):
            admin.status(topic, topic, 1, 0)
        with pytest.raises(UnknownGroup, match="does not consume topic"):
            admin.status(topic, other, 0, 0)
        with pytest.raises(UnknownGroup, match="does not exist"):
            admin.status("nobody", topic, 0, 0)


def counts(backend: Backend, group: str, topic: str) -> tuple[int, int, int, int]:
    """Pending, in flight, parked, dying."""
    with backend.admin() as admin:
        found = admin.counts(group, topic)
    return found.pending, found.in_flight, found.parked, found.dying


def test_counts_need_nobody_who_consumes(backend: Backend) -> None:
    topic = backend.topic(partitions=2)
    backend.send(topic, 1, 2, 3)
    backend.send(topic, "later", delay_s=3_600)
    backend.send(topic, "soon", delay_s=6)
    assert counts(backend, topic, topic) == (3, 0, 2, 0)
    queue = backend.queue(topic)
    held = [*queue.receive(1, visibility_timeout_s=6)]
    held += queue.receive(1, visibility_timeout_s=600)
    assert len(held) == 2
    assert counts(backend, topic, topic) == (1, 2, 2, 0)
    backend.pass_time(6.1)
    assert counts(backend, topic, topic) == (3, 1, 1, 0), "nobody has looked since"
    queue.delete(held[1])
    assert counts(backend, topic, topic) == (3, 0, 1, 0)
    queue.purge()
    assert counts(backend, topic, topic) == (0, 0, 0, 0)
    assert counts(backend, "nobody", topic) == (4, 0, 1, 0), "a new group begins at the beginning"
    with backend.consumer(topic, "stream") as consumer:
        take(consumer, 1)
        assert counts(backend, "stream", topic)[1:] == (0, 0, 0)
    with backend.admin() as admin, pytest.raises(UnknownTopic):
        admin.counts("nobody", "nothing")
