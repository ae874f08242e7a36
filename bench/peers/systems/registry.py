"""The systems, in the order of the tables."""

from __future__ import annotations

from bench.peers.systems.delta_system import Delta
from bench.peers.systems.kafka_systems import Kafka, KafkaFsync, KafkaToDelta
from bench.peers.systems.lakequeue_system import Lakequeue
from bench.peers.systems.postgres_system import Postgres
from bench.peers.systems.rabbitmq_system import RabbitMQ
from bench.peers.systems.redis_system import Redis
from bench.peers.systems.system import System

SYSTEMS: tuple[type[System], ...] = (
    Lakequeue, KafkaToDelta, Delta, Kafka, KafkaFsync, RabbitMQ, Redis, Postgres,
)  # fmt: skip
