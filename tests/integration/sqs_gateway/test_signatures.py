"""A gateway with keys: who signs is let in, with the rights of the key; nobody else is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from lakequeue.calling import blocking_runner
from lakequeue.errors import UnlockedDoors
from lakequeue.settings import Settings, SqsSettings
from lakequeue.testing import MemoryQueue
from memory_queue.transport import MemoryTransport
from sqs_gateway.server import check_host
from tests.support.sqs.running import client, gateway

Name = Callable[..., str]
KEY = "lq_abcdefgh_a-secret_with_underscores"
SEEN = "http://seen.memory"


class Seen(MemoryTransport):
    """Notes what the services are shown."""

    def __init__(self, queue: MemoryQueue) -> None:
        super().__init__(queue._service)
        self.shown: list[str | None] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """See httpx2."""
        self.shown.append(request.headers.get("authorization"))
        return super().handle_request(request)


@pytest.fixture(scope="module")
def seen(memory: MemoryQueue) -> Iterator[Seen]:
    """The services of the queue in memory, watched."""
    transport = Seen(memory)
    unmount = blocking_runner.mount((SEEN,), transport)
    yield transport
    unmount()


@pytest.fixture(scope="module")
def locked(seen: Seen, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway that asks for keys."""
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(f"# two\n{KEY}\nAKIDSTATIC:of the gateway\n")
    with gateway(SEEN, SEEN, keys_file=file) as url:
        yield url


def test_a_request_that_is_signed_has_the_rights_of_its_key(
    locked: str, seen: Seen, name: Name
) -> None:
    for access, secret, bearer in (
        ("lq_abcdefgh", KEY, f"Bearer {KEY}"),
        ("AKIDSTATIC", "of the gateway", None),
    ):
        seen.shown.clear()
        sqs = client(locked, access, secret)
        url = sqs.create_queue(QueueName=name())["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="x")
        assert sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
        assert set(seen.shown) == {bearer}


def test_a_move_task_is_cancelled_by_the_key_that_started_it_alone(locked: str, name: Name) -> None:
    sqs: Any = client(locked, "lq_abcdefgh", KEY)
    other: Any = client(locked, "AKIDSTATIC", "of the gateway")
    dead, target = (sqs.create_queue(QueueName=name())["QueueUrl"] for _ in range(2))

    def arn(queue: str) -> str:
        told = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
        return str(told["Attributes"]["QueueArn"])

    policy = json.dumps({"deadLetterTargetArn": arn(dead), "maxReceiveCount": 1})
    sqs.create_queue(QueueName=name(), Attributes={"RedrivePolicy": policy})
    entries = [{"Id": str(n), "MessageBody": "x"} for n in range(9)]
    sqs.send_message_batch(QueueUrl=dead, Entries=entries)
    handle = sqs.start_message_move_task(
        SourceArn=arn(dead), DestinationArn=arn(target), MaxNumberOfMessagesPerSecond=1
    )["TaskHandle"]
    (shown,) = other.list_message_move_tasks(SourceArn=arn(dead))["Results"]
    assert shown["Status"] == "RUNNING"
    assert "TaskHandle" not in shown
    with pytest.raises(ClientError, match="another key"):
        other.cancel_message_move_task(TaskHandle=handle)
    (shown,) = sqs.list_message_move_tasks(SourceArn=arn(dead))["Results"]
    assert shown["TaskHandle"] == handle
    sqs.cancel_message_move_task(TaskHandle=handle)


@pytest.mark.parametrize(
    ("access", "secret", "code"),
    [
        ("lq_abcdefgh", KEY + "x", "SignatureDoesNotMatch"),
        ("lq_other", KEY, "InvalidClientTokenId"),
        ("AKIDSTATIC", "", "SignatureDoesNotMatch"),
    ],
)
def test_who_has_not_the_secret_is_refused(
    locked: str, seen: Seen, access: str, secret: str, code: str
) -> None:
    seen.shown.clear()
    sqs: Any = client(locked, access, secret or "another")
    with pytest.raises(ClientError) as error:
        sqs.list_queues()
    assert error.value.response["Error"]["Code"] == code
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert seen.shown == [], "the services are not asked"


def test_a_signed_address_is_good_and_an_unsigned_request_is_not(locked: str) -> None:
    signed = AWSRequest(method="GET", url=f"{locked}/?Action=ListQueues&QueueNamePrefix=a%20b")
    SigV4QueryAuth(Credentials("lq_abcdefgh", KEY), "sqs", "us-east-1").add_auth(signed)
    assert httpx2.get(str(signed.url)).status_code == 200
    assert httpx2.get(str(signed.url).replace("a%20b", "a")).status_code == 403
    assert httpx2.post(locked, data={"Action": "ListQueues"}).status_code == 403


def test_a_gateway_that_asks_for_no_keys_is_for_this_machine(tmp_path: Path) -> None:
    def settings(**sqs: Any) -> Settings:
        return Settings().model_copy(update={"sqs": SqsSettings(host="0.0.0.0", **sqs)})

    with pytest.raises(UnlockedDoors):
        check_host(settings())
    check_host(settings(keys_file=tmp_path / "keys"))


def test_a_gateway_lends_its_own_key_to_nobody(tmp_path: Path) -> None:
    own = Settings().model_copy(update={"api_key_file": tmp_path / "own"})
    with pytest.raises(UnlockedDoors, match="lend its key"):
        check_host(own)
    check_host(own.model_copy(update={"sqs": SqsSettings(keys_file=tmp_path / "keys")}))


def test_the_metrics_of_a_gateway_with_keys_need_one(locked: str) -> None:
    assert httpx2.get(f"{locked}/metrics").status_code == 401
    for shown in (f"Bearer {KEY[:-1]}?", KEY, "Bearer AKIDSTATIC", "Bearer", f"Basic {KEY}"):
        answer = httpx2.get(f"{locked}/metrics", headers={"Authorization": shown})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    answer = httpx2.get(f"{locked}/metrics", headers={"Authorization": f"Bearer {KEY}"})
    assert answer.status_code == 200
    assert "lakequeue_sqs_requests_total" in answer.text
