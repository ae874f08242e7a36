"""What the memory queue has beside the services: its clock, its addresses, its end."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from lakequeue import Admin, Consumer, Lost, Message, Producer
from lakequeue.calling import blocking_runner
from lakequeue.calling.effects import Reply
from lakequeue.errors import InvalidRequest, UnknownMember, Unreachable
from lakequeue.testing import MemoryQueue
from lakequeue.wire import DEFAULT_CONSUMER_URL, DEFAULT_INGEST_URL
from memory_queue.calls import Aside, Call, Later
from memory_queue.service import Service


def take(consumer: Consumer, count: int) -> list[Message]:
    """The next `count` records."""
    found: list[Message] = []
    while len(found) < count:
        some = consumer.poll(10, count - len(found))
        assert some, f"{len(found)} of {count} came"
        found += some
    return found


def test_code_that_names_no_address_finds_the_queue() -> None:
    with MemoryQueue([DEFAULT_INGEST_URL, DEFAULT_CONSUMER_URL]) as queue:
        queue.create_topic("orders")
        with Producer() as producer:
            producer.send("orders", "a")
        with Consumer("orders", group="g") as consumer:
            assert take(consumer, 1)[0].value == "a"
    # Not asked: a queue of this machine's own may answer at these addresses.
    assert not blocking_runner._mounted, "what is made from now on asks the network"


def test_a_producer_sends_json_where_arrow_is_not_taken() -> None:
    with MemoryQueue() as queue:
        queue.create_topic("orders", partitions=1)
        for _ in range(2):  # of which the first is told so
            with Producer(queue.url, linger_ms=500) as producer:
                sent = [producer.send("orders", b"%d" % n) for n in range(100)]
                assert len({one.result(timeout=10).message_id for one in sent}) == 100
        values = [record.value for record in queue.records("orders")]
        assert values == [b"%d" % n for n in range(100)] * 2


def test_queues_know_nothing_of_each_other() -> None:
    with MemoryQueue() as one, MemoryQueue() as two:
        one.create_topic("orders")
        assert [t.topic for t in one.admin().topics()] == ["orders"]
        assert two.admin().topics() == []


def test_a_closed_queue_does_not_answer() -> None:
    queue = MemoryQueue()
    admin = Admin(queue.url, queue.url, timeout_s=0)
    queue.close()
    with admin, pytest.raises(Unreachable, match="the in-memory queue is closed"):
        admin.topics()


def test_closing_ends_the_threads_of_what_was_made_here() -> None:
    with MemoryQueue() as other:
        other.create_topic("orders")
        other.producer().send("orders", "a")  # one thread is of all producers of the process
    before = set(threading.enumerate())
    queue = MemoryQueue()
    queue.create_topic("orders")
    producer, consumer = queue.producer(), queue.consumer("orders", group="g")
    producer.send("orders", "a")
    take(consumer, 1)
    queue.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


def test_the_clock_goes_forward_alone() -> None:
    with MemoryQueue() as queue:
        before = queue.clock.now()
        queue.clock.advance(timedelta(days=400))
        assert queue.clock.now() - before >= timedelta(days=400)
        with pytest.raises(InvalidRequest, match="cannot go back"):
            queue.clock.advance(-1)


def test_a_delay_of_years_is_over_when_the_clock_says_so() -> None:
    with MemoryQueue() as queue:
        queue.create_topic("orders")
        with queue.producer() as producer, queue.consumer("orders", "g", mode="queue") as worker:
            due = queue.clock.now() + timedelta(days=3650)
            producer.send("orders", "later", deliver_at=due).result(10)
            assert worker.poll(0.05) == []
            queue.clock.advance(timedelta(days=3649))
            assert worker.poll(0.05) == []
            queue.clock.advance(timedelta(days=1))
            assert take(worker, 1)[0].value == "later"


def test_ids_are_forgotten_behind_the_window() -> None:
    with MemoryQueue() as queue:
        queue.create_topic("orders", partitions=1, dedup_window_ms=60_000)
        with queue.producer(acks="ordered") as producer:
            seen = []
            for seconds in (0, 59, 2):
                queue.clock.advance(seconds)
                placed = producer.send("orders", "v", message_id="m").result(10)
                seen.append((placed.offset, placed.duplicate))
    assert seen == [(0, False), (0, True), (1, False)]


def test_an_expired_consumer_loses_its_partitions_and_joins_again() -> None:
    lost: list[Lost] = []
    with MemoryQueue() as queue:
        queue.create_topic("orders", partitions=1)
        with queue.producer() as producer:
            producer.send("orders", "a")
        with queue.consumer("orders", "g", on_lost=lost.extend) as consumer:
            (first,) = take(consumer, 1)
            queue.expire(consumer)
            again = next(consumer)
            assert (again.value, again.epoch) == ("a", 2)
            assert (first.epoch, [item.epoch for item in lost]) == (1, [1])
            again.ack()
            consumer.commit()
            with pytest.raises(UnknownMember):
                queue.expire("nobody")


def test_an_expired_workers_records_go_to_another_at_once() -> None:
    with MemoryQueue() as queue:
        queue.create_topic("orders", partitions=1)
        with queue.consumer("orders", "g", mode="queue", max_poll_records=1) as hung:
            with queue.producer() as producer:
                producer.send("orders", "a")
            take(hung, 1)
            with queue.consumer("orders", "g", mode="queue") as other:
                assert other.poll(0.05) == []
                hung.stop()
                queue.expire(hung)
                (again,) = take(other, 1)
                assert (again.value, again.attempt) == ("a", 2)


def test_records_tells_all_there_are() -> None:
    with MemoryQueue() as queue:
        queue.create_topic("orders", partitions=2)
        with queue.producer() as producer:
            for n in range(4):
                producer.send("orders", n, partition=n % 2, headers={"n": str(n)})
        found = queue.records("orders")
    assert [(r.partition, r.offset, r.value) for r in found] == [
        *((0, 0, 0), (0, 1, 2)),
        *((1, 0, 1), (1, 1, 3)),
    ]
    assert found[0].header("n") == b"0"


def test_what_needs_the_services_says_so() -> None:
    with MemoryQueue() as queue, pytest.raises(InvalidRequest, match="lakequeue up"):
        queue.admin().webhook("g")


def test_whoever_waits_for_dead_letters_is_woken_by_one_that_dies_of_its_timeout() -> None:
    with MemoryQueue() as queue:
        queue.create_topic("orders", partitions=1)
        queue.create_topic("orders.dlq", partitions=1)
        with (
            queue.consumer("orders.dlq", "undertaker") as undertaker,
            queue.consumer("orders", "g", mode="queue", max_attempts=1, renew_for_s=0) as worker,
        ):
            assert undertaker.poll(0.1) == []
            with queue.producer() as producer:
                producer.send("orders", "a")
            take(worker, 1)
            queue.clock.advance(31)
            # Less than a poll waits.
            assert [m.value for m in undertaker.poll(2.5)] == ["a"]


def test_who_waits_looks_when_something_has_changed_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[str] = []
    answer = Service.answer

    def counted(service: Service, call: Call) -> Reply | Later | Aside:
        looks.append(call.path)
        return answer(service, call)

    monkeypatch.setattr(Service, "answer", counted)
    with MemoryQueue() as queue, queue.queue("jobs") as jobs:
        queue.create_topic("orders")
        looks.clear()
        assert jobs.receive(wait_s=0.3) == []
        assert looks == ["/v1/groups/jobs/receive"] * 2
        with queue.consumer("orders", "g") as consumer:
            assert consumer.poll(0.3) == []
        assert 2 <= sum(path.endswith("/records") for path in looks) <= 6
