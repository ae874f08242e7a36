"""The real driver, with Spark and ZooKeeper, is killed, frozen, stopped and started again."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordination.embedded import EmbeddedZooKeeper
from jobs.command_line.options import Exit
from lakequeue.clock import wall_micros
from lakequeue.records import Epoch, Offset, Partition, Stamp, TopicId
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Kind
from queue_tables.groups.state import read_group_offsets
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore
from tests.support.data.order_truth import Inbox, judge, log_rows
from tests.support.services.order_driver import Driver, wait_ordered
from tests.support.services.zookeeper import wait_for

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.timeout(900),
]
Start = Callable[..., Driver]


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    """A queue with one topic."""
    root = QueueRoot.open(str(tmp_path / "queue"))
    TopicStore(root).create("orders", partitions=2)
    return root


@pytest.fixture
def driver(root: QueueRoot, zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[Start]:
    """A factory of drivers, ended with the test."""
    started: list[Driver] = []

    def start(node: str, *args: str, module: str = "jobs.driver") -> Driver:
        made = Driver(root, zookeeper.hosts, node, tmp_path / "work", module)
        started.append(made)
        return made.start(*args)

    yield start
    for made in started:
        made.close()


class Sender:
    """Commits groups of records, some of them copies, to two shards."""

    def __init__(self, root: QueueRoot) -> None:
        self._topic_id = TopicStore(root).get("orders").topic_id
        self._shards = [Inbox(root, "a"), Inbox(root, "b")]
        self._count = 0
        self.marks: dict[str, int] = {}

    def send(self, groups: int) -> None:
        for _ in range(groups):
            self._count += 1
            n = self._count
            stamp = wall_micros()
            shard = self._shards[n % 2]
            copy = n - n % 4 // 3 * 2
            record = {"topic_id": self._topic_id, "partition": n % 2, "value": f"v{n}".encode()}
            shard.commit(stamp, [record | {"message_id": f"m{copy}"}])
            self.marks[shard.name] = stamp


@pytest.mark.parametrize(
    ("step", "checkpoint"), [("order.rejects_committed:1", "gone"), ("order.committed:2", "old")]
)
def test_a_killed_driver_starts_again_without_loss_or_copies_whatever_its_checkpoint(
    root: QueueRoot, driver: Start, tmp_path: Path, step: str, checkpoint: str
) -> None:
    sender = Sender(root)
    sender.send(20)
    first = driver("one", "--crash-at", step)
    before = tmp_path / "before"
    if checkpoint == "old":
        wait_ordered(root, sender.marks)
        # Without dot files: what Spark is writing is renamed while it is copied.
        shutil.copytree(spark_checkpoint(tmp_path), before, ignore=shutil.ignore_patterns(".*"))
        sender.send(20)
    assert first.wait_end() == -signal.SIGKILL, first.output()
    there = spark_checkpoint(tmp_path)
    shutil.rmtree(there)
    if checkpoint == "old":
        shutil.copytree(before, there)
    sender.send(20)
    driver("one").wait_state("order", "leading")
    wait_ordered(root, sender.marks)
    judge(root)


def spark_checkpoint(tmp_path: Path) -> Path:
    """Of the order job of the only driver; its offsets are there."""
    (found,) = (tmp_path / "work").glob("driver-*.d/inbox-checkpoint-0")
    assert list((found / "offsets").iterdir())
    return found


def test_a_frozen_leader_is_superseded_and_refused_when_it_wakes(
    root: QueueRoot, driver: Start
) -> None:
    sender = Sender(root)
    old = driver("one", "--crash-at", "order.data_written:2:stop").wait_state("order", "leading")
    new = driver("two").wait_state("order", "standby")
    sender.send(10)
    wait_ordered(root, sender.marks)
    sender.send(10)
    new.wait_state("order", "leading")
    wait_ordered(root, sender.marks)
    judge(root)
    before = log_rows(root)
    old.signal(signal.SIGCONT)
    assert old.wait_end() == Exit.FENCED, old.output()
    assert log_rows(root) == before
    sender.send(10)
    wait_ordered(root, sender.marks)
    judge(root)


def test_asked_to_stop_it_finishes_and_leaves_nothing_behind(
    root: QueueRoot, driver: Start, tmp_path: Path
) -> None:
    stale = tmp_path / "work" / "driver-one.dead.d" / "inbox-checkpoint-0" / "offsets"
    stale.mkdir(parents=True)
    (stale / "7").write_text("v1\nnot an offset of ours")
    sender = Sender(root)
    running = driver("one").wait_state("order", "leading")
    journal = ShardWriter.create(root, "journal", "c")
    fact = Fact(Kind.COMMITTED, "g", "orders", TopicId("t"), Partition(0), 0, Epoch(1), Offset(5))
    stamp = Stamp(wall_micros())
    journal.append(to_arrow([fact]), stamp)
    sender.send(30)
    wait_ordered(root, sender.marks)
    wait_for(lambda: read_group_offsets(root)[1].get(journal.name) == stamp, "folded")
    (state,) = read_group_offsets(root)[0].values()
    assert state.committed_offset == 5
    running.signal(signal.SIGTERM)
    assert running.wait_end() == Exit.STOPPED, running.output()
    assert running.state()["state"] == "stopped"
    assert not list((tmp_path / "work").glob("*.d"))
    judge(root)


@pytest.mark.parametrize("driver_bytes", [1 << 20, 0], ids=["driver writes", "executors write"])
def test_what_is_there_is_ordered_and_the_job_ends(
    root: QueueRoot, driver: Start, monkeypatch: pytest.MonkeyPatch, driver_bytes: int
) -> None:
    monkeypatch.setenv("LAKEQUEUE_ORDER__DRIVER_BATCH_BYTES", str(driver_bytes))
    sender = Sender(root)
    sender.send(30)
    job = driver("batch", "--available-now", module="jobs.order")
    assert job.wait_end() == Exit.STOPPED, job.output()
    judge(root)
