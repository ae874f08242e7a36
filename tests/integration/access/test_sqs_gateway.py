"""An SQS gateway before a locked queue: who signs with a key has the rights of that key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from queue_access.keys import id_of
from tests.support.access.locked import ADMIN, Locks, wait_status
from tests.support.services.consumer_node import NodeProcess, Queue
from tests.support.services.ingest_service import IngestService
from tests.support.sqs.running import client, gateway

pytestmark = [pytest.mark.zookeeper, pytest.mark.timeout(240)]
QUEUE = "/000000000000/orders"


def access_key_of(key: str) -> str:
    """`lq_<id>` of a key: the secret behind it may have underscores of its own."""
    return f"lq_{id_of(key)}"


@dataclass
class Door:
    """A gateway, and keys for it."""

    url: str
    keys: dict[str, str]

    def client(self, principal: str) -> Any:
        """boto3 with the key of a principal."""
        key = self.keys[principal]
        return client(self.url, access_key_of(key), key)


@pytest.fixture
def door(
    own_queue: Queue, start_node: Callable[..., NodeProcess], tmp_path: Path
) -> Iterator[Door]:
    locks = Locks(own_queue.root).lock()
    locks.may("sender", "produce", "topic", "orders")
    file = tmp_path / "keys"
    file.write_text("\n".join([*locks.keys.values(), "AKIDSTATIC:of nobody"]))
    locks.may("left out", "produce", "topic", "orders")
    with ExitStack() as stack:
        ingest = stack.enter_context(
            IngestService(Path(own_queue.root.uri), "--zookeeper", own_queue.zookeeper.hosts)
        )
        node = start_node(own_queue, "a")
        with httpx2.Client(base_url=node.url, timeout=60) as http:
            wait_status(http, "/v1/groups", locks.keys["sender"], 200)
        url = stack.enter_context(
            gateway(str(ingest.ready["url"]), node.url, keys_file=file, region="eu-central-1")
        )
        yield Door(url, locks.keys)


def refused(call: Callable[..., Any], **given: Any) -> str:
    with pytest.raises(ClientError) as error:
        call(**given)
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    return str(error.value.response["Error"]["Code"])


def test_each_has_the_rights_of_the_own_key(door: Door) -> None:
    admin, sender = door.client(ADMIN), door.client("sender")
    assert refused(sender.create_queue, QueueName="orders") == "AccessDenied"
    url = admin.create_queue(QueueName="orders")["QueueUrl"]
    assert sender.send_message(QueueUrl=url, MessageBody="x")["MessageId"]
    assert refused(sender.receive_message, QueueUrl=url) == "AccessDenied"
    assert refused(sender.purge_queue, QueueUrl=url) == "AccessDenied"
    assert refused(door.client("left out").list_queues) == "InvalidClientTokenId"
    key = door.keys["sender"]
    forged = client(door.url, access_key_of(key), key[:-1] + "?")
    assert refused(forged.send_message, QueueUrl=url, MessageBody="x") == "SignatureDoesNotMatch"
    # The gateway itself was given no key here: such a pair has no rights of its own.
    static = client(door.url, "AKIDSTATIC", "of nobody")
    assert refused(static.send_message, QueueUrl=url, MessageBody="x") == "AccessDenied"
    assert httpx2.post(door.url, data={"Action": "ListQueues"}).status_code == 403
    signed = AWSRequest(method="GET", url=f"{door.url}/?Action=ListQueues")
    access = Credentials(access_key_of(key), key)
    SigV4QueryAuth(access, "sqs", "us-east-1").add_auth(signed)
    listed = httpx2.get(str(signed.url))
    assert listed.status_code == 200
    assert QUEUE in listed.text
