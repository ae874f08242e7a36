"""The three counts, which a scaler goes by: right though nobody receives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakequeue.testing import MemoryQueue
from tests.integration.sqs_gateway.test_messages import received

Name = Callable[..., str]
COUNTS = [
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
]


def counts(sqs: Any, queue: str) -> list[int]:
    """Visible, not visible, delayed."""
    told = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=COUNTS)["Attributes"]
    return [int(told[name]) for name in COUNTS]


def test_messages_that_nobody_has_ever_received_are_counted(
    sqs: Any, queue: str, memory: MemoryQueue
) -> None:
    assert counts(sqs, queue) == [0, 0, 0]
    for _ in range(7):
        sqs.send_message(QueueUrl=queue, MessageBody="x")
    sqs.send_message(QueueUrl=queue, MessageBody="x", DelaySeconds=60)
    assert counts(sqs, queue) == [7, 0, 1]
    memory.clock.advance(61)
    assert counts(sqs, queue) == [8, 0, 0]


def test_time_goes_on_when_the_last_receiver_is_gone(
    sqs: Any, queue: str, memory: MemoryQueue
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=60)
    for _ in range(2):
        sqs.send_message(QueueUrl=queue, MessageBody="x")
    held = received(sqs, queue, 2, VisibilityTimeout=30)
    assert counts(sqs, queue) == [0, 2, 1]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=held[0]["ReceiptHandle"])
    assert counts(sqs, queue) == [0, 1, 1]
    memory.clock.advance(31)
    assert counts(sqs, queue) == [1, 0, 1]
    memory.clock.advance(30)
    assert counts(sqs, queue) == [2, 0, 0]


@pytest.mark.parametrize("group", [False, True], ids=["topic only", "with its group"])
def test_a_queue_that_another_client_has_made_is_counted(
    sqs: Any, name: Name, memory: MemoryQueue, *, group: bool
) -> None:
    topic = name()
    memory.create_topic(topic, partitions=3)
    if group:
        memory.queue(topic)
    queue = sqs.get_queue_url(QueueName=topic)["QueueUrl"]
    for _ in range(5):
        sqs.send_message(QueueUrl=queue, MessageBody="x")
    assert counts(sqs, queue) == [5, 0, 0]


def test_fifo_messages_that_wait_for_their_group_are_visible(sqs: Any, fifo: str) -> None:
    for n in range(3):
        sqs.send_message(
            QueueUrl=fifo, MessageBody="x", MessageGroupId="g", MessageDeduplicationId=str(n)
        )
    assert counts(sqs, fifo) == [3, 0, 0]
    received(sqs, fifo)
    assert counts(sqs, fifo) == [2, 1, 0]


def test_messages_past_their_retention_do_not_count(
    sqs: Any, name: Name, memory: MemoryQueue
) -> None:
    attributes = {"MessageRetentionPeriod": "60"}
    queue = sqs.create_queue(QueueName=name(), Attributes=attributes)["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    assert counts(sqs, queue) == [1, 0, 0]
    memory.clock.advance(61)
    assert counts(sqs, queue) == [0, 0, 0]
