"""A real Celery application: the example, with workers as processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.services.zookeeper import wait_for
from tests.support.sqs.celery_worker import Shop
from tests.support.sqs.running import GatewayProcess, client

pytestmark = pytest.mark.zookeeper
Name = Callable[..., str]
DONE = ("packed", "charged", "reminded")
COUNTS = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]


def is_empty(sqs: Any, queue: str) -> bool:
    """Whether nothing waits there, and nobody has anything."""
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=COUNTS)["Attributes"]
    return set(told.values()) == {"0"}


def test_retries_and_countdowns(
    cluster_gateway: GatewayProcess, name: Name, tmp_path: Path
) -> None:
    queue, sqs = name(), client(cluster_gateway.url)
    with Shop(cluster_gateway.url, queue, tmp_path, visibility_s=60) as shop:
        worker = shop.worker()
        asked_at = time.time()
        shop.sell(6)
        shop.ask(
            "now = datetime.datetime.now(datetime.timezone.utc)\n"
            "remind.apply_async((7,), eta=now + datetime.timedelta(seconds=2))"
        )

        def done() -> bool:
            return len(shop.books("charged")) + len(shop.books("reminded")) >= 13

        wait_for(done, "all tasks are done", 60)
        shop.end(worker)
        tries = {line["order"]: line["tries"] for line in shop.books("charged")}
        assert tries == {1: 1, 2: 1, 3: 2, 4: 1, 5: 1, 6: 2}
        reminders = shop.books("reminded")
        assert sorted(line["order"] for line in reminders) == list(range(1, 8))
        for line in reminders:
            assert line["at"] >= asked_at + (2 if line["order"] == 7 else 3)
        assert len(shop.books("charged")) == 6
        wait_for(lambda: is_empty(sqs, queue), "the queue is empty")


@pytest.mark.faults
@pytest.mark.timeout(240)
def test_what_a_killed_worker_had_is_done_once_after_its_visibility(
    cluster_gateway: GatewayProcess, name: Name, tmp_path: Path
) -> None:
    queue, sqs, visibility_s = name(), client(cluster_gateway.url), 8
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with Shop(cluster_gateway.url, queue, tmp_path, visibility_s) as shop:
        first = shop.worker()
        shop.ask(
            f"for order in (1, 2): pack.delay(order, {str(pipe)!r})\n"
            "for order in range(3, 13): charge.delay(order, cents=order)\n"
            "remind.apply_async((13,), countdown=1)"
        )
        wait_for(lambda: len(shop.books("begun")) == 2, "both processes are in the middle", 60)
        begun = shop.books("begun")
        shop.kill(first)
        assert not shop.books("packed")
        pipe.unlink()
        pipe.write_bytes(b"")  # whoever reads it from now on is done at once
        second = shop.worker()

        def done() -> bool:
            return all(len(shop.books(did)) >= n for did, n in zip(DONE, (2, 10, 1), strict=True))

        wait_for(done, "all tasks are done", 120)
        wait_for(lambda: is_empty(sqs, queue), "the queue is empty", 60)
        shop.end(second)
        again = shop.books("begun")[2:]
        assert sorted(line["order"] for line in again) == [1, 2]
        for line in again:
            (before,) = (one for one in begun if one["order"] == line["order"])
            # It was received a moment before it began.
            assert line["at"] >= before["at"] + visibility_s - 1
        assert [sorted(line["order"] for line in shop.books(did)) for did in DONE] == [
            [1, 2],
            [*range(3, 13)],
            [13],
        ]
