"""Output that cannot be written: nothing counts as done, and the error is a sentence."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakequeue.testing import MemoryQueue
from tests.support.command import lakequeue

CONSUMER = "http://consumer.test"
AT = ("--consumer-url", CONSUMER)


@pytest.fixture
def queue() -> Iterator[MemoryQueue]:
    with MemoryQueue([CONSUMER]) as opened:
        opened.create_topic("orders", partitions=1)
        with opened.producer() as producer:
            for n in range(3):
                producer.send("orders", n)
        yield opened


@pytest.mark.parametrize("mode", ["stream", "queue"])
def test_records_that_a_full_disk_refuses_are_not_acknowledged(
    queue: MemoryQueue, mode: str
) -> None:
    with Path("/dev/full").open("w") as full:
        done = lakequeue("consume", "orders", "-g", "g", "-e", "--mode", mode, *AT, to=full)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "error: the output cannot be written: No space left on device\nhint: "
    )
    [partition] = queue.admin().group("g").partitions
    assert partition.lag == 3
    assert lakequeue("consume", "orders", "-g", "h", "-e", *AT).stdout == "0\n1\n2\n"


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("command", ["consume orders -e", "group list", "topic browse orders -p 0"])
def test_a_pipe_that_nobody_reads_ends_a_command_quietly(command: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        done = lakequeue(*command.split(), *AT, to=pipe)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize(
    "command", ["config show", "topic browse orders -p 0 --consumer-url " + CONSUMER]
)
def test_a_table_that_a_full_disk_refuses_is_an_error(command: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = lakequeue(*command.split(), to=full)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 2
