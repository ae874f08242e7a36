"""What administration can rely on: topics, positions, seeking, looking."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakequeue.errors import (
    AttemptSuperseded,
    GroupActive,
    InvalidName,
    InvalidRequest,
    OffsetOutOfRange,
    TopicClosed,
    TopicExists,
    UnknownGroup,
    UnknownTopic,
)
from tests.support.services.backends import Backend, join, take
from tests.support.services.zookeeper import wait_for

SECOND = 1_000_000
START = 1_400_000_000 * SECOND


def test_a_topic_is_created_once_and_altered(backend: Backend) -> None:
    topic = backend.topic(partitions=2)
    with backend.admin() as admin:
        assert admin.create_topic(topic, partitions=2)[1] is False
        with pytest.raises(TopicExists, match="partitions 2"):
            admin.create_topic(topic, partitions=3)
        assert admin.create_topic(topic, partitions=3, if_not_exists=True)[1] is False
        altered = admin.alter_topic(topic, partitions=4, ttl_ms=5_000)
        assert (altered.partitions, altered.ttl_ms, altered.version) == (4, 5_000, 1)
        with pytest.raises(InvalidRequest, match="partitions only grow"):
            admin.alter_topic(topic, partitions=1)
        assert topic in [t.topic for t in admin.topics()]


def test_a_topic_grows_when_it_is_drained_and_takes_no_records_while_it_is_closed(
    backend: Backend,
) -> None:
    topic = backend.topic()
    backend.send(topic, "a")
    with backend.admin() as admin:
        with pytest.raises(InvalidRequest, match="close it first"):
            admin.settle_topic(topic)
        admin.alter_topic(topic, closed_for_ms=60_000)
        admin.settle_topic(topic)
        with pytest.raises(TopicClosed), backend.producer(delivery_timeout_s=0.2) as producer:
            producer.send(topic, "b").result(30)
        admin.alter_topic(topic, closed_for_ms=0)
        assert admin.grow_topic(topic, 2).partitions == 2
    backend.send(topic, "c")


def test_names_are_checked(backend: Backend) -> None:
    with backend.admin() as admin, pytest.raises(InvalidName):
        admin.create_topic("no spaces")


def test_a_topic_that_is_created_again_begins_anew(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "old", message_id="m")
    with backend.admin() as admin:
        before = admin.topic(topic).topic_id
        admin.delete_topic(topic)
        with pytest.raises(UnknownTopic):
            admin.topic(topic)
        admin.create_topic(topic, partitions=1)
        assert admin.topic(topic).topic_id != before
    with backend.producer() as producer:
        placed = producer.send(topic, "new", message_id="m").result(60)
    assert (placed.offset, placed.duplicate) == (0, False)
    with backend.consumer(topic, topic) as consumer:
        assert [m.value for m in take(consumer, 1)] == ["new"]


def test_a_seek_that_is_only_tried_leaves_the_group_new_to_the_topic(backend: Backend) -> None:
    first, other = backend.topic(), backend.topic()
    backend.send(other, "before")
    with backend.consumer(first, first) as consumer:
        join(consumer)
    with backend.admin() as admin:
        tried = admin.seek(first, "earliest", topics=[other], dry_run=True)
        assert [(move.from_offset, move.to_offset) for move in tried.partitions] == [(None, 0)]
    with backend.consumer(other, first, from_="latest") as consumer:
        join(consumer)
        wait_for(lambda: consumer.assignment.get((other, 0)) is not None, "it owns the partition")
        backend.send(other, "after")
        assert [m.value for m in take(consumer, 1)] == ["after"]


def test_a_group_tells_where_it_is(backend: Backend) -> None:
    topic = backend.topic(partitions=2)
    backend.send(topic, *range(4), partition=0)
    with backend.admin() as admin:
        with pytest.raises(UnknownGroup):
            admin.group(topic)
        with backend.consumer(topic, topic) as consumer:
            take(consumer, 4)[0].ack()
            consumer.commit()
            described = admin.group(topic)
            rows = {row.partition: row for row in described.partitions}
            assert (rows[0].committed_offset, rows[0].end_offset, rows[0].lag) == (1, 4, 3)
            assert (rows[1].committed_offset, rows[1].end_offset, rows[1].lag) == (None, 0, 0)
            assert rows[0].owner == consumer.member_id
            assert rows[0].epoch == consumer.assignment[topic, 0]
            assert [m.member_id for m in described.members] == [consumer.member_id]
        assert [g.members for g in admin.groups() if g.group == topic] == [0]


def test_a_queue_group_tells_what_is_open(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, *range(4))
    with backend.worker(topic, max_attempts=9) as worker, backend.admin() as admin:
        messages = take(worker, 4)
        messages[0].ack()
        messages[1].nack(delay_s=60)
        worker.commit()

        def counts() -> tuple[object, ...]:
            (row,) = admin.group(topic).partitions
            return row.committed_offset, row.in_flight, row.parked, row.dying, row.lag

        wait_for(lambda: counts() == (4, 2, 1, 0, 3), "what is open")
        described = admin.group(topic)
        assert described.mode == "queue"
        assert described.options == {"max_attempts": 9, "backoff_ms": 0}


@pytest.mark.parametrize(
    ("to", "given", "first"),
    [
        ("earliest", {}, 0),
        ("latest", {"shift": -2}, 8),
        ("offset", {"offset": 4}, 4),
        ("time", {"time": START + 6 * SECOND}, 6),
        ("committed", {"shift": -1}, 4),
    ],
)
def test_a_group_goes_where_it_is_sent(
    backend: Backend, to: str, given: dict[str, int], first: int
) -> None:
    topic = backend.topic()
    with backend.producer() as producer:
        for n in range(10):
            producer.send(topic, n, timestamp=START + n * SECOND)
    with backend.consumer(topic, topic) as consumer:
        for message in take(consumer, 5):
            message.ack()
    with backend.admin() as admin:
        asked = admin.seek(topic, to, dry_run=True, **given)  # type: ignore[arg-type]
        assert [(m.from_offset, m.to_offset) for m in asked.partitions] == [(5, first)]
        assert admin.group(topic).partitions[0].committed_offset == 5
        assert admin.seek(topic, to, **given).executed  # type: ignore[arg-type]
    with backend.consumer(topic, topic) as consumer:
        assert take(consumer, 1)[0].value == first


def test_a_queue_group_that_is_sent_back_gets_everything_again(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, *range(3))
    with backend.worker(topic) as worker:
        old = take(worker, 3)
        for message in old:
            message.ack()
    with backend.admin() as admin:
        admin.seek(topic, "offset", offset=1)
    with backend.worker(topic) as worker:
        assert [(m.value, m.attempt) for m in take(worker, 2)] == [(1, 1), (2, 1)]


def test_a_seek_makes_a_group_that_is_not_there(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, *range(3))
    with backend.admin() as admin:
        with pytest.raises(UnknownGroup):
            admin.seek(topic, "latest")
        admin.seek(topic, "latest", shift=-1, topics=[topic])
    with backend.consumer(topic, topic) as consumer:
        assert [m.value for m in take(consumer, 1)] == [2]


def test_a_group_with_members_is_neither_moved_nor_deleted(backend: Backend) -> None:
    topic = backend.topic()
    with backend.consumer(topic, topic) as consumer, backend.admin() as admin:
        join(consumer)
        with pytest.raises(GroupActive) as active:
            admin.seek(topic, "earliest")
        assert active.value.extra["members"] == [consumer.member_id]
        with pytest.raises(GroupActive):
            admin.delete_group(topic)


def test_a_deleted_group_begins_anew(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "a")
    with backend.consumer(topic, topic) as consumer:
        take(consumer, 1)[0].ack()
    with backend.admin() as admin:
        admin.delete_group(topic)
        with pytest.raises(UnknownGroup):
            admin.group(topic)
    with backend.consumer(topic, topic) as consumer:
        assert [m.value for m in take(consumer, 1)] == ["a"]


def test_records_can_be_looked_at_without_a_group(backend: Backend) -> None:
    topic = backend.topic(partitions=2)
    with backend.producer() as producer:
        for n in range(6):
            producer.send(topic, n, key=f"k{n % 2}", partition=0, timestamp=START + n * SECOND)
    with backend.admin() as admin:
        page = admin.browse(topic, 0, offset=2, max_records=2)
        assert [r.value for r in page.records] == [2, 3]
        assert (page.next_offset, page.end_offset, page.more) == (4, 6, True)
        assert [r.value for r in admin.browse(topic, 0, key="k1").records] == [1, 3, 5]
        later = admin.browse(topic, 0, time=START + 4 * SECOND)
        assert [r.value for r in later.records] == [4, 5]
        assert admin.record(topic, 0, 5).value == 5
        with pytest.raises(OffsetOutOfRange):
            admin.record(topic, 0, 6)
        with pytest.raises(InvalidRequest, match="partition 2 does not exist"):
            admin.browse(topic, 2)


def test_a_time_in_seconds_is_refused_and_does_not_mean_from_the_start(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "v", timestamp=START)
    long_ago = datetime(1960, 1, 1, tzinfo=UTC)
    with backend.admin() as admin:
        for slip in (START // 1_000_000, START // 1_000, 0, -(1 << 70), 1 << 70):
            with pytest.raises(InvalidRequest, match="time"):
                admin.browse(topic, 0, time=slip)
            with pytest.raises(InvalidRequest, match="time"):
                admin.seek(topic, "time", time=slip, topics=[topic])
        with pytest.raises(InvalidRequest, match="is before 1973: seconds or milliseconds"):
            admin.browse(topic, 0, time=START // 1_000_000)
        # As a time it can be said: nobody takes it for another unit.
        assert len(admin.browse(topic, 0, time=long_ago).records) == 1
        moves = admin.seek(topic, "time", time=long_ago, topics=[topic], dry_run=True).partitions
        assert [move.to_offset for move in moves] == [0]


def test_a_paused_group_gets_nothing_until_it_is_resumed(backend: Backend) -> None:
    topic = backend.topic(partitions=2)
    with backend.consumer(topic, topic) as consumer, backend.admin() as admin:
        join(consumer)
        wait_for(lambda: len(consumer.assignment) == 2, "it owns both")
        assert admin.pause(topic, topic, [1]).rules[0].partition == 1
        for partition in range(2):
            backend.send(topic, partition, partition=partition)
        assert [m.value for m in take(consumer, 1)] == [0]
        assert consumer.poll(backend.quiet_s) == []
        rows = {row.partition: row.paused for row in admin.group(topic).partitions}
        assert rows == {0: False, 1: True}
        admin.resume(topic)
        assert [m.value for m in take(consumer, 1)] == [1]
        with pytest.raises(InvalidRequest, match="partition 2 does not exist"):
            admin.pause(topic, topic, [2])


def test_a_purged_queue_group_gets_nothing_of_before(backend: Backend) -> None:
    topic = backend.topic()
    with backend.worker(topic, max_poll_records=1) as worker:
        backend.send(topic, *range(3))
        (message,) = take(worker, 1)
        with backend.queue(topic) as queue:
            queue.purge()
        message.ack()
        with pytest.raises(AttemptSuperseded):
            worker.commit()
        backend.send(topic, "after")
        wait_for(lambda: "after" in [m.value for m in worker.poll(0.1)], "what came after it")
