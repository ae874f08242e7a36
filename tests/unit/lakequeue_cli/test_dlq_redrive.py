"""`lakequeue dlq redrive`, of dead letters that an application has sent by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner, Result

from lakequeue.testing import MemoryQueue
from lakequeue_cli.app import app

INGEST, CONSUMER = "http://ingest.test", "http://consumer.test"


@pytest.fixture
def queue() -> Iterator[MemoryQueue]:
    with MemoryQueue([INGEST, CONSUMER]) as opened:
        opened.create_topic("orders", partitions=1)
        opened.create_topic("orders.dlq", partitions=1)
        yield opened


def redrive(*options: str) -> Result:
    line = ["dlq", "redrive", "orders.dlq", "--url", INGEST, "--consumer-url", CONSUMER, *options]
    return CliRunner().invoke(app, line, catch_exceptions=False)


def bury(queue: MemoryQueue, headers: dict[str, str]) -> None:
    with queue.producer() as producer:
        producer.send("orders.dlq", "broken", key="k", headers=headers)


def test_a_record_that_names_no_topic_stays_and_the_way_out_is_said(queue: MemoryQueue) -> None:
    bury(queue, {})
    done = redrive()
    assert done.stdout == "0 sent back, 0 kept, 1 without a topic to go to\n"
    assert "lakequeue-topic" in done.stderr
    assert "lakequeue dlq redrive orders.dlq --to TOPIC" in done.stderr
    assert queue.records("orders") == []

    there = redrive("--to", "orders")
    assert there.stdout.startswith("1 sent back")
    assert there.stderr == ""
    assert [record.value for record in queue.records("orders")] == ["broken"]


def test_the_header_of_the_documents_leads_back(queue: MemoryQueue) -> None:
    bury(queue, {"lakequeue-topic": "orders", "cause": "no price"})
    done = redrive()
    assert done.stdout == "1 sent back, 0 kept, 0 without a topic to go to\n"
    assert done.stderr == ""
    [back] = queue.records("orders")
    assert (back.key, back.value, back.headers) == ("k", "broken", [("cause", b"no price")])
