"""lakequeue: the SDK for streams, plain HTTP for the workers of a queue group."""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence
from concurrent.futures import Future
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import orjson

from bench.peers.clients.interface import Acked, Drained, Place
from lakequeue import Consumer, Producer, RecordMetadata
from lakequeue.client.messages import Messages

_JSON = {"content-type": "application/json"}


class LakequeueSender:
    """A producer with its defaults."""

    def __init__(self, at: Place, acked: Acked) -> None:
        self._topic, self._acked = at["topic"], acked
        self._producer = Producer(at["ingest"])

    def send(self, number: int, partition: int, value: bytes) -> None:
        """Queue one record."""

        def done(metadata: Future[RecordMetadata]) -> None:
            metadata.result()
            self._acked((number,))

        handle = self._producer.send(self._topic, value, partition=partition)
        handle.add_done_callback(done)

    def wait(self, seconds: float) -> None:
        """Acknowledgements come from the producer's threads."""
        time.sleep(seconds)

    def close(self) -> None:
        """Flush and close."""
        self._producer.close()


class LakequeueReceiver:
    """A consumer of a stream group, alone in it."""

    def __init__(self, at: Place) -> None:
        self._consumer = Consumer(
            at["topic"],
            group="bench",
            urls=at["consumer"],
            from_="earliest",
            max_poll_records=5_000,
        )
        self._batch: Messages | list[Any] = []

    def receive(self, seconds: float, most: int) -> Sequence[bytes]:
        """Poll."""
        self._batch = self._consumer.poll(seconds, most)
        return [message.value for message in self._batch]

    def settle(self) -> None:
        """Ack each; the consumer sends them together."""
        for message in self._batch:
            message.ack()

    def close(self) -> None:
        """Send the acks and leave."""
        self._consumer.close()


class LakequeueDrainer:
    """A consumer of a stream group of its own."""

    def __init__(self, at: Place) -> None:
        self._consumer = Consumer(
            at["topic"],
            group=at["group"],
            urls=at["consumer"],
            from_="earliest",
            max_poll_records=5_000,
        )

    def read(self, seconds: float, most: int) -> Drained:
        """Poll, and ack what came as one."""
        size = offsets = 0
        batch = self._consumer.poll(seconds, most)
        for message in batch:
            size += len(message.value)
            offsets += message.offset
        batch.ack()
        return Drained(len(batch), size, offsets)

    def close(self) -> None:
        """Send the acks and leave."""
        self._consumer.commit()
        self._consumer.close()


class LakequeueWorker:
    """A worker of a queue group over a plain connection, as the other systems' workers are.

    Each poll brings along the acks of what came before it, as docs/http-consumer.md says.
    """

    def __init__(self, at: Place) -> None:
        self._connection = HTTPConnection(urlsplit(at["consumer"]).netloc, timeout=60)
        body = {"topics": [at["topic"]], "mode": "queue", "from": "earliest"}
        joined = self._call("POST", "/v1/groups/bench-queue/members", body)
        self._path = f"/v1/groups/bench-queue/members/{joined['member_id']}"
        self._receipts: list[str] = []
        self._settled: list[str] = []

    def _call(self, method: str, path: str, body: object = None) -> Any:
        self._connection.request(
            method, path, None if body is None else orjson.dumps(body), _JSON if body else {}
        )
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise RuntimeError(text.decode())
        return orjson.loads(text) if text else {}

    def receive(self, seconds: float, most: int) -> Sequence[bytes]:
        """One poll. What is settled is durable when it is answered."""
        body = {"acks": self._settled, "max": most, "wait_ms": int(seconds * 1_000)}
        answer = self._call("POST", f"{self._path}/records", body)
        if answer["refused"]:
            raise RuntimeError(f"refused: {answer['refused']}")
        self._settled = []
        self._receipts = [record["receipt"] for record in answer["records"]]
        return [base64.b64decode(record["value_base64"]) for record in answer["records"]]

    def settle(self) -> None:
        """With the next poll."""
        self._settled, self._receipts = self._settled + self._receipts, []

    def close(self) -> None:
        """Settle what no poll has settled, and close the connection."""
        if self._settled:
            self._call("POST", f"{self._path}/acks", {"acks": self._settled})
        self._connection.close()
