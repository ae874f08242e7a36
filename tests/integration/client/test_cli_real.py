"""The command as users run it, against real services."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.client.conftest import IngestProcess
from tests.support.consumer_node import NodeProcess, Queue

HERE = Path(__file__).parents[3]


def lakequeue(*args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command, not on a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "lakequeue.cli.app", *args],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=HERE,
        timeout=120,
        check=False,
    )


def test_topics_and_produce(start_ingest: Callable[..., IngestProcess]) -> None:
    node = start_ingest()
    at = ("--url", node.url)
    created = lakequeue("topic", "create", "orders", "-p", "2", "--retention", "7d", *at)
    assert created.stdout.startswith("created orders partitions=2 id="), created.stderr
    again = lakequeue("topic", "create", "orders", "-p", "3", *at)
    assert again.returncode == 8
    assert again.stderr.startswith("error: ")
    assert "hint: " in again.stderr
    assert "Traceback" not in again.stderr
    assert lakequeue("topic", "create", "orders", "--if-not-exists", *at).returncode == 0
    (topic,) = json.loads(lakequeue("topic", "list", "--json", *at).stdout)
    assert (topic["topic"], topic["retention_ms"]) == ("orders", 604_800_000)
    sent = lakequeue("produce", "orders", "-K", ":", "--json", *at, stdin="a:1\nb:x:y\n")
    first, _ = [json.loads(line) for line in sent.stdout.splitlines()]
    assert first["topic"] == "orders"
    assert first["message_id"].endswith(":0")
    assert [(r["key"], r["value"]) for r in node.inbox()] == [(b"a", b"1"), (b"b", b"x:y")]
    lost = lakequeue("produce", "nowhere", "x", *at)
    assert (lost.returncode, "nowhere" in lost.stderr) == (8, True)
    assert lakequeue("topic", "delete", "orders", "--yes", *at).stdout == "deleted orders\n"
    node.end(kill=True)
    gone = lakequeue("topic", "list", "--timeout", "0.2", *at)
    assert gone.returncode == 9
    assert "lakequeue up" in gone.stderr


@pytest.mark.zookeeper
def test_consume_and_groups(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic(partitions=2)
    queue.log.append(topic, [f"a{i}" for i in range(20)], 0)
    queue.log.append(topic, ["b0"], 1)
    name, group = topic.topic, f"billing-{topic.topic}"
    at = ("--consumer-url", node.url)
    everything = lakequeue("consume", name, "-e", *at)
    assert everything.returncode == 0, everything.stderr
    assert sorted(everything.stdout.split()) == sorted([f"a{i}" for i in range(20)] + ["b0"])
    tail = lakequeue("consume", name, "-o", "-2", "-e", "-f", r"%p@%o %s\n", *at)
    assert sorted(tail.stdout.splitlines()) == ["0@18 a18", "0@19 a19", "1@0 b0"]
    assert "cli-" not in lakequeue("group", "list", "--json", *at).stdout, "no trace is left"
    five = lakequeue("consume", name, "-g", group, "-n", "5", "--json", *at)
    assert len([json.loads(line) for line in five.stdout.splitlines()]) == 5
    described = lakequeue("group", "describe", group, *at)
    columns = described.stdout.splitlines()[0].split()
    assert columns[:4] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET"]
    assert "total lag 16, members 0" in described.stdout
    refused = lakequeue("consume", name, "-g", group, "-o", "-2", *at)
    assert (refused.returncode, "group seek" in refused.stderr) == (8, True)
    shown = lakequeue("group", "seek", group, "--to", "latest", *at)
    assert "nothing has changed" in shown.stderr
    assert "total lag 16" in lakequeue("group", "describe", group, *at).stdout
    done = lakequeue("group", "seek", group, "--to", "latest", "--execute", *at)
    assert (done.returncode, done.stderr) == (0, "")
    assert "total lag 0" in lakequeue("group", "describe", group, *at).stdout
    assert lakequeue("group", "delete", group, "--yes", *at).returncode == 0
    assert lakequeue("group", "describe", group, *at).returncode == 8
