"""Builds without one of the safeguards: the history names what is wrong with each of them.

Each story is told by a build that lacks the safeguard the story is about
(`tests/support/faults/broken_builds.py`), and where no other test tells it, by the build as it is
as well: the first verdict names the anomaly, the second has none.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from history_checker import Anomaly, GroupRequirements, Requirements, check
from history_checker.history import Event, Outcome, Recorder, load
from history_checker.truth import final_read
from lakequeue.wire import parse_receipt
from queue_tables.delta.actions import commit_path
from queue_tables.delta.tail import commit_versions
from queue_tables.root import QueueRoot
from tests.support.faults.patching import environ
from tests.support.faults.power import NOTES, PowerCut
from tests.support.faults.stopped import is_stopped, stop
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
    Records,
    queue,
    start_node,
)
from tests.support.services.ingest_service import IngestService
from tests.support.services.zookeeper import wait_for

__all__ = ["queue", "start_node"]
HERE = Path(__file__).parents[2]
TOPIC = "t"
BUILDS = pytest.mark.parametrize("broken", [False, True], ids=["as-it-is", "broken"])


@dataclass
class Story:
    """A queue of its own, and the history of what happens in it."""

    folder: Path
    root: Path = field(init=False)
    epoch: int = 0

    def __post_init__(self) -> None:
        self.root = self.folder / "root"
        self.said = Recorder(self.folder / "story.jsonl", "p")

    def send(
        self, node: IngestService, value: str, message_id: bool = True, **envelope: Any
    ) -> dict[str, Any]:
        """One record, and what came of it; {} without an answer."""
        self.said.write([Event("send", "invoke", topic=TOPIC, part=0, value=value)])
        record = {"value": value, "partition": 0} | ({"message_id": value} if message_id else {})
        kind: Outcome = "info"
        body: dict[str, Any] = {}
        try:
            answer = node.send([record], TOPIC, **envelope)
            body = answer.json()
            stored = body.get("stored", "unknown")
            kind = "ok" if answer.status_code == 200 else "fail" if stored == "no" else "info"
        except httpx2.HTTPError:
            body = {}
        self.said.write([Event("send", kind, value=value)])
        return body

    @contextmanager
    def ordering(self, *patches: str, crash_at: str = "") -> Iterator[subprocess.Popen[bytes]]:
        """The order job as a process of the next epoch, until the end of the block."""
        self.epoch += 1
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.support.runs.order_process", "--stay"),
                *("--root", str(self.root), "--epoch", str(self.epoch)),
                *(("--crash-at", crash_at) if crash_at else ()),
            ],
            cwd=HERE,
            env=os.environ | environ(*patches),
            stdout=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait(30)

    def stored(self, named_by: str = "message_id") -> list[str]:
        """What the log has now."""
        read = final_read(self.root, TOPIC, named_by)
        return [e.value for e in read if e.value is not None]

    def wait_stored(self, *values: str, named_by: str = "message_id") -> None:
        """Until the log has them."""
        wait_for(lambda: set(values) <= set(self.stored(named_by)), f"{values}", every_s=0.1)

    def anomalies(self, named_by: str = "message_id") -> set[str]:
        """The verdict."""
        events = [*load([self.folder / "story.jsonl"]), *final_read(self.root, TOPIC, named_by)]
        verdict = check(events)
        print(verdict)
        return set(verdict.anomalies)


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    """A story that begins."""
    begun = Story(tmp_path)
    yield begun
    begun.said.close()


def told(broken: bool, anomalies: set[str], *named: Anomaly) -> None:
    """The right build is innocent, the broken one is caught by name."""
    if broken:
        assert anomalies & set(named), anomalies
    else:
        assert not anomalies


@pytest.mark.faults
def test_an_answer_before_the_commit_is_a_lost_write(story: Story) -> None:
    with (
        IngestService(story.root, node="dying", **environ("ack_before_commit")) as dying,
        IngestService(story.root, node="heir") as heir,
    ):
        heir.create(TOPIC, partitions=1)
        dying.http.get(f"/v1/topics/{TOPIC}")
        for n in range(5):
            assert "records" in story.send(dying, f"v{n}"), "it answers as if all were well"
        dying.kill()
        story.send(heir, "last")
        with story.ordering():
            story.wait_stored("last")
    told(True, story.anomalies(), Anomaly.LOST_WRITE, Anomaly.UNSEEN)


@pytest.mark.faults
def test_without_watermarks_a_new_leader_orders_all_again(story: Story) -> None:
    with IngestService(story.root) as node:
        node.create(TOPIC, partitions=1)
        for n in range(5):
            story.send(node, f"v{n}", message_id=False)
        with story.ordering("no_watermark"):
            story.wait_stored("v4", named_by="value")
        with story.ordering("no_watermark"):
            story.send(node, "last", message_id=False)
            story.wait_stored("last", named_by="value")
    told(True, story.anomalies("value"), Anomaly.DUPLICATE)


@pytest.mark.faults
@BUILDS
def test_one_scan_lets_an_effect_overtake_its_cause(story: Story, broken: bool) -> None:
    patches = ("slow_scans", *(("one_scan",) if broken else ()))
    with (
        IngestService(story.root, node="a") as first,
        IngestService(story.root, node="b") as second,
    ):
        first.create(TOPIC, partitions=1)
        with story.ordering(*patches):
            story.send(first, "begin")
            story.wait_stored("begin")
            after = 0
            # A look takes as long as some ten of these: of so many, one meets the moment.
            for n in range(100):
                node = (first, second)[n % 2]
                after = story.send(node, f"v{n}", after=after)["stamp"]
            story.wait_stored("v99")
    told(broken, story.anomalies(), Anomaly.NONMONOTONIC_SEND)


@BUILDS
def test_a_leader_that_wakes_up_in_anothers_term_orders_nothing_again(
    story: Story, broken: bool
) -> None:
    patches = ("no_order_epoch_check",) if broken else ()
    with IngestService(story.root) as node:
        node.create(TOPIC, partitions=1)
        # Frozen with a batch that is numbered and written, and not committed.
        with story.ordering(*patches, crash_at="order.data_written:2:stop") as old:
            story.send(node, "v0")
            story.wait_stored("v0")
            story.send(node, "v1")
            wait_for(lambda: is_stopped(old.pid), "the leader is frozen")
            with story.ordering(*patches):
                story.wait_stored("v1")
                old.send_signal(signal.SIGCONT)
                if broken:
                    wait_for(lambda: story.stored().count("v1") > 1, "both order", every_s=0.1)
                else:
                    assert old.wait(30) == 3
                story.send(node, "v2")
                story.wait_stored("v2")
    told(broken, story.anomalies(), Anomaly.DUPLICATE)


@pytest.mark.faults
@BUILDS
def test_a_shard_that_is_reopened_hides_what_it_writes_where_a_lost_commit_was(
    story: Story, broken: bool
) -> None:
    patches = environ("reopened_shard") if broken else {}
    with story_node(story, crash_at="ingest.committed:3", **patches) as node:
        node.create(TOPIC, partitions=1)
        with story.ordering() as order:
            for n in range(3):
                story.send(node, f"v{n}")
            # The order job has seen a commit that nobody was told of, …
            story.wait_stored("v2")
            node.process.wait(30)
            stop(order.pid)
            # … and that the power took along, before it looks again.
            cut_newest_commit(story.root, node.ready["shard"])
            with story_node(story, **patches) as heir:
                story.send(heir, "v3")
                order.send_signal(signal.SIGCONT)
                story.send(heir, "v4")
                story.wait_stored("v4")
    told(broken, story.anomalies(), Anomaly.LOST_WRITE, Anomaly.UNSEEN)


@pytest.mark.faults
@BUILDS
def test_what_is_answered_before_it_is_synced_goes_with_the_power(
    story: Story, broken: bool
) -> None:
    notes = story.folder / "notes"
    patches = environ("power", *(("no_sync",) if broken else ()), **{NOTES: str(notes)})
    with IngestService(story.root) as node:
        node.create(TOPIC, partitions=1)
    power = PowerCut(story.root, notes, leave=story.root / "_work")
    with IngestService(story.root, node="dying", **patches) as node:
        for n in range(5):
            assert "records" in story.send(node, f"v{n}"), "it answers as if all were well"
        node.kill()
    print("the power took", power.cut(random.Random(1)))
    with IngestService(story.root, node="heir") as node:
        story.send(node, "last")
        with story.ordering():
            story.wait_stored("last")
    told(broken, story.anomalies(), Anomaly.LOST_WRITE, Anomaly.UNSEEN)


@contextmanager
def story_node(story: Story, crash_at: str = "", **environment: str) -> Iterator[IngestService]:
    """Always the same node."""
    args = ("--crash-at", crash_at) if crash_at else ()
    with IngestService(story.root, *args, node="n", **environment) as node:
        yield node


def cut_newest_commit(root: Path, shard: str) -> None:
    """As the power does to a commit that was visible and not yet durable."""
    opened = QueueRoot.open(str(root), create=False)
    path = f"inbox/{shard}"
    newest = commit_versions(opened.store, path)[-1]
    (root / commit_path(path, newest)).unlink()


@pytest.mark.zookeeper
@BUILDS
def test_an_ack_of_a_superseded_lease_that_counts_is_caught(
    queue: Queue,
    start_node: Callable[..., NodeProcess],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    broken: bool,
) -> None:
    patches = environ("no_epoch_check") if broken else {}
    topic = queue.log.topic()
    queue.log.append(topic, [f"v{n}" for n in range(6)])
    said = Recorder(tmp_path / "members.jsonl", "")
    request.addfinalizer(said.close)
    # Its first commit is the take-over's, the second the first ack's; in the third it freezes.
    name = f"sleeper-{broken}".lower()
    zombie = start_node(queue, name, crash_at="journal.data_written:3:stop", **patches)
    heir_node = start_node(queue, f"heir-{broken}".lower(), **patches)
    late = HttpMember(zombie.url, topic)
    late.join()
    records = late.poll_until(6)
    note_received(said, "late", records)
    commit(said, "late", late, records[:2])
    asleep = threading.Thread(target=commit, args=(said, "late", late, records[2:]))
    asleep.start()
    wait_for(lambda: is_stopped(zombie.worker), "it is frozen in its third commit")
    with HttpMember(heir_node.url, topic) as heir:
        heir.wait_owned(1)
        note_received(said, "heir", heir.poll_until(4))
        zombie.thaw()
        asleep.join(60)
        assert not asleep.is_alive()
    verdict = check(
        load([tmp_path / "members.jsonl"]),
        Requirements({late.group: GroupRequirements(topics=(topic.topic,))}, final=False),
    )
    print(verdict)
    found = set(verdict.anomalies) - {Anomaly.PHANTOM}  # nobody sent: the log was made by hand
    told(broken, found, Anomaly.ACK_LOST)


def note_received(said: Recorder, proc: str, records: Records) -> None:
    """One event a record."""
    said.write(
        Event(
            "receive",
            proc=proc,
            topic=r["topic"],
            part=r["partition"],
            offset=r["offset"],
            value=r["value"],
            group="g",
            lease_epoch=epoch_of(r),
        )
        for r in records
    )


def commit(said: Recorder, proc: str, member: HttpMember, records: Records) -> None:
    """Ack, and write down what was answered."""
    last = records[-1]
    mine = Event(
        "commit_offset",
        "invoke",
        proc=proc,
        topic=last["topic"],
        part=last["partition"],
        offset=last["offset"] + 1,
        group="g",
        lease_epoch=epoch_of(last),
    )
    said.write([mine])
    kind: Outcome = "info"
    try:
        answer = member.ack(records)
        kind = (
            "ok" if answer.status_code == 200 else "fail" if answer.status_code == 409 else "info"
        )
    finally:
        said.write([replace(mine, type=kind, t_ns=0)])


def epoch_of(record: dict[str, Any]) -> int:
    """Of the lease that it was delivered under."""
    return parse_receipt(record["receipt"])[3]
