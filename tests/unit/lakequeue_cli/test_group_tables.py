"""What `lakequeue group lag` and `group describe` print, on the memory queue."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from lakequeue.testing import MemoryQueue
from lakequeue_cli.app import app

INGEST, CONSUMER = "http://ingest.test", "http://consumer.test"


@pytest.fixture
def queue() -> Iterator[MemoryQueue]:
    """Four records; the group `billing` has consumed one, as the worker `till-7`."""
    with MemoryQueue([INGEST, CONSUMER]) as opened:
        opened.create_topic("orders", partitions=1)
        with opened.producer() as producer:
            for n in range(4):
                producer.send("orders", n)
        consumer = opened.consumer("orders", "billing", name="till-7")
        consumer.poll(5.0)[0].ack()
        consumer.commit()
        yield opened


def table(*command: str) -> list[list[str]]:
    line = ["group", *command, "--consumer-url", CONSUMER]
    done = CliRunner().invoke(app, line, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return [row.split() for row in done.stdout.splitlines()]


@pytest.mark.usefixtures("queue")
def test_the_lag_has_a_head() -> None:
    head, row = table("lag", "billing")
    assert head == ["TIME", "TOPIC", "LAG"]
    assert row[1:] == ["orders", "3"]


@pytest.mark.usefixtures("queue")
def test_a_lag_that_is_watched_has_one_head_and_its_change() -> None:
    head, first, second = table("lag", "billing", "--watch", "0.1", "-n", "2")
    assert head == ["TIME", "TOPIC", "LAG", "CHANGE"]
    assert first[1:] == ["orders", "3", "-"]
    assert second[1:] == ["orders", "3", "+0.0/s"]


@pytest.mark.usefixtures("queue")
def test_the_name_of_a_consumer_stands_under_name() -> None:
    head, row, _ = table("describe", "billing")
    found = dict(zip(head, row, strict=True))
    assert found["NAME"] == "till-7"
    assert found["MEMBER"].startswith("till-7")
    assert "HOST" not in found
