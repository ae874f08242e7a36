"""The command as users run it, against real services."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lakequeue import Admin
from lakequeue.records import Format
from tests.integration.client.conftest import IngestProcess
from tests.support.command import lakequeue
from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue

HERE = Path(__file__).parents[3]


def test_the_command_runs_as_a_process() -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "lakequeue_cli.app", "topic", "list"),
            *("--url", "http://127.0.0.1:1", "--timeout", "0.2"),
        ],
        capture_output=True,
        text=True,
        cwd=HERE,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout) == (9, "")
    first, error, hint = done.stderr.splitlines()
    assert first.startswith("WARNING: http://127.0.0.1:1 does not answer")
    assert error.startswith("error: http://127.0.0.1:1 does not answer")
    assert "lakequeue up" in hint


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
    nothing = lakequeue("consume", "nowhere", "-e", "--consumer-url", node.url, "--timeout", "1")
    assert nothing.returncode != 0
    assert "throw-away" not in nothing.stderr, "no group was made, so none is left behind"
    assert lakequeue("topic", "delete", "orders", "--yes", *at).stdout == "deleted orders\n"
    node.end(kill=True)
    gone = lakequeue("topic", "list", "--timeout", "0.2", *at)
    assert gone.returncode == 9
    assert "lakequeue up" in gone.stderr


def test_bad_lines_are_named_and_the_good_ones_accounted_for(
    start_ingest: Callable[..., IngestProcess],
) -> None:
    node = start_ingest()
    at = ("--url", node.url)
    lakequeue("topic", "create", "orders", "-p", "2", *at)
    lines = [f"v{i}" for i in range(500)]
    lines[316] = "x" * ((1 << 20) + 1)
    refused = lakequeue("produce", "orders", *at, stdin="\n".join(lines))
    assert refused.returncode == 8
    assert refused.stderr.startswith("error: line 317: a record of 1048577 bytes")
    assert len(refused.stdout.splitlines()) == len(node.inbox()) == 499
    torn = "\n".join(["a:1", "b:2", "no colon", "c:3"])
    unread = lakequeue("produce", "orders", "-K", ":", *at, stdin=torn)
    assert unread.returncode == 8
    assert unread.stderr.startswith("error: line 3 has no ':' between key and value")
    assert len(unread.stdout.splitlines()) == 2, "what was sent before it is said"
    assert [r["value"] for r in node.inbox()[499:]] == [b"1", b"2"]


BIG = '{"id":123456789012345678901234567890,"low":-170141183460469231731687303715884105728}'


def test_an_integer_beyond_64_bits_is_sent_as_it_was_typed(
    start_ingest: Callable[..., IngestProcess],
) -> None:
    node = start_ingest()
    at = ("--url", node.url)
    lakequeue("topic", "create", "orders", *at)
    sent = lakequeue("produce", "orders", "-t", "json", *at, stdin=f"{BIG}\n{1 << 70}\n")
    assert sent.returncode == 0, sent.stderr
    assert [r["value"] for r in node.inbox()] == [BIG.encode(), b"%d" % (1 << 70)]


@pytest.mark.zookeeper
def test_an_integer_beyond_64_bits_is_printed_as_it_was_sent(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [BIG], fmt=Format.JSON)
    at = ("consume", topic.topic, "-e", "--consumer-url", node.url)
    printed = lakequeue(*at, "-f", r"%s\n")
    assert json.loads(printed.stdout) == json.loads(BIG), printed.stderr
    whole = lakequeue(*at, "--json")
    assert json.loads(whole.stdout)["value"] == json.loads(BIG), whole.stderr


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


def test_a_group_is_moved_to_every_target_by_command_and_sdk(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic(partitions=2)
    day_us = 1_700_000_000 * 1_000_000
    for at in range(4):
        queue.log.append(topic, ["x"], 0, timestamp=day_us + at * 1_000_000)
    queue.log.append(topic, ["y"], 1, timestamp=day_us)
    group, at_node = f"moved-{topic.topic}", ("--consumer-url", node.url)

    def moves(*given: str) -> list[list[int | None]]:
        done = lakequeue("group", "seek", group, *given, "--execute", "--json", *at_node)
        assert done.returncode == 0, done.stderr
        return [[m["from_offset"], m["to_offset"]] for m in json.loads(done.stdout)["partitions"]]

    assert moves("--to", "earliest", "-t", topic.topic) == [[None, 0], [None, 0]]
    assert moves("--to", "latest") == [[0, 4], [0, 1]]
    assert moves("--to", "1", "-t", topic.topic, "-p", "0") == [[4, 1]], "one partition alone"
    assert moves("--to", "+1", "-p", "0") == [[1, 2]]
    assert moves("--to", "-9") == [[2, 0], [1, 0]]
    assert moves("--to", "@1700000002000") == [[0, 2], [0, 1]], "milliseconds"
    assert moves("--to", "@2023-11-14T22:13:21.500Z", "-p", "0") == [[2, 2]]
    assert moves("--to", "latest", "--shift", "-3") == [[2, 1], [1, 0]]
    with Admin(consumer_urls=node.url) as admin:
        for answer, ends in (
            (admin.seek(group, "latest"), [4, 1]),
            (admin.seek(group, "earliest"), [0, 0]),
            (admin.seek(group, "offset", offset=3), [3, 1]),
            (admin.seek(group, "committed", shift=-1), [2, 0]),
            (admin.seek(group, "time", time=day_us + 2_500_000, shift=-1), [2, 0]),
            (admin.seek(group, "latest", topics=[topic.topic], partition=1), [1]),
        ):
            assert [m.to_offset for m in answer.partitions] == ends


def test_a_group_is_paused_and_resumed_by_command(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic(partitions=2)
    group, at = f"paused-{topic.topic}", ("--consumer-url", node.url)
    made = lakequeue(
        "group", "seek", group, "--to", "earliest", "-t", topic.topic, "--execute", *at
    )
    assert made.returncode == 0, made.stderr
    paused = lakequeue("group", "pause", group, *at)
    assert (paused.returncode, paused.stdout) == (0, f"{group} is paused\n"), paused.stderr
    one = lakequeue("group", "resume", group, "-t", topic.topic, "-p", "1", *at)
    assert one.stdout.splitlines()[1] == f"but {topic.topic}/1 is delivered"
    rows = lakequeue("group", "describe", group, *at).stdout.splitlines()
    assert [row.split()[-1] for row in rows[:3]] == ["PAUSED", "yes", "-"]
    assert rows[3].endswith("paused as a whole")
    said = lakequeue("group", "resume", group, "--json", *at)
    assert json.loads(said.stdout) == {"group": group, "paused": False, "rules": []}
    refused = lakequeue("group", "pause", "nobody", *at)
    assert (refused.returncode, "does not exist" in refused.stderr) == (8, True)


def test_consume_where(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic(partitions=2)
    for n in range(20):
        queue.log.append(topic, [str(n)], n % 2, key=str(n % 5))
    at = ("--consumer-url", node.url)
    looked = lakequeue("consume", topic.topic, "-e", "--where", "key = '3'", *at)
    assert sorted(looked.stdout.split(), key=int) == ["3", "8", "13", "18"], looked.stderr
    group = f"where-{topic.topic}"
    where = ("--where", "key = '4' AND offset < 9")
    read = lakequeue("consume", topic.topic, "-g", group, "-e", *where, *at)
    assert sorted(read.stdout.split(), key=int) == ["4", "9", "14"], read.stderr
    assert "key = '4'" in lakequeue("group", "describe", group, *at).stderr
    wrong = lakequeue("consume", topic.topic, "-e", "--where", "key == ", *at)
    assert (wrong.returncode, "does not parse" in wrong.stderr) == (8, True), wrong.stderr
    assert "cli-" not in lakequeue("group", "list", "--json", *at).stdout, "no trace is left"


def test_a_worker_of_a_queue_group_and_what_describe_says_of_it(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a0", "a1"], key="a")
    queue.log.append(topic, ["b0", "b1"], key="b")
    group, at = f"mailer-{topic.topic}", ("--consumer-url", node.url)
    work = ("consume", topic.topic, "-g", group, "--mode", "queue", *at)
    options = ("--visibility", "90s", "--max-attempts", "5", "--ordering", "key")
    one = lakequeue(*work, *options, "--max-in-flight", "1", "-n", "1", "--json")
    assert one.returncode == 0, one.stderr
    assert [json.loads(line)["value"] for line in one.stdout.splitlines()] == ["a0"]

    def counts() -> list[str]:
        head, row, _ = lakequeue("group", "describe", group, *at).stdout.splitlines()
        said = dict(zip(head.split(), row.split(), strict=True))
        return [said[name] for name in ("LAG", "IN-FLIGHT", "PARKED", "DYING")]

    described = json.loads(lakequeue("group", "describe", group, "--json", *at).stdout)
    assert described["options"] == {
        "visibility_timeout_ms": 90_000,
        "max_attempts": 5,
        "ordering": "key",
    }
    # What it had fetched ahead is given back when it leaves: parked, and due.
    assert counts()[:2] == ["3", "0"]
    with HttpMember(node.url, topic, group, options={"mode": "queue"}) as member:
        held = member.poll_until(2)
        assert sorted(r["value"] for r in held) == ["a1", "b0"], "of each key one at a time"
        assert counts() == ["3", "2", "0", "0"]
        rests, dies = held
        parked = [{"receipt": rests["receipt"], "delay_ms": 600_000}]
        assert member.post(nacks=parked).status_code == 200
        assert counts() == ["3", "1", "1", "0"]
        while dies["attempt"] < 5:
            assert member.post(nacks=[{"receipt": dies["receipt"], "delay_ms": 0}]).is_success
            (dies,) = member.poll_until(1)
        # No ingest node takes dead letters here, so it stays on its way.
        assert member.post(nacks=[{"receipt": dies["receipt"]}]).status_code == 200
        assert counts() == ["3", "0", "1", "1"]
        member.leave()
    differs = lakequeue(*work, "--max-attempts", "4", "-e")
    assert (differs.returncode, "max_attempts" in differs.stderr) == (8, True), differs.stderr


def test_a_worker_uses_up_no_attempt_of_a_record_that_it_does_not_print(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [f"r{n}" for n in range(15)])
    group, at = f"some-{topic.topic}", ("--consumer-url", node.url)
    work = ("consume", topic.topic, "-g", group, "--mode", "queue", *at)
    assert lakequeue(*work, "-n", "1").stdout.split() == ["r0"]
    assert lakequeue(*work, "-n", "12").stdout.split() == [f"r{n}" for n in range(1, 13)]
    with HttpMember(node.url, topic, group, options={"mode": "queue"}) as member:
        rest = member.poll_until(2)
        assert sorted((r["value"], r["attempt"]) for r in rest) == [("r13", 1), ("r14", 1)]


@pytest.mark.parametrize(
    "wrong",
    [
        ("-o", "soon"),
        ("-o", "@yesterday"),
        ("-g", "g", "--mode", "queue", "--visibility", "soon"),
        ("-g", "g", "--mode", "queue", "--max-in-flight", "0"),
        ("--mode", "queue"),
    ],
)
def test_options_that_cannot_be_read_are_wrong_usage(wrong: tuple[str, ...]) -> None:
    done = lakequeue("consume", "orders", *wrong, "--consumer-url", "http://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "rror" in done.stderr
