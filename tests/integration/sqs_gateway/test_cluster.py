"""Two gateways as processes, before real services."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.sqs_gateway.test_messages import received
from tests.integration.sqs_gateway.test_queues import dead_letters, die
from tests.support.access.certificates import Authority
from tests.support.services.backends import Backend
from tests.support.services.zookeeper import wait_for
from tests.support.sqs.running import GatewayProcess, client

pytestmark = pytest.mark.zookeeper
Name = Callable[..., str]


@pytest.fixture
def second(cluster: Backend) -> Iterator[GatewayProcess]:
    """Another gateway, which a test may kill."""
    process = GatewayProcess(cluster.ingest_url, cluster.consumer_url)
    yield process
    process.kill()


@pytest.fixture(scope="module")
def real_sqs(cluster_gateway: GatewayProcess) -> Any:
    """boto3 at the first."""
    return client(cluster_gateway.url)


def test_a_message_goes_all_the_way(real_sqs: Any, name: Name) -> None:
    queue = real_sqs.create_queue(QueueName=name())["QueueUrl"]
    sent = real_sqs.send_message(QueueUrl=queue, MessageBody="x")
    counted = ["ApproximateNumberOfMessages"]

    def waits() -> bool:
        told = real_sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=counted)
        return bool(told["Attributes"]["ApproximateNumberOfMessages"] == "1")

    wait_for(waits, "it is counted, though nobody has ever received")
    (got,) = received(real_sqs, queue, AttributeNames=["All"], VisibilityTimeout=600)
    assert got["MessageId"] == sent["MessageId"]
    counts = real_sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "1"
    change = {"QueueUrl": queue, "ReceiptHandle": got["ReceiptHandle"]}
    real_sqs.change_message_visibility(**change, VisibilityTimeout=1)
    (again,) = received(real_sqs, queue, AttributeNames=["All"])
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    first = got["Attributes"]["ApproximateFirstReceiveTimestamp"]
    assert again["Attributes"]["ApproximateFirstReceiveTimestamp"] == first
    real_sqs.delete_message(QueueUrl=queue, ReceiptHandle=again["ReceiptHandle"])
    counts = real_sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_a_fifo_queue_keeps_its_order_and_drops_copies(real_sqs: Any, name: Name) -> None:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    queue = real_sqs.create_queue(QueueName=name(".fifo"), Attributes=attributes)["QueueUrl"]
    sent = [
        real_sqs.send_message(QueueUrl=queue, MessageBody=body, MessageGroupId="g")
        for body in "abac"
    ]
    assert sent[2]["SequenceNumber"] == sent[0]["SequenceNumber"]
    assert sent[2]["MessageId"] == sent[0]["MessageId"]
    for body in "abc":
        (got,) = received(real_sqs, queue)
        assert got["Body"] == body
        real_sqs.delete_message(QueueUrl=queue, ReceiptHandle=got["ReceiptHandle"])


def test_a_dead_message_is_found_in_the_dead_letter_queue(real_sqs: Any, name: Name) -> None:
    queue, dead = dead_letters(real_sqs, name)
    sent = real_sqs.send_message(QueueUrl=queue, MessageBody="x")
    die(real_sqs, queue)
    (got,) = received(real_sqs, dead)
    assert (got["Body"], got["MessageId"]) == ("x", sent["MessageId"])


def test_a_gateway_with_a_certificate_names_queues_by_it(
    cluster: Backend, name: Name, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    node = authority.sign("gateway")
    tls = {"LAKEQUEUE_TLS__CERT": str(node.cert), "LAKEQUEUE_TLS__KEY": str(node.key)}
    gateway = GatewayProcess(cluster.ingest_url, cluster.consumer_url, environment=tls)
    try:
        sqs = client(gateway.url, ca=authority.ca)
        queue = sqs.create_queue(QueueName=name())["QueueUrl"]
        assert queue.startswith(f"{gateway.url}/")
        assert queue.startswith("https://")
        sqs.send_message(QueueUrl=queue, MessageBody="x")
        assert [one["Body"] for one in received(sqs, queue)] == ["x"]
    finally:
        gateway.kill()


def test_a_receive_that_waits_is_answered_when_a_message_comes(real_sqs: Any, name: Name) -> None:
    queue = real_sqs.create_queue(QueueName=name())["QueueUrl"]
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.extend(received(real_sqs, queue)))
    waiting.start()
    real_sqs.send_message(QueueUrl=queue, MessageBody="x")
    waiting.join(30)
    assert [one["Body"] for one in found] == ["x"]


def test_a_queue_may_be_deleted_under_a_receive_that_waits(real_sqs: Any, name: Name) -> None:
    queue = real_sqs.create_queue(QueueName=name())["QueueUrl"]
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            while True:
                real_sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=3)
        except real_sqs.exceptions.QueueDoesNotExist as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    real_sqs.delete_queue(QueueUrl=queue)
    waiting.join(60)
    assert len(errors) == 1


def test_a_handle_is_good_at_another_gateway_when_one_was_killed(
    second: GatewayProcess, real_sqs: Any, name: Name
) -> None:
    there = client(second.url)
    queue = there.create_queue(QueueName=name())["QueueUrl"]
    there.send_message(QueueUrl=queue, MessageBody="x")
    (got,) = received(there, queue)
    second.kill()
    # The URL names the gateway that is gone: SDKs ask where they were told to ask.
    real_sqs.delete_message(QueueUrl=queue, ReceiptHandle=got["ReceiptHandle"])
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]

    def empty() -> bool:
        told = real_sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)
        return set(told["Attributes"].values()) == {"0"}

    wait_for(empty, "nothing is left")
