"""`commit()` waits for acknowledgements; where there are none, the application is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Literal

import pytest

from lakequeue.testing import MemoryQueue


@pytest.fixture
def queue() -> Iterator[MemoryQueue]:
    with MemoryQueue() as opened:
        opened.create_topic("orders", partitions=1)
        with opened.producer() as producer:
            for n in range(3):
                producer.send("orders", n)
        yield opened


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]


@pytest.mark.parametrize("mode", ["stream", "queue"])
def test_a_commit_of_nothing_warns_once(
    queue: MemoryQueue, caplog: pytest.LogCaptureFixture, mode: Literal["stream", "queue"]
) -> None:
    with queue.consumer("orders", "billing", mode=mode) as consumer:
        consumer.commit()
        assert warnings(caplog) == [], "nothing was delivered yet"
        assert len(consumer.poll(5.0)) == 3
        consumer.commit()
        consumer.commit()
        [warning] = warnings(caplog)
    assert "group billing commits nothing" in warning
    assert "3 records" in warning
    assert "message.ack()" in warning
    assert len(warnings(caplog)) == 1, "closing commits as well, and is no mistake"


@pytest.mark.parametrize("does", ["ack", "nack"])
def test_whoever_settles_records_is_not_warned(
    queue: MemoryQueue, caplog: pytest.LogCaptureFixture, does: str
) -> None:
    with queue.consumer("orders", "billing", mode="queue") as consumer:
        first = consumer.poll(5.0)[0]
        getattr(first, does)()
        consumer.commit()
        consumer.commit()
    assert warnings(caplog) == []


def test_an_extension_settles_nothing(queue: MemoryQueue, caplog: pytest.LogCaptureFixture) -> None:
    with queue.consumer("orders", "billing", mode="queue") as consumer:
        consumer.poll(5.0)[0].extend(60)
        consumer.commit()
    assert len(warnings(caplog)) == 1


def test_the_async_consumer_warns_as_well(
    queue: MemoryQueue, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with queue.async_consumer("orders", "billing") as consumer:
            assert await consumer.poll(5.0)
            await consumer.commit()

    asyncio.run(run())
    assert len(warnings(caplog)) == 1
