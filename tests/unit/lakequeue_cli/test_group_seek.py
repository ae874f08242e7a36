"""`lakequeue group seek`: positions and times as people write them, on the memory queue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from typer.testing import CliRunner, Result

from lakequeue.errors import InvalidRequest, WrongUsage
from lakequeue.testing import MemoryQueue
from lakequeue_cli.app import app

INGEST, CONSUMER = "http://ingest.test", "http://consumer.test"
AT = datetime(2026, 11, 30, 1, 34, 40, tzinfo=UTC)


@pytest.fixture
def queue() -> Iterator[MemoryQueue]:
    """Ten records, one a second from `AT` on; the group `billing` has consumed seven."""
    with MemoryQueue([INGEST, CONSUMER]) as opened:
        opened.create_topic("orders", partitions=1)
        with opened.producer() as producer:
            for n in range(10):
                producer.send("orders", n, timestamp=AT + timedelta(seconds=n))
        with opened.consumer("orders", "billing", stop_after=7) as consumer:
            for message in consumer:
                message.ack()
            consumer.commit()
        yield opened


def run(*options: str) -> Result:
    line = ["group", "seek", "billing", "--consumer-url", CONSUMER, *options]
    return CliRunner().invoke(app, line)


def target(*options: str) -> tuple[int, str]:
    """Where partition 0 would go, and what is said on standard error."""
    done = run("--json", *options)
    assert done.exit_code == 0, done.output
    [move] = json.loads(done.stdout)["partitions"]
    assert move["from_offset"] == 7
    return move["to_offset"], done.stderr


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize(
    ("options", "offset"),
    [
        (["--shift", "-3"], 4),
        (["--to", "committed", "--shift", "-3"], 4),
        (["--to", "committed"], 7),
        (["--to", "-3"], 4),
        (["--to", "latest", "--shift", "-1"], 9),
    ],
)
def test_a_shift_alone_counts_from_the_committed_position(options: list[str], offset: int) -> None:
    assert target(*options)[0] == offset


@pytest.mark.usefixtures("queue")
def test_a_position_is_needed() -> None:
    refused = run().exception
    assert isinstance(refused, WrongUsage)
    assert "--shift -10" in refused.hint


@pytest.mark.usefixtures("queue")
def test_a_time_in_utc_is_taken_as_it_is() -> None:
    assert target("--to", "@2026-11-30T01:34:43Z") == (3, "")


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize("text", ["@2026-11-30T03:34:43+02:00", f"@{AT.timestamp() + 3:.0f}000"])
def test_the_time_that_was_understood_is_said(text: str) -> None:
    offset, said = target("--to", text)
    assert offset == 3
    assert said == f"{text[1:]} is 2026-11-30T01:34:43Z\n"


@pytest.mark.usefixtures("queue")
def test_a_time_without_a_zone_is_refused() -> None:
    refused = run("--to", "@2026-11-30T01:34:43").exception
    assert isinstance(refused, WrongUsage)
    assert "has no zone" in str(refused)
    assert "2026-11-30T01:34:43Z" in refused.hint


@pytest.mark.parametrize("command", ["consume orders -e -o", "topic browse orders -p 0 -o"])
def test_other_commands_know_no_committed_position(command: str) -> None:
    refused = CliRunner().invoke(app, [*command.split(), "committed"]).exception
    assert isinstance(refused, WrongUsage)


@pytest.mark.parametrize(
    "command",
    [
        "consume orders -e -o @{}",
        "topic browse orders -p 0 -o @{}",
        "produce orders x --deliver-at {}",
        "dlq redrive orders.dlq --since {}",
        "dlq redrive orders.dlq --until {}",
        "rejects list --root /nowhere --since {}",
        "rejects export --root /nowhere --until {}",
        "rejects redrive --root /nowhere --since {}",
    ],
)
def test_every_option_that_takes_a_time_wants_a_zone(command: str) -> None:
    line = command.format("2026-11-30T01:34:43").split()
    refused = CliRunner().invoke(app, line).exception
    assert isinstance(refused, WrongUsage), refused
    assert "has no zone" in str(refused)


def test_admin_takes_a_datetime_as_the_position(queue: MemoryQueue) -> None:
    with queue.admin() as admin:
        there = AT.astimezone(timezone(timedelta(hours=2))) + timedelta(seconds=3)
        [move] = admin.seek("billing", there, dry_run=True).partitions
        assert move.to_offset == 3
        with pytest.raises(InvalidRequest, match="time"):
            admin.seek("billing", AT.replace(tzinfo=None), dry_run=True)
