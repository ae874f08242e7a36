"""The room's queues: one in memory, whose clock tests move, and one of real services."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from lakequeue.testing import MemoryQueue
from tests.support.services.backends import Backend, real
from tests.support.sqs.running import GatewayProcess, client, gateway

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def memory() -> Iterator[MemoryQueue]:
    """A queue in memory, for all tests; each has queues of its own."""
    with MemoryQueue() as queue:
        yield queue


@pytest.fixture(scope="session")
def url(memory: MemoryQueue) -> Iterator[str]:
    """A gateway to it."""
    with gateway(memory.url, memory.url) as found:
        yield found


@pytest.fixture(scope="session")
def sqs(url: str) -> Any:
    """boto3."""
    return client(url)


@pytest.fixture
def name() -> Callable[[str], str]:
    """Names of queues that no other test has."""

    def new(suffix: str = "") -> str:
        return f"q{next(_NUMBERS)}-{uuid4().hex[:6]}{suffix}"

    return new


@pytest.fixture
def queue(sqs: Any, name: Callable[[str], str]) -> str:
    """The URL of a standard queue."""
    return str(sqs.create_queue(QueueName=name(""))["QueueUrl"])


@pytest.fixture
def fifo(sqs: Any, name: Callable[[str], str]) -> str:
    """The URL of a FIFO queue."""
    attributes = {"FifoQueue": "true"}
    return str(sqs.create_queue(QueueName=name(".fifo"), Attributes=attributes)["QueueUrl"])


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Backend]:
    """An ingest node, a consumer-service node and the order job, for the whole room."""
    zookeeper = request.getfixturevalue("zookeeper")
    with real(tmp_path_factory.mktemp("sqs"), zookeeper) as backend:
        yield backend


@pytest.fixture(scope="session")
def cluster_gateway(cluster: Backend) -> Iterator[GatewayProcess]:
    """A gateway to it, as a process."""
    process = GatewayProcess(cluster.ingest_url, cluster.consumer_url)
    yield process
    process.kill()
