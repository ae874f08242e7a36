"""aiobotocore: `python aiobotocore_round.py URL NAME`."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from aiobotocore.session import get_session

MESSAGES = 20


async def main(url: str, name: str) -> dict[str, Any]:
    """Twenty sends at once, and a receive that waits beside them."""
    keys = {"aws_access_key_id": "anything", "aws_secret_access_key": "anything"}
    place = {"endpoint_url": url, "region_name": "us-east-1"}
    async with get_session().create_client("sqs", **place, **keys) as sqs:
        try:
            await sqs.get_queue_url(QueueName=name)
            missing = "no error"
        except sqs.exceptions.QueueDoesNotExist as error:
            missing = str(error.response["Error"]["Code"])
        queue = (await sqs.create_queue(QueueName=name))["QueueUrl"]
        found: list[str] = []

        async def receive() -> None:
            while len(found) < MESSAGES:
                answer = await sqs.receive_message(
                    QueueUrl=queue, WaitTimeSeconds=20, MaxNumberOfMessages=10
                )
                got = answer.get("Messages", [])
                found.extend(one["Body"] for one in got)
                entries = [
                    {"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]}
                    for n, one in enumerate(got)
                ]
                if entries:
                    deleted = await sqs.delete_message_batch(QueueUrl=queue, Entries=entries)
                    assert not deleted.get("Failed"), deleted

        sends = [
            sqs.send_message(QueueUrl=queue, MessageBody=f"message {n}") for n in range(MESSAGES)
        ]
        await asyncio.gather(receive(), *sends)
        await sqs.delete_queue(QueueUrl=queue)
    return {"missing": missing, "bodies": found}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
