"""`lakequeue topic browse -o -3`: as `consume -o -3`, counted from the end."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from lakequeue.errors import WrongUsage
from lakequeue.testing import MemoryQueue
from lakequeue_cli.app import app

INGEST, CONSUMER = "http://ingest.test", "http://consumer.test"


@pytest.fixture
def queue() -> Iterator[MemoryQueue]:
    with MemoryQueue([INGEST, CONSUMER]) as opened:
        opened.create_topic("orders", partitions=1)
        opened.create_topic("wide", partitions=2)
        with opened.producer() as producer:
            for n in range(10):
                producer.send("orders", n, key="even" if n % 2 == 0 else "odd")
        yield opened


def browse(topic: str, *options: str) -> list[int]:
    """The values that are shown."""
    line = ["topic", "browse", topic, "--json", "--consumer-url", CONSUMER, *options]
    done = CliRunner().invoke(app, line, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return [record["value"] for record in json.loads(done.stdout)]


@pytest.mark.usefixtures("queue")
def test_the_last_records_are_shown() -> None:
    assert browse("orders", "-o", "-3") == [7, 8, 9]
    assert browse("orders", "-o", "latest") == []
    assert browse("orders", "-o", "-1000") == list(range(10))
    assert browse("orders", "-o", "-3", "-k", "odd") == [7, 9]
    assert browse("wide", "-o", "-3", "-p", "1") == []


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize(
    ("topic", "offset", "said"),
    [("orders", "+3", "behind the end"), ("wide", "-3", "2 partitions")],
)
def test_what_has_no_end_of_its_own_is_refused(topic: str, offset: str, said: str) -> None:
    with pytest.raises(WrongUsage, match=said):
        browse(topic, "-o", offset)
