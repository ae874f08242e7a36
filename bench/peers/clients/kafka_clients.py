"""Kafka, by confluent-kafka (librdkafka)."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.peers.clients.interface import Acked, Drained, Place


def _ensure_topic(at: Place) -> None:
    admin = AdminClient({"bootstrap.servers": at["servers"]})
    wanted = NewTopic(at["topic"], at["partitions"], 1, config=at["settings"])
    try:
        admin.create_topics([wanted])[at["topic"]].result(30)
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


class KafkaSender:
    """An idempotent producer that waits for all replicas in sync."""

    def __init__(self, at: Place, acked: Acked) -> None:
        _ensure_topic(at)
        self._topic, self._acked = at["topic"], acked
        self._producer = Producer(
            {
                "bootstrap.servers": at["servers"],
                "enable.idempotence": True,
                "linger.ms": 1,
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": 1_048_576,
            }
        )

    def send(self, number: int, partition: int, value: bytes) -> None:
        """Queue one record."""

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                raise RuntimeError(str(error))
            self._acked((number,))

        self._producer.produce(self._topic, value, partition=partition, on_delivery=delivered)
        self._producer.poll(0)

    def wait(self, seconds: float) -> None:
        """Serve the callbacks."""
        self._producer.poll(seconds)

    def close(self) -> None:
        """Flush."""
        self._producer.flush(30)


class KafkaReceiver:
    """A member of a group, alone in it; offsets are committed in the background."""

    def __init__(self, at: Place) -> None:
        _ensure_topic(at)
        self._consumer = Consumer(
            {
                "bootstrap.servers": at["servers"],
                "group.id": "bench",
                "auto.offset.reset": "earliest",
                "fetch.min.bytes": 1,
                "auto.commit.interval.ms": 1_000,
            }
        )
        self._consumer.subscribe([at["topic"]])

    def receive(self, seconds: float, most: int) -> Sequence[bytes]:
        """The first record as soon as it is there, with all that came along."""
        first = self._consumer.poll(seconds)
        if first is None:
            return []
        messages = [first, *self._consumer.consume(most - 1, 0)] if most > 1 else [first]
        values = []
        for message in messages:
            if (error := message.error()) is not None:
                raise RuntimeError(str(error))
            values.append(message.value() or b"")
        return values

    def settle(self) -> None:
        """The client commits what it has returned, every second."""

    def close(self) -> None:
        """Leave."""
        self._consumer.close()


class KafkaDrainer:
    """A member of a group of its own; offsets are committed in the background."""

    def __init__(self, at: Place) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": at["servers"],
                "group.id": at["group"],
                "auto.offset.reset": "earliest",
                # By default it fetches nothing for a second whenever it holds 100,000 records.
                "queued.min.messages": 1_000_000,
                "fetch.queue.backoff.ms": 10,
            }
        )
        self._consumer.subscribe([at["topic"]])

    def read(self, seconds: float, most: int) -> Drained:
        """As many as come in that time, at most `most`: the client fetches ahead by itself."""
        size = offsets = 0
        messages = self._consumer.consume(most, seconds)
        for message in messages:
            if (error := message.error()) is not None:
                raise RuntimeError(str(error))
            size += len(message.value())
            offsets += message.offset()
        return Drained(len(messages), size, offsets)

    def close(self) -> None:
        """Commit, and leave."""
        self._consumer.close()
