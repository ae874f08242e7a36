"""What waits in a topic of dead letters, counted by why it died."""

from __future__ import annotations

import base64

import pytest

from lakequeue.client.dead_summary import died_at
from lakequeue.client.record import Record
from lakequeue.client.redrive import redrive
from lakequeue.client.redriven import Wanted
from lakequeue.clock import wall_micros
from lakequeue.errors import UnknownTopic
from lakequeue.testing import MemoryQueue
from lakequeue.wire import DeadLetterHeader
from lakequeue_cli.commands import dlq


def letter(headers: list[tuple[str, bytes]]) -> Record:
    """A dead letter whose own time is 7."""
    said = [{"key": n, "value_base64": base64.b64encode(v).decode()} for n, v in headers]
    return Record({"topic": "t", "partition": 0, "offset": 0, "timestamp": 7, "headers": said})


def die(queue: MemoryQueue, group: str, count: int) -> None:
    """A worker of `group` gives up the next records of `orders`."""
    with queue.consumer("orders", group=group, mode="queue", max_attempts=1) as worker:
        left = count
        while left:
            for message in worker.poll(10, left):
                message.nack()
                left -= 1
        worker.commit(10)


def test_dead_letters_are_counted_until_they_are_sent_back() -> None:
    with MemoryQueue() as queue:
        queue.create_topic("orders", partitions=1)
        queue.create_topic("orders.dlq", partitions=2)
        with queue.producer() as producer:
            for n in range(3):
                producer.send("orders", n, timestamp=1_700_000_000_000_000 + n)
        die(queue, "billing", 3)
        die(queue, "shipping", 1)
        with queue.admin() as admin:
            billing, shipping = admin.dead_letters("orders.dlq")
            assert (billing.topic, billing.origin, billing.group) == (
                *("orders.dlq", "orders"),
                "billing",
            )
            assert (billing.reason, billing.count) == ("max_attempts", 3)
            assert billing.newest - billing.oldest == 2
            assert (shipping.group, shipping.count) == ("shipping", 1)
            redrive(
                "orders.dlq",
                urls=admin._ingest.urls,
                consumer_urls=admin._consumer.urls,
                wanted=Wanted({"lakequeue-group": "billing"}),
            )
            (left,) = admin.dead_letters("orders.dlq")
            assert (left.group, left.count) == ("shipping", 1)


def test_they_tell_when_they_died_and_what_the_last_nack_said() -> None:
    with MemoryQueue() as queue:
        queue.create_topic("orders", partitions=1)
        began = wall_micros()
        with queue.producer() as producer:
            for n in range(2):
                producer.send("orders", n, timestamp=1_700_000_000_000_000 + n)
        with queue.consumer("orders", group="g", mode="queue", max_attempts=1) as worker:
            for reason in ("the first", "no such card"):
                (message,) = worker.poll(10, 1)
                message.nack(reason=reason)
                worker.commit(10)
                queue.clock.advance(5)
        with queue.admin() as admin:
            (line,) = admin.dead_letters("orders.dlq")
    assert (line.count, line.nack_reason) == (2, "no such card")
    assert line.oldest == 1_700_000_000_000_000
    assert began <= line.first_died <= line.last_died - 5_000_000


def test_none_wait_before_the_first_record_has_died() -> None:
    with MemoryQueue() as queue, queue.admin() as admin:
        queue.create_topic("orders", dead_letter_topic="morgue")
        queue.create_topic("returns")
        assert admin.dead_letters("morgue") == []
        assert admin.dead_letters("returns.dlq") == []
        with pytest.raises(UnknownTopic, match="made when the first record dies"):
            admin.dead_letters("nosuch.dlq")


def test_a_letter_that_does_not_say_when_it_died_has_its_own_time() -> None:
    for said in (None, b"", b"yesterday", b"\xff"):
        headers: list[tuple[str, bytes]] = []
        headers += [] if said is None else [(DeadLetterHeader.LAST_AT, said)]
        assert died_at(letter(headers)) == 7
    told = [(DeadLetterHeader.LAST_AT, b"1970-01-01T00:00:01+00:00")]
    assert died_at(letter(told)) == 1_000_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("short", "short"),
        ("two\nlines", "two…"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
    ],
)
def test_the_table_has_the_beginning_of_a_reason(text: str, shown: str) -> None:
    assert dlq._short(text) == shown
