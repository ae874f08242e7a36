"""Messages, as boto3 sends, receives and deletes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lakequeue import Message
from lakequeue.testing import MemoryQueue
from tests.support.services.zookeeper import wait_for

Name = Callable[..., str]


def received(sqs: Any, queue: str, count: int = 1, **options: Any) -> list[dict[str, Any]]:
    """Receive until so many have come."""
    found: list[dict[str, Any]] = []

    def more() -> bool:
        given = {"MaxNumberOfMessages": 10, "WaitTimeSeconds": 1, "QueueUrl": queue, **options}
        found.extend(sqs.receive_message(**given).get("Messages", []))
        return len(found) >= count

    wait_for(more, f"{count} messages")
    return found


def nothing(sqs: Any, queue: str) -> bool:
    """Nothing can be received now."""
    return "Messages" not in sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    """The code that older SDKs know."""
    return str(error.value.response["Error"]["Code"])


def test_a_message_comes_as_it_was_sent(sqs: Any, queue: str) -> None:
    attributes = {
        "text": {"DataType": "String", "StringValue": "gruß"},
        "number": {"DataType": "Number.int", "StringValue": "5"},
        "bytes": {"DataType": "Binary.gif", "BinaryValue": b"\x00\xff"},
    }
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3f"}}
    sent = sqs.send_message(
        QueueUrl=queue,
        MessageBody="körper\n\t😀",
        MessageAttributes=attributes,
        MessageSystemAttributes=trace,
    )
    # boto3 itself compares the MD5 of the body and of the attributes.
    (got,) = received(sqs, queue, AttributeNames=["All"], MessageAttributeNames=["All"])
    assert (got["MessageId"], got["Body"]) == (sent["MessageId"], "körper\n\t😀")
    assert got["MD5OfBody"] == "9d382cb962f66ae073ac22c07fd09544"
    assert got["MessageAttributes"] == attributes
    assert got["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    system = got["Attributes"]
    assert system["ApproximateReceiveCount"] == "1"
    assert system["AWSTraceHeader"] == "Root=1-5759e988-bd862e3f"
    assert int(system["SentTimestamp"]) <= int(system["ApproximateFirstReceiveTimestamp"])
    assert sent["MD5OfMessageSystemAttributes"]


@pytest.mark.parametrize(
    ("asked", "there"),
    [([], []), (["a.*"], ["a.x", "a.y"]), (["b"], ["b"]), ([".*"], ["a.x", "a.y", "b"])],
)
def test_a_receive_names_the_attributes_that_it_wants(
    sqs: Any, queue: str, asked: list[str], there: list[str]
) -> None:
    one = {"DataType": "String", "StringValue": "1"}
    attributes = {"a.x": one, "a.y": one, "b": one}
    sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=attributes)
    (got,) = received(sqs, queue, MessageAttributeNames=asked)
    assert sorted(got.get("MessageAttributes", {})) == there
    assert "Attributes" not in got


def test_what_is_received_is_hidden_until_its_time_is_over(
    sqs: Any, queue: str, memory: MemoryQueue
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (first,) = received(sqs, queue, VisibilityTimeout=60)
    memory.clock.advance(59)
    assert nothing(sqs, queue)
    memory.clock.advance(2)
    (second,) = received(sqs, queue, AttributeNames=["ApproximateReceiveCount"])
    assert second["Attributes"] == {"ApproximateReceiveCount": "2"}
    # A delete with the older handle is answered as if it had been done, and was not.
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=first["ReceiptHandle"])
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=second["ReceiptHandle"])
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=second["ReceiptHandle"])
    memory.clock.advance(3_600)
    assert nothing(sqs, queue)


def test_a_delete_counts_late_if_nobody_else_has_the_message(
    sqs: Any, queue: str, memory: MemoryQueue
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (got,) = received(sqs, queue, VisibilityTimeout=10)
    memory.clock.advance(11)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=got["ReceiptHandle"])
    assert nothing(sqs, queue)


def test_visibility_is_made_longer_shorter_and_nothing(
    sqs: Any, queue: str, memory: MemoryQueue
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (got,) = received(sqs, queue, VisibilityTimeout=30)
    change = {"QueueUrl": queue, "ReceiptHandle": got["ReceiptHandle"]}
    sqs.change_message_visibility(**change, VisibilityTimeout=300)
    memory.clock.advance(200)
    assert nothing(sqs, queue)
    sqs.change_message_visibility(**change, VisibilityTimeout=5)
    memory.clock.advance(6)
    (again,) = received(sqs, queue, VisibilityTimeout=30)
    change["ReceiptHandle"] = again["ReceiptHandle"]
    sqs.change_message_visibility(**change, VisibilityTimeout=0)
    received(sqs, queue)
    with pytest.raises(sqs.exceptions.MessageNotInflight):
        sqs.change_message_visibility(**change, VisibilityTimeout=10)


def test_twelve_hours_are_the_most(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (got,) = received(sqs, queue, VisibilityTimeout=43_200)
    change = {"QueueUrl": queue, "ReceiptHandle": got["ReceiptHandle"]}
    with pytest.raises(ClientError) as error:
        sqs.change_message_visibility(**change, VisibilityTimeout=43_201)
    assert code_of(error) == "InvalidParameterValue"


def test_delays_of_a_queue_and_of_a_message(sqs: Any, name: Name, memory: MemoryQueue) -> None:
    queue = sqs.create_queue(QueueName=name(), Attributes={"DelaySeconds": "100"})["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="later")
    sqs.send_message(QueueUrl=queue, MessageBody="now", DelaySeconds=0)
    sqs.send_message(QueueUrl=queue, MessageBody="latest", DelaySeconds=900)
    assert [one["Body"] for one in received(sqs, queue)] == ["now"]
    assert nothing(sqs, queue)
    counts = sqs.get_queue_attributes(
        QueueUrl=queue,
        AttributeNames=[
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        ],
    )["Attributes"]
    assert list(counts.values()) == ["0", "1", "2"]
    memory.clock.advance(101)
    assert "later" in [one["Body"] for one in received(sqs, queue)]


def test_batches_are_judged_one_by_one(sqs: Any, queue: str) -> None:
    entries = [
        {"Id": "good", "MessageBody": "x"},
        {"Id": "empty", "MessageBody": ""},
        {"Id": "odd", "MessageBody": "\x0b"},
        {"Id": "late", "MessageBody": "x", "DelaySeconds": 901},
        {"Id": "fifo", "MessageBody": "x", "MessageDeduplicationId": "1"},
    ]
    answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
    assert [one["Id"] for one in answer["Successful"]] == ["good"]
    assert {one["Id"]: one["Code"] for one in answer["Failed"]} == {
        "empty": "MissingParameter",
        "odd": "InvalidMessageContents",
        "late": "InvalidParameterValue",
        "fifo": "InvalidParameterValue",
    }
    (got,) = received(sqs, queue)
    handles = [got["ReceiptHandle"], got["ReceiptHandle"][:-1] + "A", "none"]
    ids = [{"Id": str(n), "ReceiptHandle": handle} for n, handle in enumerate(handles)]
    hidden = [one | {"VisibilityTimeout": 10} for one in ids]
    changed = sqs.change_message_visibility_batch(QueueUrl=queue, Entries=hidden)
    deleted = sqs.delete_message_batch(QueueUrl=queue, Entries=ids)
    for answer in (changed, deleted):
        assert [one["Id"] for one in answer["Successful"]] == ["0"]
        assert {one["Code"] for one in answer["Failed"]} == {"ReceiptHandleIsInvalid"}


def test_a_batch_that_is_wrong_as_a_whole_is_refused(sqs: Any, queue: str) -> None:
    one = {"Id": "1", "MessageBody": "x"}
    for entries, code in (
        ([], "EmptyBatchRequest"),
        ([one | {"Id": str(n)} for n in range(11)], "TooManyEntriesInBatchRequest"),
        ([one, one], "BatchEntryIdsNotDistinct"),
        ([one | {"Id": "a.b"}], "InvalidBatchEntryId"),
        (
            [one | {"Id": str(n), "MessageBody": "x" * (600 << 10)} for n in range(2)],
            "BatchRequestTooLong",
        ),
    ):
        with pytest.raises(ClientError) as error:
            sqs.send_message_batch(QueueUrl=queue, Entries=entries)
        assert code_of(error) == f"AWS.SimpleQueueService.{code}"
    assert nothing(sqs, queue)


def test_a_body_may_have_a_mebibyte_and_no_byte_more(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x" * (1 << 20))
    assert len(received(sqs, queue)[0]["Body"]) == 1 << 20
    with pytest.raises(ClientError) as error:
        sqs.send_message(QueueUrl=queue, MessageBody="x" * ((1 << 20) + 1))
    assert code_of(error) == "InvalidParameterValue"


def test_a_receipt_of_another_queue_is_refused(sqs: Any, queue: str, name: Name) -> None:
    other = sqs.create_queue(QueueName=name())["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (got,) = received(sqs, queue)
    with pytest.raises(sqs.exceptions.ReceiptHandleIsInvalid):
        sqs.delete_message(QueueUrl=other, ReceiptHandle=got["ReceiptHandle"])


def test_other_clients_see_the_same_messages(
    sqs: Any, name: Name, url: str, memory: MemoryQueue
) -> None:
    native = memory.queue(name(), visibility_timeout_s=45)
    queue = sqs.get_queue_url(QueueName=native.name)["QueueUrl"]
    attribute = {"kind": {"DataType": "String", "StringValue": "refund"}}
    sqs.send_message(QueueUrl=queue, MessageBody="from SQS", MessageAttributes=attribute)
    (message,) = native.receive(wait_s=5)
    assert isinstance(message, Message)
    assert message.value == "from SQS"
    assert message.headers == [("kind", b"refund")]
    native.delete(message)
    native.send({"n": 1.5}, headers={"kind": "sale"})
    native.send(b"\x00\xff")
    got = received(sqs, queue, 2, MessageAttributeNames=["All"])
    assert sorted(one["Body"] for one in got) == ["AP8=", '{"n":1.5}']
    kinds = [one["MessageAttributes"]["kind"] for one in got if "MessageAttributes" in one]
    assert kinds == [{"DataType": "String", "StringValue": "sale"}]
    told = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["VisibilityTimeout"])
    assert told["Attributes"] == {"VisibilityTimeout": "45"}
