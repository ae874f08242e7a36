"""Queues, as boto3 makes, finds, changes and deletes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lakequeue.testing import MemoryQueue
from tests.integration.sqs_gateway.test_messages import code_of, nothing, received
from tests.support.services.zookeeper import wait_for

Name = Callable[..., str]
NOBODY = "arn:aws:sqs:us-east-1:000000000000:nobody"


def attributes_of(sqs: Any, queue: str, *names: str) -> dict[str, str]:
    """What the queue says of itself."""
    asked = list(names) or ["All"]
    told = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=asked)
    return dict(told.get("Attributes", {}))


def test_a_queue_is_made_found_and_deleted(sqs: Any, name: Name, url: str) -> None:
    queue = name()
    made = sqs.create_queue(QueueName=queue)["QueueUrl"]
    assert made == f"{url}/000000000000/{queue}"
    assert sqs.create_queue(QueueName=queue)["QueueUrl"] == made
    assert sqs.get_queue_url(QueueName=queue)["QueueUrl"] == made
    assert made in sqs.list_queues(QueueNamePrefix=queue)["QueueUrls"]
    sqs.send_message(QueueUrl=made, MessageBody="old")
    sqs.delete_queue(QueueUrl=made)
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.get_queue_url(QueueName=queue)
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix=queue)
    sqs.create_queue(QueueName=queue)
    assert nothing(sqs, made)


def test_the_same_name_with_another_attribute_is_refused(sqs: Any, name: Name) -> None:
    queue = name()
    sqs.create_queue(QueueName=queue, Attributes={"VisibilityTimeout": "40"})
    sqs.create_queue(QueueName=queue, Attributes={"VisibilityTimeout": "40"})
    with pytest.raises(sqs.exceptions.QueueNameExists):
        sqs.create_queue(QueueName=queue, Attributes={"VisibilityTimeout": "41"})
    with pytest.raises(sqs.exceptions.QueueNameExists):
        sqs.create_queue(QueueName=queue, Attributes={"VisibilityTimeout": "30"})
    sqs.create_queue(QueueName=queue, Attributes={"DelaySeconds": "0"})


@pytest.mark.parametrize("wrong", ["a b", "a.b", "x" * 81, "ü", "a.fifo", "../x", "a/b", "\n"])
def test_names_that_no_queue_can_have(sqs: Any, wrong: str) -> None:
    with pytest.raises(ClientError) as error:
        sqs.create_queue(QueueName=wrong)
    assert code_of(error) == "InvalidParameterValue"


def test_lists_come_in_pages(sqs: Any, name: Name) -> None:
    prefix = name()
    made = [sqs.create_queue(QueueName=f"{prefix}-{n}")["QueueUrl"] for n in range(5)]
    pages = list(
        sqs.get_paginator("list_queues").paginate(
            QueueNamePrefix=prefix, PaginationConfig={"PageSize": 2}
        )
    )
    assert [len(page["QueueUrls"]) for page in pages] == [2, 2, 1]
    assert [one for page in pages for one in page["QueueUrls"]] == made
    with pytest.raises(ClientError) as error:
        sqs.list_queues(NextToken="no token", MaxResults=2)
    assert code_of(error) == "InvalidParameterValue"


def test_attributes_are_set_and_told(sqs: Any, queue: str) -> None:
    given = {
        "VisibilityTimeout": "7",
        "DelaySeconds": "3",
        "ReceiveMessageWaitTimeSeconds": "2",
        "MaximumMessageSize": "2048",
        "MessageRetentionPeriod": "3600",
        "Policy": '{"Version":"2012-10-17"}',
        "SqsManagedSseEnabled": "true",
    }
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=given)
    told = attributes_of(sqs, queue)
    assert {name: told[name] for name in given} == given
    assert told["QueueArn"].startswith("arn:aws:sqs:us-east-1:000000000000:")
    assert int(told["CreatedTimestamp"]) <= int(told["LastModifiedTimestamp"])
    with pytest.raises(ClientError) as error:
        sqs.send_message(QueueUrl=queue, MessageBody="x" * 2_049)
    assert code_of(error) == "InvalidParameterValue"
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": ""})
    assert "Policy" not in attributes_of(sqs, queue)


def test_a_queue_has_one_kind_of_encryption(sqs: Any, queue: str, name: Name) -> None:
    key, keys = {"KmsMasterKeyId": "alias/a"}, {"SqsManagedSseEnabled": "true"}
    with pytest.raises(ClientError) as error:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes=key | keys)
    assert code_of(error) == "InvalidAttributeName"
    with pytest.raises(ClientError) as error:
        sqs.create_queue(QueueName=name(), Attributes=key | keys)
    assert code_of(error) == "InvalidAttributeName"
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=keys)
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=key)
    told = attributes_of(sqs, queue)
    assert (told["KmsMasterKeyId"], told["SqsManagedSseEnabled"]) == ("alias/a", "false")
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=keys)
    told = attributes_of(sqs, queue)
    assert ("KmsMasterKeyId" in told, told["SqsManagedSseEnabled"]) == (False, "true")


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"Nonsense": "1"}, "InvalidAttributeName"),
        ({"QueueArn": "1"}, "InvalidAttributeName"),
        ({"ContentBasedDeduplication": "true"}, "InvalidAttributeName"),
        ({"VisibilityTimeout": "-1"}, "InvalidAttributeValue"),
        ({"VisibilityTimeout": "43201"}, "InvalidAttributeValue"),
        ({"VisibilityTimeout": "1" * 500}, "InvalidAttributeValue"),
        ({"VisibilityTimeout": "²"}, "InvalidAttributeValue"),
        ({"RedrivePolicy": "{"}, "InvalidAttributeValue"),
        ({"RedrivePolicy": "[]"}, "InvalidAttributeValue"),
        ({"RedrivePolicy": '{"maxReceiveCount":3}'}, "InvalidAttributeValue"),
        (
            {"RedrivePolicy": f'{{"deadLetterTargetArn":"{NOBODY}","maxReceiveCount":3}}'},
            "InvalidAttributeValue",
        ),
        ({"RedriveAllowPolicy": '{"redrivePermission":"byQueue"}'}, "InvalidAttributeValue"),
    ],
)
def test_attributes_that_cannot_be(
    sqs: Any, queue: str, attributes: dict[str, str], code: str
) -> None:
    with pytest.raises(ClientError) as error:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes=attributes)
    assert code_of(error) == code


def dead_letters(sqs: Any, name: Name, receives: int = 2, suffix: str = "") -> tuple[str, str]:
    """A queue and its dead-letter queue."""
    fifo = {"FifoQueue": "true"} if suffix else {}
    dead = sqs.create_queue(QueueName=name(suffix), Attributes=fifo)["QueueUrl"]
    arn = attributes_of(sqs, dead, "QueueArn")["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": str(receives)})
    attributes = fifo | {"RedrivePolicy": policy}
    return sqs.create_queue(QueueName=name(suffix), Attributes=attributes)["QueueUrl"], dead


def die(sqs: Any, queue: str, receives: int = 2) -> None:
    """Receive a message as often as it may be, and give it back."""
    for _ in range(receives):
        (got,) = received(sqs, queue, MaxNumberOfMessages=1)
        sqs.change_message_visibility(
            QueueUrl=queue, ReceiptHandle=got["ReceiptHandle"], VisibilityTimeout=0
        )


def test_a_message_that_was_received_too_often_goes_to_the_dead_letters(
    sqs: Any, name: Name
) -> None:
    queue, dead = dead_letters(sqs, name)
    policy = json.loads(attributes_of(sqs, queue)["RedrivePolicy"])
    assert policy["maxReceiveCount"] == 2
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [queue]
    attribute = {"a": {"DataType": "Number", "StringValue": "1"}}
    sent = sqs.send_message(QueueUrl=queue, MessageBody="x", MessageAttributes=attribute)
    die(sqs, queue)
    (got,) = received(sqs, dead, AttributeNames=["All"], MessageAttributeNames=["All"])
    assert got["MessageId"] == sent["MessageId"]
    assert (got["Body"], got["MessageAttributes"]) == ("x", attribute)
    source = attributes_of(sqs, queue, "QueueArn")["QueueArn"]
    assert got["Attributes"]["DeadLetterQueueSourceArn"] == source
    assert got["Attributes"]["ApproximateReceiveCount"] == "3", "over both queues"
    assert nothing(sqs, queue)
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": ""})
    assert "RedrivePolicy" not in attributes_of(sqs, queue)
    assert "queueUrls" not in sqs.list_dead_letter_source_queues(QueueUrl=dead)


def test_without_a_policy_a_message_never_dies(sqs: Any, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    die(sqs, queue, 20)
    received(sqs, queue)


def test_a_dead_letter_queue_says_whose_it_is(sqs: Any, name: Name) -> None:
    with pytest.raises(ClientError) as error:
        sqs.create_queue(
            QueueName=name(),
            Attributes={
                "RedrivePolicy": json.dumps(
                    {
                        "deadLetterTargetArn": attributes_of(
                            sqs,
                            sqs.create_queue(
                                QueueName=name(),
                                Attributes={
                                    "RedriveAllowPolicy": '{"redrivePermission":"denyAll"}'
                                },
                            )["QueueUrl"],
                            "QueueArn",
                        )["QueueArn"],
                        "maxReceiveCount": 1,
                    }
                )
            },
        )
    assert code_of(error) == "InvalidAttributeValue"


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_a_move_task_sends_dead_messages_back(sqs: Any, name: Name, suffix: str) -> None:
    queue, dead = dead_letters(sqs, name, 1, suffix)
    fifo = {"MessageGroupId": "g"} if suffix else {}
    for n in range(3):
        more = fifo | ({"MessageDeduplicationId": str(n)} if suffix else {})
        sqs.send_message(QueueUrl=queue, MessageBody=str(n), **more)
    for _ in range(3):
        die(sqs, queue, 1)
    arn = attributes_of(sqs, dead, "QueueArn")["QueueArn"]
    task = sqs.start_message_move_task(SourceArn=arn)
    assert task["TaskHandle"]

    def done() -> bool:
        (told,) = sqs.list_message_move_tasks(SourceArn=arn)["Results"]
        return bool(told["Status"] == "COMPLETED")

    wait_for(done, "the task is done")
    (told,) = sqs.list_message_move_tasks(SourceArn=arn)["Results"]
    assert told["ApproximateNumberOfMessagesMoved"] == 3
    bodies = []
    for _ in range(3):
        for got in received(sqs, queue):
            bodies.append(got["Body"])
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=got["ReceiptHandle"])
        if len(bodies) == 3:
            break
    assert (bodies if suffix else sorted(bodies)) == ["0", "1", "2"]
    assert nothing(sqs, dead)
    with pytest.raises(sqs.exceptions.ResourceNotFoundException):
        sqs.cancel_message_move_task(TaskHandle=task["TaskHandle"])
    with pytest.raises(sqs.exceptions.UnsupportedOperation):
        sqs.start_message_move_task(SourceArn=attributes_of(sqs, queue, "QueueArn")["QueueArn"])


def test_a_purge_drops_what_is_there(sqs: Any, queue: str) -> None:
    for body in "abc":
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    received(sqs, queue)
    sqs.purge_queue(QueueUrl=queue)
    assert nothing(sqs, queue)
    with pytest.raises(sqs.exceptions.PurgeQueueInProgress):
        sqs.purge_queue(QueueUrl=queue)
    sqs.send_message(QueueUrl=queue, MessageBody="d")
    assert [one["Body"] for one in received(sqs, queue)] == ["d"]


def test_tags_and_permissions_are_kept(sqs: Any, name: Name) -> None:
    queue = sqs.create_queue(QueueName=name(), tags={"team": "a"})["QueueUrl"]
    sqs.tag_queue(QueueUrl=queue, Tags={"cost": "7", "team": "b"})
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"cost": "7", "team": "b"}
    sqs.untag_queue(QueueUrl=queue, TagKeys=["team", "nobody"])
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"cost": "7"}
    sqs.add_permission(
        QueueUrl=queue, Label="l", AWSAccountIds=["123456789012"], Actions=["SendMessage"]
    )
    policy = json.loads(attributes_of(sqs, queue, "Policy")["Policy"])
    (statement,) = policy["Statement"]
    assert (statement["Sid"], statement["Action"]) == ("l", ["SQS:SendMessage"])
    with pytest.raises(ClientError):
        sqs.add_permission(
            QueueUrl=queue, Label="l", AWSAccountIds=["123456789012"], Actions=["SendMessage"]
        )
    sqs.remove_permission(QueueUrl=queue, Label="l")
    assert "Policy" not in attributes_of(sqs, queue)


def test_messages_older_than_the_retention_are_not_received(
    sqs: Any, name: Name, memory: MemoryQueue
) -> None:
    attributes = {"MessageRetentionPeriod": "60"}
    queue = sqs.create_queue(QueueName=name(), Attributes=attributes)["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="x")
    memory.clock.advance(61)
    assert nothing(sqs, queue)
