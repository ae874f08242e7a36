"""What SQS refuses, in both protocols: the codes that SDKs make their errors of."""

from __future__ import annotations

import string
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from lakequeue.testing import MemoryQueue
from sqs_gateway.rules.receipts import handle_of
from tests.integration.sqs_gateway.test_messages import received
from tests.support.sqs.speaking import Speak, Told, by_json, by_query

Name = Callable[..., str]
OLD = "AWS.SimpleQueueService."
TEXT = {"DataType": "String", "StringValue": "x"}


@pytest.fixture(params=[by_json, by_query])
def ask(request: pytest.FixtureRequest, url: str) -> Speak:
    """Each of the two protocols."""
    http = httpx2.Client(base_url=url, trust_env=False, timeout=60.0)
    found: Speak = request.param(http)
    return found


def entries(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"Id": str(n), "MessageBody": "x"} | more for n in range(count)]


def attribute(**one: str) -> dict[str, Any]:
    return {"MessageBody": "x", "MessageAttributes": {"a": one}}


def named(*names: str) -> dict[str, Any]:
    return {"MessageBody": "x", "MessageAttributes": dict.fromkeys(names, TEXT)}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("SendMessage", {"MessageBody": ""}, "MissingParameter"),
    ("SendMessage", {}, "MissingParameter"),
    ("SendMessage", {"MessageBody": "a\x00"}, "InvalidMessageContents"),
    ("SendMessage", {"MessageBody": "\ufffe"}, "InvalidMessageContents"),
    ("SendMessage", {"MessageBody": "x" * ((1 << 20) + 1)}, "InvalidParameterValue"),
    ("SendMessage", {"MessageBody": "x", "DelaySeconds": -1}, "InvalidParameterValue"),
    ("SendMessage", {"MessageBody": "x", "DelaySeconds": 901}, "InvalidParameterValue"),
    ("SendMessage", {"MessageBody": "x", "DelaySeconds": 10**12}, "MalformedInput"),
    ("SendMessage", {"MessageBody": "x", "MessageGroupId": "a b"}, "InvalidParameterValue"),
    ("SendMessage", {"MessageBody": "x", "MessageGroupId": "x" * 129}, "InvalidParameterValue"),
    ("SendMessage", attribute(), "InvalidParameterValue"),
    ("SendMessage", attribute(DataType="String"), "InvalidParameterValue"),
    ("SendMessage", attribute(DataType="Text", StringValue="x"), "InvalidParameterValue"),
    ("SendMessage", attribute(DataType="Number", StringValue="x"), "InvalidParameterValue"),
    ("SendMessage", attribute(DataType="Binary", BinaryValue="!"), "InvalidParameterValue"),
    ("SendMessage", attribute(DataType="String", StringValue="\x01"), "InvalidMessageContents"),
    (
        "SendMessage",
        named(*map(str, range(11))),
        "InvalidParameterValue",
    ),
    ("SendMessage", named("a b"), "InvalidParameterValue"),
    ("SendMessage", named("AWS.a"), "InvalidParameterValue"),
    ("SendMessage", named("a..b"), "InvalidParameterValue"),
    ("SendMessage", named("sqs-types"), "InvalidParameterValue"),
    ("SendMessage", named("lakequeue-dlq-topic"), "InvalidParameterValue"),
    (
        "SendMessage",
        {"MessageBody": "x", "MessageSystemAttributes": {"Other": TEXT}},
        "InvalidParameterValue",
    ),
    (
        "SendMessage",
        {
            "MessageBody": "x",
            "MessageSystemAttributes": {
                "AWSTraceHeader": {"DataType": "Number", "StringValue": "1"}
            },
        },
        "InvalidParameterValue",
    ),
    ("SendMessageBatch", {"Entries": entries(0)}, OLD + "EmptyBatchRequest"),
    ("SendMessageBatch", {"Entries": entries(11)}, OLD + "TooManyEntriesInBatchRequest"),
    ("SendMessageBatch", {"Entries": entries(1) * 2}, OLD + "BatchEntryIdsNotDistinct"),
    ("SendMessageBatch", {"Entries": entries(1, Id="a.b")}, OLD + "InvalidBatchEntryId"),
    ("SendMessageBatch", {"Entries": entries(1, Id="x" * 81)}, OLD + "InvalidBatchEntryId"),
    (
        "SendMessageBatch",
        {"Entries": entries(3, MessageBody="x" * 400_000)},
        OLD + "BatchRequestTooLong",
    ),
    ("DeleteMessageBatch", {"Entries": []}, OLD + "EmptyBatchRequest"),
    ("ChangeMessageVisibilityBatch", {"Entries": []}, OLD + "EmptyBatchRequest"),
    ("ReceiveMessage", {"MaxNumberOfMessages": 0}, "InvalidParameterValue"),
    ("ReceiveMessage", {"MaxNumberOfMessages": 11}, "InvalidParameterValue"),
    ("ReceiveMessage", {"WaitTimeSeconds": 21}, "InvalidParameterValue"),
    ("ReceiveMessage", {"WaitTimeSeconds": -1}, "InvalidParameterValue"),
    ("ReceiveMessage", {"VisibilityTimeout": -1}, "InvalidParameterValue"),
    ("ReceiveMessage", {"VisibilityTimeout": 43_201}, "InvalidParameterValue"),
    ("DeleteMessage", {}, "MissingParameter"),
    ("DeleteMessage", {"ReceiptHandle": "x"}, "ReceiptHandleIsInvalid"),
    ("ChangeMessageVisibility", {"ReceiptHandle": "x"}, "MissingParameter"),
    (
        "ChangeMessageVisibility",
        {"ReceiptHandle": "x", "VisibilityTimeout": 0},
        "ReceiptHandleIsInvalid",
    ),
    (
        "ChangeMessageVisibility",
        {"ReceiptHandle": "x", "VisibilityTimeout": -1},
        "InvalidParameterValue",
    ),
    ("GetQueueAttributes", {"AttributeNames": ["Nonsense"]}, "InvalidAttributeName"),
    ("SetQueueAttributes", {"Attributes": {"Nonsense": "1"}}, "InvalidAttributeName"),
    ("SetQueueAttributes", {"Attributes": {"FifoQueue": "true"}}, "InvalidAttributeName"),
    ("SetQueueAttributes", {"Attributes": {"DelaySeconds": "901"}}, "InvalidAttributeValue"),
    ("SetQueueAttributes", {"Attributes": {"MaximumMessageSize": "1023"}}, "InvalidAttributeValue"),
    (
        "SetQueueAttributes",
        {"Attributes": {"MaximumMessageSize": "1048577"}},
        "InvalidAttributeValue",
    ),
    (
        "SetQueueAttributes",
        {"Attributes": {"MessageRetentionPeriod": "59"}},
        "InvalidAttributeValue",
    ),
    ("SetQueueAttributes", {"Attributes": {"Policy": "no JSON"}}, "InvalidAttributeValue"),
    ("TagQueue", {"Tags": {str(n): "x" for n in range(51)}}, "OverLimit"),
    ("UntagQueue", {}, "MissingParameter"),
    (
        "AddPermission",
        {
            "Label": "l",
            "AWSAccountIds": ["123456789012"],
            "Actions": ["SendMessage"] * 8,
        },
        "OverLimit",
    ),
    ("RemovePermission", {"Label": "nobody"}, "InvalidParameterValue"),
    ("ListDeadLetterSourceQueues", {"MaxResults": 1_001}, "InvalidParameterValue"),
]


@pytest.mark.parametrize(("operation", "given", "code"), REFUSED)
def test_a_request_about_a_queue_is_refused(
    ask: Speak, queue: str, operation: str, given: dict[str, Any], code: str
) -> None:
    told = ask(operation, QueueUrl=queue, **given)
    assert (told.code, told.status) == (code, 403 if code == "OverLimit" else 400)
    assert told.message


def test_operations_know_a_queue_that_is_not_there(ask: Speak, url: str) -> None:
    nobody = f"{url}/000000000000/nobody"
    receipt = {"ReceiptHandle": "x"}
    for operation, given in (
        ("SendMessage", {"MessageBody": "x"}),
        ("SendMessageBatch", {"Entries": entries(1)}),
        ("ReceiveMessage", {}),
        ("DeleteMessage", receipt),
        ("DeleteMessageBatch", {"Entries": [{"Id": "1"} | receipt]}),
        ("ChangeMessageVisibility", receipt | {"VisibilityTimeout": 1}),
        (
            "ChangeMessageVisibilityBatch",
            {"Entries": [{"Id": "1", "VisibilityTimeout": 1} | receipt]},
        ),
        ("DeleteQueue", {}),
        ("PurgeQueue", {}),
        ("GetQueueAttributes", {"AttributeNames": ["All"]}),
        ("SetQueueAttributes", {"Attributes": {"DelaySeconds": "1"}}),
        ("TagQueue", {"Tags": {"a": "b"}}),
        ("UntagQueue", {"TagKeys": ["a"]}),
        ("ListQueueTags", {}),
        ("ListDeadLetterSourceQueues", {}),
        ("AddPermission", {"Label": "l", "AWSAccountIds": ["123456789012"], "Actions": ["*"]}),
        ("RemovePermission", {"Label": "l"}),
    ):
        told = ask(operation, QueueUrl=nobody, **given)
        assert (operation, told.code, told.status) == (operation, f"{OLD}NonExistentQueue", 400)
    assert ask("GetQueueUrl", QueueName="nobody").code == f"{OLD}NonExistentQueue"
    arn = "arn:aws:sqs:us-east-1:000000000000:nobody"
    for operation in ("StartMessageMoveTask", "ListMessageMoveTasks"):
        told = ask(operation, SourceArn=arn)
        assert (told.code, told.status) == ("ResourceNotFoundException", 404)
    told = ask("CancelMessageMoveTask", TaskHandle="none")
    assert (told.code, told.status) == ("ResourceNotFoundException", 404)


def test_no_name_has_an_illegal_character(ask: Speak) -> None:
    legal = string.ascii_letters + string.digits + "-_"
    for code in [*range(256), 0x2028, 0xFFFD, 0x1F600]:
        if chr(code) not in legal:
            for name in (f"a{chr(code)}b", f"a{chr(code)}"):
                told = ask("CreateQueue", QueueName=name)
                assert (code, told.code) == (code, "InvalidParameterValue")
    for name in ("", "x" * 81, "x" * 100_000, ".fifo", "a.fifo"):
        told = ask("CreateQueue", QueueName=name)
        assert told.code == ("InvalidParameterValue" if name else "MissingParameter")


def test_a_handle_is_whole_or_none(ask: Speak, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (got,) = received(sqs, queue)
    handle = got["ReceiptHandle"]
    for at, old in enumerate(handle):
        new = "A" if old != "A" else "B"
        altered = handle[:at] + new + handle[at + 1 :]
        told = ask("DeleteMessage", QueueUrl=queue, ReceiptHandle=altered)
        assert (at, told.code) == (at, "ReceiptHandleIsInvalid")
    for altered in (handle + "A", handle[:-1], handle + "=", " " + handle, handle * 100, "ü"):
        told = ask("DeleteMessage", QueueUrl=queue, ReceiptHandle=altered)
        assert told.code == "ReceiptHandleIsInvalid"
    entry = {"Id": "1", "ReceiptHandle": handle[:-2]}
    assert ask("DeleteMessageBatch", QueueUrl=queue, Entries=[entry]).failed == {
        "1": "ReceiptHandleIsInvalid"
    }
    # Nothing was lost by all that: it is deleted by its own handle alone.
    assert ask("DeleteMessage", QueueUrl=queue, ReceiptHandle=handle).status == 200


def test_twelve_hours_count_from_the_receive(ask: Speak, sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (got,) = received(sqs, queue)
    name = queue.rpartition("/")[2]
    handle = handle_of(got["ReceiptHandle"], name)
    an_hour_ago = type(handle)(handle.receipt, handle.received_ms - 3_600_000).text(name)
    change = {"QueueUrl": queue, "ReceiptHandle": an_hour_ago}
    told = ask("ChangeMessageVisibility", **change, VisibilityTimeout=39_700)
    assert (told.code, "beyond the limit" in told.message) == ("InvalidParameterValue", True)
    assert ask("ChangeMessageVisibility", **change, VisibilityTimeout=39_500).status == 200


def test_states_that_forbid_it(ask: Speak, sqs: Any, queue: str, name: Name) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    (got,) = received(sqs, queue)
    receipt = {"QueueUrl": queue, "ReceiptHandle": got["ReceiptHandle"]}
    assert ask("DeleteMessage", **receipt).status == 200
    told = ask("ChangeMessageVisibility", **receipt, VisibilityTimeout=1)
    assert told.code == f"{OLD}MessageNotInflight"
    assert ask("DeleteMessage", **receipt).status == 200, "deleted already"
    assert ask("PurgeQueue", QueueUrl=queue).status == 200
    told = ask("PurgeQueue", QueueUrl=queue)
    assert (told.code, told.status) == (f"{OLD}PurgeQueueInProgress", 403)
    made = {"QueueName": queue.rpartition("/")[2]}
    assert ask("CreateQueue", **made).status == 200
    told = ask("CreateQueue", **made, Attributes={"DelaySeconds": "7"})
    assert told.code == "QueueAlreadyExists"
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
    told = ask("StartMessageMoveTask", SourceArn=arn["Attributes"]["QueueArn"])
    assert told.code == f"{OLD}UnsupportedOperation"


def test_entries_are_judged_one_by_one(ask: Speak, queue: str) -> None:
    good, empty, odd, late = (one | {"Id": n} for n, one in zip("abcd", entries(4), strict=True))
    some = [good, empty | {"MessageBody": ""}, odd | {"MessageBody": "\x0b"}]
    some.append(late | {"DelaySeconds": 901})
    told = ask("SendMessageBatch", QueueUrl=queue, Entries=some)
    assert (told.status, told.failed) == (
        200,
        {"b": "MissingParameter", "c": "InvalidMessageContents", "d": "InvalidParameterValue"},
    )
    assert ask("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10).found == ("x",)


def test_a_receive_without_visibility_gives_it_to_the_next_at_once(
    ask: Speak, queue: str, memory: MemoryQueue
) -> None:
    assert ask("SendMessage", QueueUrl=queue, MessageBody="x").status == 200
    assert ask("ReceiveMessage", QueueUrl=queue, VisibilityTimeout=0).found == ("x",)
    memory.clock.advance(0.002)
    assert ask("ReceiveMessage", QueueUrl=queue).found == ("x",)
    assert ask("ReceiveMessage", QueueUrl=queue).found == ()


def test_a_handle_of_a_queue_that_was_made_anew_is_none_of_it(
    ask: Speak, sqs: Any, queue: str
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="old")
    (got,) = received(sqs, queue)
    sqs.delete_queue(QueueUrl=queue)
    sqs.create_queue(QueueName=queue.rpartition("/")[2])
    sqs.send_message(QueueUrl=queue, MessageBody="new")
    old = {"ReceiptHandle": got["ReceiptHandle"]}
    told = ask("DeleteMessage", QueueUrl=queue, **old)
    assert told.code == "ReceiptHandleIsInvalid"
    told = ask("ChangeMessageVisibility", QueueUrl=queue, **old, VisibilityTimeout=1)
    assert told.code == "ReceiptHandleIsInvalid"
    told = ask("DeleteMessageBatch", QueueUrl=queue, Entries=[{"Id": "a", **old}])
    assert told.failed == {"a": "ReceiptHandleIsInvalid"}
    assert ask("ReceiveMessage", QueueUrl=queue).found == ("new",)


def test_a_queue_that_is_deleted_under_a_long_poll_is_told(
    ask: Speak, sqs: Any, queue: str
) -> None:
    told: list[Told] = []

    def wait() -> None:
        told.append(ask("ReceiveMessage", QueueUrl=queue, WaitTimeSeconds=20))

    waiting = threading.Thread(target=wait)
    waiting.start()
    sqs.delete_queue(QueueUrl=queue)
    waiting.join(60)
    assert [one.code for one in told] == [f"{OLD}NonExistentQueue"]


def test_throughput_of_groups_needs_their_scope(ask: Speak, name: Name) -> None:
    per_group = {"FifoQueue": "true", "FifoThroughputLimit": "perMessageGroupId"}
    queue = name(".fifo")
    told = ask("CreateQueue", QueueName=queue, Attributes=per_group)
    assert told.code == "InvalidAttributeValue"
    scope = {"DeduplicationScope": "messageGroup"}
    told = ask("CreateQueue", QueueName=queue, Attributes=per_group | scope)
    assert told.status == 200
    told = ask(
        "SetQueueAttributes",
        QueueUrl=f"/000000000000/{queue}",
        Attributes={"DeduplicationScope": "queue"},
    )
    assert told.code == "InvalidAttributeValue"
