"""Clients that are not boto3, unchanged, as processes: all the way through real services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.sqs.installed import ROUNDS, ClientFailed, told
from tests.support.sqs.running import GatewayProcess

pytestmark = pytest.mark.zookeeper
Name = Callable[..., str]


def test_aiobotocore(cluster_gateway: GatewayProcess, name: Name) -> None:
    program = str(ROUNDS / "aiobotocore_round.py")
    found = told(cluster_gateway.url, "python", program, cluster_gateway.url, name())
    assert found["missing"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert sorted(found["bodies"]) == sorted(f"message {n}" for n in range(20))


def test_the_sdk_for_javascript(cluster_gateway: GatewayProcess, name: Name) -> None:
    program = str(ROUNDS / "javascript_round.mjs")
    found = told(cluster_gateway.url, "node", program, cluster_gateway.url, name(".fifo"))
    assert found == {
        "missing": True,
        "copy": True,
        "received": [
            {"body": "one", "group": "group", "number": "0", "bytes": [0, 255]},
            {"body": "two", "group": "group", "number": "1", "bytes": [0, 255]},
        ],
        "empty": True,
    }


def test_the_command_line(cluster_gateway: GatewayProcess, name: Name) -> None:
    # This client asks AWS itself for SQS, unless it is told on the command line.
    place = ("--endpoint-url", cluster_gateway.url)

    def aws(*arguments: str) -> Any:
        return told(cluster_gateway.url, "aws", "sqs", *place, *arguments)

    queue = aws("create-queue", "--queue-name", name())["QueueUrl"]
    at_it = ("--queue-url", queue)
    sent = aws("send-message", *at_it, "--message-body", "from a shell")
    (got,) = aws("receive-message", *at_it, "--wait-time-seconds", "20")["Messages"]
    assert (got["Body"], got["MessageId"]) == ("from a shell", sent["MessageId"])
    aws("delete-message", *at_it, "--receipt-handle", got["ReceiptHandle"])
    with pytest.raises(ClientFailed, match=r"\(AWS\.SimpleQueueService\.NonExistentQueue\)"):
        aws("get-queue-url", "--queue-name", name())
