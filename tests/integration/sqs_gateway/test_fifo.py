"""FIFO queues: order within a group, copies, sequence numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lakequeue.testing import MemoryQueue
from tests.integration.sqs_gateway.test_messages import code_of, nothing, received

Name = Callable[..., str]


def test_messages_of_a_group_come_in_order_one_after_the_other(sqs: Any, fifo: str) -> None:
    numbers = [
        sqs.send_message(
            QueueUrl=fifo, MessageBody=str(n), MessageGroupId="g", MessageDeduplicationId=str(n)
        )["SequenceNumber"]
        for n in range(3)
    ]
    assert all(len(one) == 20 for one in numbers)
    assert numbers == sorted(set(numbers))
    for n in range(3):
        (got,) = received(sqs, fifo, AttributeNames=["All"])
        assert got["Body"] == str(n)
        system = got["Attributes"]
        assert system["MessageGroupId"] == "g"
        assert system["MessageDeduplicationId"] == str(n)
        assert system["SequenceNumber"] == numbers[n]
        assert nothing(sqs, fifo)
        sqs.delete_message(QueueUrl=fifo, ReceiptHandle=got["ReceiptHandle"])


def test_groups_do_not_wait_for_each_other(sqs: Any, fifo: str) -> None:
    for group in "abc":
        sqs.send_message(
            QueueUrl=fifo, MessageBody=group, MessageGroupId=group, MessageDeduplicationId=group
        )
    assert sorted(one["Body"] for one in received(sqs, fifo, 3)) == ["a", "b", "c"]


def test_a_copy_is_answered_with_the_first(sqs: Any, fifo: str, memory: MemoryQueue) -> None:
    message = {"QueueUrl": fifo, "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    first = sqs.send_message(**message, MessageBody="first")
    memory.clock.advance(299)
    copy = sqs.send_message(**message, MessageBody="copy")
    for told in ("MessageId", "SequenceNumber"):
        assert copy[told] == first[told]
    (got,) = received(sqs, fifo)
    assert got["Body"] == "first"
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=got["ReceiptHandle"])
    assert nothing(sqs, fifo)


@pytest.mark.parametrize(("scope", "count"), [("queue", 1), ("messageGroup", 2)])
def test_copies_are_found_by_content_and_within_their_scope(
    sqs: Any, name: Name, scope: str, count: int
) -> None:
    attributes = {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "true",
        "DeduplicationScope": scope,
        "FifoThroughputLimit": "perMessageGroupId" if count == 2 else "perQueue",
    }
    queue = sqs.create_queue(QueueName=name(".fifo"), Attributes=attributes)["QueueUrl"]
    for group in "aabb":
        sqs.send_message(QueueUrl=queue, MessageBody="same", MessageGroupId=group)
    assert len(received(sqs, queue, count)) == count
    told = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert {name: told[name] for name in attributes} == attributes


def test_what_a_fifo_queue_does_not_take(sqs: Any, fifo: str) -> None:
    good = {"MessageBody": "x", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    for wrong, code in (
        ({"MessageGroupId": "gr oup"}, "InvalidParameterValue"),
        ({"MessageDeduplicationId": "x" * 129}, "InvalidParameterValue"),
        ({"DelaySeconds": 5}, "InvalidParameterValue"),
    ):
        with pytest.raises(ClientError) as error:
            sqs.send_message(QueueUrl=fifo, **(good | wrong))
        assert code_of(error) == code
    for lacking, code in (
        ("MessageGroupId", "MissingParameter"),
        ("MessageDeduplicationId", "InvalidParameterValue"),
    ):
        with pytest.raises(ClientError) as error:
            sqs.send_message(QueueUrl=fifo, **{n: v for n, v in good.items() if n != lacking})
        assert code_of(error) == code


def test_an_expired_receipt_is_told(sqs: Any, fifo: str, memory: MemoryQueue) -> None:
    sqs.send_message(QueueUrl=fifo, MessageBody="x", MessageGroupId="g", MessageDeduplicationId="d")
    (got,) = received(sqs, fifo, VisibilityTimeout=10)
    memory.clock.advance(11)
    with pytest.raises(ClientError) as error:
        sqs.delete_message(QueueUrl=fifo, ReceiptHandle=got["ReceiptHandle"])
    assert code_of(error) == "InvalidParameterValue"


def test_an_attempt_that_is_repeated_gets_the_same_messages(
    sqs: Any, fifo: str, memory: MemoryQueue
) -> None:
    for group in "ab":
        sqs.send_message(
            QueueUrl=fifo, MessageBody=group, MessageGroupId=group, MessageDeduplicationId=group
        )

    def attempt(name: str) -> list[Any]:
        asked = {"MaxNumberOfMessages": 10, "VisibilityTimeout": 30, "WaitTimeSeconds": 1}
        found = sqs.receive_message(QueueUrl=fifo, ReceiveRequestAttemptId=name, **asked)
        return list(found.get("Messages", []))

    first = attempt("one")
    assert sorted(one["Body"] for one in first) == ["a", "b"]
    memory.clock.advance(20)
    assert attempt("one") == first
    memory.clock.advance(20)
    assert attempt("other") == [], "they were hidden anew"
    sqs.delete_message(QueueUrl=fifo, ReceiptHandle=first[0]["ReceiptHandle"])
    assert attempt("one") == [], "one of them was deleted"
    memory.clock.advance(31)
    (again,) = attempt("one")
    assert again["Body"] == first[1]["Body"]
    assert again["ReceiptHandle"] != first[1]["ReceiptHandle"]
    with pytest.raises(ClientError) as error:
        attempt("o n e")
    assert code_of(error) == "InvalidParameterValue"
