"""What a worker of a queue group can rely on."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack

import pytest

from lakequeue import Consumer, Message
from lakequeue.errors import AttemptSuperseded, GroupMismatch, InvalidRequest
from tests.support.services.backends import Backend, join, lag, take
from tests.support.services.zookeeper import wait_for


def attempts(messages: list[Message]) -> list[tuple[int, int]]:
    """(offset, attempt), in offset order."""
    return sorted((m.offset, m.attempt) for m in messages)


def test_records_are_settled_in_any_order(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, *range(5))
    with backend.worker(topic) as worker:
        messages = take(worker, 5)
        for message in reversed(messages):
            message.ack()
        worker.commit()
        wait_for(lambda: lag(backend, topic) == 0, "all is settled")
        assert worker.poll(backend.quiet_s) == []


def test_each_record_goes_to_one_of_the_workers(backend: Backend) -> None:
    topic = backend.topic(partitions=2)
    with (
        backend.worker(topic, max_poll_records=5) as one,
        backend.worker(topic, max_poll_records=5) as two,
    ):
        for worker in (one, two):
            join(worker)
        with backend.producer() as producer:
            for n in range(40):
                producer.send(topic, n)
        seen: dict[str, list[int]] = {"one": [], "two": []}

        def all_came() -> bool:
            for name, worker in (("one", one), ("two", two)):
                for message in worker.poll(0.05, 5):
                    seen[name].append(message.value)
                    message.ack()
            return len(seen["one"]) + len(seen["two"]) >= 40

        wait_for(all_came, "40 records")
        one.commit()
        two.commit()
    assert sorted(seen["one"] + seen["two"]) == list(range(40))
    assert seen["one"]
    assert seen["two"]


def test_a_nack_brings_a_record_back_with_the_next_attempt(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "a", "b")
    with backend.worker(topic) as worker:
        first, second = take(worker, 2)
        second.ack()
        first.nack()
        (again,) = take(worker, 1)
        assert attempts([again]) == [(0, 2)]
        again.ack()
        worker.commit()
        wait_for(lambda: lag(backend, topic) == 0, "all is settled")


def test_a_nack_with_a_delay_does_not_come_back_early(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "a")
    with backend.worker(topic) as worker:
        take(worker, 1)[0].nack(delay_s=1.5)
        worker.commit()
        assert worker.poll(backend.quiet_s) == []
        backend.pass_time(1.5)
        assert attempts(take(worker, 1)) == [(0, 2)]


def test_the_rest_after_a_nack_doubles(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "a")
    with backend.worker(topic, backoff_ms=700, backoff_jitter_percent=0) as worker:
        take(worker, 1)[0].nack()
        worker.commit()
        backend.pass_time(0.7)
        take(worker, 1)[0].nack()
        worker.commit()
        backend.pass_time(0.7)
        assert worker.poll(backend.quiet_s) == []
        backend.pass_time(0.7)
        assert attempts(take(worker, 1)) == [(0, 3)]


def test_a_record_that_is_not_settled_in_time_comes_again(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "a")
    with backend.worker(topic, visibility_timeout_ms=1_000, renew_for_s=0) as worker:
        (message,) = take(worker, 1)
        backend.pass_time(1.0)
        (again,) = take(worker, 1)
        assert attempts([again]) == [(0, 2)]
        message.ack()
        with pytest.raises(AttemptSuperseded, match="attempt 1 presented, 2 current") as refused:
            worker.commit()
        assert refused.value.extra["why"] == "superseded"
        assert (refused.value.extra["attempt"], refused.value.extra["current_attempt"]) == (1, 2)
        again.ack()
        worker.commit()
        wait_for(lambda: lag(backend, topic) == 0, "it is settled")


def test_an_extension_keeps_a_record_longer(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "a")
    with backend.worker(topic, visibility_timeout_ms=1_000, renew_for_s=0) as worker:
        (message,) = take(worker, 1)
        message.extend(60)
        worker.commit()
        backend.pass_time(1.2)
        assert worker.poll(backend.quiet_s) == []
        message.ack()
        worker.commit()


def test_what_is_settled_already_is_refused(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, "a")
    with backend.worker(topic) as worker:
        (message,) = take(worker, 1)
        message.ack()
        worker.commit()
        message.ack()
        worker.commit()  # a repeat of the same
        message.nack()
        with pytest.raises(AttemptSuperseded) as refused:
            worker.commit()
        assert refused.value.extra["why"] == "settled"


def test_a_delayed_record_does_not_come_early(backend: Backend) -> None:
    topic = backend.topic()
    began = time.monotonic()
    with backend.producer() as producer:
        producer.send(topic, "late", delay_s=2.0)
        producer.send(topic, "now")
    with backend.worker(topic) as worker:
        came = [*take(worker, 1), *worker.poll(backend.quiet_s)]
        # A slow machine may have taken the two seconds for this much.
        if time.monotonic() - began < 2.0:
            assert [m.value for m in came] == ["now"]
        backend.pass_time(2.0)
        came += take(worker, 2 - len(came))
        assert sorted((m.value, m.attempt) for m in came) == [("late", 1), ("now", 1)]


def test_a_record_is_not_delivered_when_its_time_is_over(backend: Backend) -> None:
    topic = backend.topic()
    with backend.producer() as producer:
        producer.send(topic, "short", ttl_s=0.5)
        producer.send(topic, "long", ttl_s=600)
    backend.pass_time(0.6)
    with backend.worker(topic) as worker:
        (message,) = take(worker, 1)
        assert message.value == "long"
        message.ack()
        worker.commit()
        wait_for(lambda: lag(backend, topic) == 0, "the other one is settled")


def test_key_order_holds_a_keys_next_record_back(backend: Backend) -> None:
    topic = backend.topic()
    with backend.producer() as producer:
        for value, key in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a")):
            producer.send(topic, value, key=key)
    with backend.worker(topic, ordering="key") as worker:
        first, other = take(worker, 2)
        assert [first.value, other.value] == ["a1", "b1"]
        assert worker.poll(backend.quiet_s) == []
        first.nack()
        (again,) = take(worker, 1)
        assert (again.value, again.attempt) == ("a1", 2)
        again.ack()
        (second,) = take(worker, 1)
        assert second.value == "a2"
        second.ack()
        assert [m.value for m in take(worker, 1)] == ["a3"]


def test_a_worker_holds_no_more_than_it_may(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, *range(5))
    with backend.worker(topic, max_in_flight=2) as worker:
        messages = take(worker, 2)
        assert worker.poll(backend.quiet_s) == []
        messages[0].ack()
        assert [m.value for m in take(worker, 1)] == [2]


def test_a_worker_that_stops_after_some_has_fetched_no_others(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, *range(5))
    with backend.worker(topic, stop_after=3, max_poll_records=2) as worker:
        values = []
        for message in worker:
            values.append(message.value)
            message.ack()
        assert worker.stopping
    assert values == [0, 1, 2]
    with backend.worker(topic) as other:
        assert attempts(take(other, 2)) == [(3, 1), (4, 1)]


def test_a_worker_gets_what_the_predicate_of_its_group_takes(backend: Backend) -> None:
    topic = backend.topic()
    for n in range(8):
        backend.send(topic, {"n": n}, key="ab"[n % 2])
    with backend.worker(topic, predicate="key = 'b' AND json_value(value, '$.n') > 2") as worker:
        messages = take(worker, 3)
        assert [m.value["n"] for m in messages] == [3, 5, 7]
        messages[0].ack()
        messages[1].nack()
        messages[2].ack()
        (again,) = take(worker, 1)
        assert (again.offset, again.attempt) == (5, 2)
        again.ack()
        worker.commit()
        wait_for(lambda: lag(backend, topic) == 0, "all is settled")
        with backend.admin() as admin:
            assert admin.status(topic, topic, 0, 2).status == "acked"
    with backend.worker(topic, predicate="TRUE") as other, pytest.raises(GroupMismatch):
        next(other)


def test_what_a_worker_leaves_behind_goes_to_the_others(backend: Backend) -> None:
    topic = backend.topic()
    with backend.worker(topic, max_poll_records=1) as stays:
        join(stays)
        wait_for(lambda: stays.assignment, "it has the partition")
        with backend.worker(topic) as leaves:
            backend.send(topic, *range(4))
            held: list[Message] = []

            def some() -> bool:
                held.extend(leaves.poll(0.1))
                return bool(held)

            wait_for(some, "it got some")
        found = take(stays, 4)
        assert {m.offset for m in found} == set(range(4))
        assert {m.offset for m in found if m.attempt == 2} >= {m.offset for m in held}


def test_options_belong_to_the_group(backend: Backend) -> None:
    topic = backend.topic()
    with backend.worker(topic, max_attempts=3) as worker:
        join(worker)
        with (
            backend.worker(topic, max_attempts=4) as other,
            pytest.raises(GroupMismatch, match="max_attempts 3, 4 was asked for"),
        ):
            next(other)
        with backend.consumer(topic, topic) as other, pytest.raises(GroupMismatch):
            next(other)


def test_options_that_do_not_fit_are_refused(backend: Backend) -> None:
    topic = backend.topic()
    with (
        backend.worker(topic, backoff_ms=10, backoff_max_ms=5) as worker,
        pytest.raises(InvalidRequest, match="backoff_max_ms 5 is below backoff_ms 10"),
    ):
        next(worker)
    with (
        backend.worker(topic, dead_letter_topic=topic) as worker,
        pytest.raises(InvalidRequest, match="in a circle"),
    ):
        next(worker)


def test_a_worker_that_is_stopped_keeps_what_it_handed_out_and_nothing_else(
    backend: Backend,
) -> None:
    topic = backend.topic()
    backend.send(topic, "a", "b", "c")
    with (
        backend.worker(topic, visibility_timeout_ms=600_000) as stopped,
        backend.worker(topic) as other,
    ):
        (mine,) = take(stopped, 1)
        wait_for(lambda: stopped._core.buffer.ready == 2, "two are fetched ahead")
        stopped.stop()
        backend.send(topic, "d")
        rest = take(other, 3)
        assert attempts(rest)[:2] == [(1, 2), (2, 2)]
        assert {m.value for m in rest} == {"b", "c", "d"}
        mine.ack()
        stopped.commit()
        for message in rest:
            message.ack()
        other.commit()
        wait_for(lambda: lag(backend, topic) == 0, "all is settled")


def test_nothing_waits_behind_a_record_that_a_worker_is_slow_with(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, *range(8))
    go, took = threading.Event(), Counter[int]()

    def work(number: int, worker: Consumer) -> None:
        for message in worker:
            took[number] += 1
            assert go.wait(60)
            message.ack()

    with ExitStack() as stack:
        workers = [stack.enter_context(backend.worker(topic)) for _ in range(8)]
        threads = [threading.Thread(target=work, args=one) for one in enumerate(workers)]
        for thread in threads[:4]:
            thread.start()
        wait_for(lambda: took == dict.fromkeys(range(4), 1), "four are at work")
        for thread in threads[4:]:
            thread.start()
        # Nothing is left for them if each of the first four has fetched one ahead.
        wait_for(lambda: took == dict.fromkeys(range(8), 1), "the others have the rest")
        go.set()
        wait_for(lambda: lag(backend, topic) == 0, "all is done")
        for worker in workers:
            worker.stop()
        for thread in threads:
            thread.join(30)
