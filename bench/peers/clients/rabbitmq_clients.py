"""RabbitMQ, by py-amqp: one thread sends and reads confirms."""

from __future__ import annotations

import select
import time
from collections.abc import Sequence
from typing import Any

import amqp

from bench.peers.clients.interface import Acked, Place


def _connect(at: Place) -> Any:
    connection = amqp.Connection(f"127.0.0.1:{at['port']}", heartbeat=0)
    connection.connect()
    return connection


def _serve(connection: Any, seconds: float) -> bool:
    """Handle one frame, if there is one in that time."""
    readable, _, _ = select.select([connection.sock], [], [], max(0.0, seconds))
    if readable:
        connection.drain_events(timeout=10)
    return bool(readable)


class RabbitSender:
    """Persistent messages with publisher confirms; partition n is queue n."""

    def __init__(self, at: Place, acked: Acked) -> None:
        self._queues, self._acked = at["queues"], acked
        self._connection = _connect(at)
        self._channel = self._connection.channel()
        for queue in self._queues:
            self._channel.queue_declare(
                queue, durable=True, auto_delete=False, arguments={"x-queue-type": "quorum"}
            )
        self._channel.confirm_select()
        self._channel.events["basic_ack"].add(self._confirmed)
        self._channel.events["basic_nack"].add(self._refused)
        self._unconfirmed: dict[int, int] = {}
        self._tag = self._first = 1

    def _confirmed(self, tag: int, multiple: bool) -> None:
        if not multiple:
            self._acked((self._unconfirmed.pop(tag),))
            return
        tags = [each for each in range(self._first, tag + 1) if each in self._unconfirmed]
        self._first = tag + 1
        self._acked([self._unconfirmed.pop(each) for each in tags])

    def _refused(self, tag: int, multiple: bool) -> None:
        raise RuntimeError(f"the broker refused message {tag} (multiple: {multiple})")

    def send(self, number: int, partition: int, value: bytes) -> None:
        """Publish to the default exchange."""
        self._unconfirmed[self._tag] = number
        self._tag += 1
        queue = self._queues[partition % len(self._queues)]
        # `_basic_publish` does not wait for the confirm.
        self._channel._basic_publish(  # noqa: SLF001
            amqp.Message(value, delivery_mode=2), "", queue
        )
        if self._tag % 16 == 0:
            while _serve(self._connection, 0):
                pass

    def wait(self, seconds: float) -> None:
        """Read confirms."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            _serve(self._connection, left)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class RabbitReceiver:
    """A consumer of all queues, which acks all that it has up to the newest."""

    def __init__(self, at: Place) -> None:
        self._connection = _connect(at)
        self._channel = self._connection.channel()
        for queue in at["queues"]:
            self._channel.queue_declare(
                queue, durable=True, auto_delete=False, arguments={"x-queue-type": "quorum"}
            )
        self._channel.basic_qos(0, at["prefetch"], False)
        self._values: list[bytes] = []
        self._newest = 0
        for queue in at["queues"]:
            self._channel.basic_consume(queue, callback=self._got)

    def _got(self, message: Any) -> None:
        body = message.body
        self._values.append(body if isinstance(body, bytes) else body.encode())
        self._newest = message.delivery_tag

    def receive(self, seconds: float, most: int) -> Sequence[bytes]:
        """What has been pushed to us."""
        if _serve(self._connection, seconds):
            while len(self._values) < most and _serve(self._connection, 0):
                pass
        values, self._values = self._values, []
        return values

    def settle(self) -> None:
        """One ack for all."""
        if self._newest:
            self._channel.basic_ack(self._newest, multiple=True)
            self._newest = 0

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
