"""What a worker has fetched ahead and gives back unopened has had no attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from lakequeue import Consumer
from tests.support.services.backends import Backend, lag, take
from tests.support.services.zookeeper import wait_for

VALUES = ["a", "b", "c", "d"]


def all_done_by_another(backend: Backend, topic: str, opened: int) -> None:
    """Whoever comes next gets all that nobody has opened, though each has one attempt."""
    with backend.worker(topic, max_attempts=1) as other:
        rest = take(other, len(VALUES) - opened)
        assert sorted(m.value for m in rest) == VALUES[opened:]
        for message in rest:
            message.ack()
        other.commit()
        wait_for(lambda: lag(backend, topic) == 0, "all is settled")
    with backend.admin() as admin:
        ends = {admin.status(topic, topic, 0, offset).status for offset in range(len(VALUES))}
    assert ends == {"acked"}


def closes(_worker: Consumer) -> None:
    """The end of `with` closes it."""


@pytest.mark.parametrize("leaves", [closes, Consumer.stop, Consumer.close])
def test_what_a_worker_that_leaves_has_not_handed_out_has_had_no_attempt(
    backend: Backend, leaves: Callable[[Consumer], None]
) -> None:
    topic = backend.topic()
    backend.send(topic, *VALUES)
    with backend.worker(topic, max_attempts=1, max_poll_records=4) as worker:
        (mine,) = take(worker, 1)
        assert mine.value == "a"
        wait_for(lambda: worker._core.buffer.ready == 3, "three are fetched ahead")
        mine.ack()
        leaves(worker)
    all_done_by_another(backend, topic, 1)


def test_a_loop_that_is_left_gives_back_what_it_has_not_seen(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, *VALUES)
    with backend.worker(topic, max_attempts=1, max_poll_records=4) as worker:
        for message in worker:
            wait_for(lambda: worker._core.buffer.ready == 3, "three are fetched ahead")
            message.ack()
            break
    all_done_by_another(backend, topic, 1)


def test_the_same_from_asyncio(backend: Backend) -> None:
    topic = backend.topic()
    backend.send(topic, *VALUES)

    async def work() -> None:
        async with backend.async_consumer(
            topic, topic, mode="queue", max_attempts=1, backoff_ms=0, max_poll_records=4
        ) as worker:
            async for message in worker:
                ahead = partial(wait_for, lambda: worker._core.buffer.ready == 3, "three are ahead")
                await asyncio.to_thread(ahead)
                message.ack()
                break

    asyncio.run(work())
    all_done_by_another(backend, topic, 1)


def test_a_record_that_came_back_unopened_dies_of_the_attempts_that_failed(
    backend: Backend,
) -> None:
    topic = backend.topic()
    backend.send(topic, "a")
    for _ in range(3):
        with backend.worker(topic, max_attempts=2) as worker:
            worker.poll(0, 0)
            wait_for(lambda: worker._core.buffer.ready == 1, "it is fetched ahead")
    with backend.worker(topic, max_attempts=2) as worker:
        for _ in range(2):
            (message,) = take(worker, 1)
            message.nack()
            worker.commit()
        wait_for(lambda: lag(backend, topic) == 0, "it is dead")
        assert message.attempt >= 5, "no number is used twice"
    with backend.admin() as admin:
        assert admin.status(topic, topic, 0, 0).status == "dead"
