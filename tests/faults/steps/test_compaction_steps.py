"""The compaction job is killed at each of its steps: no reader minds, and the next run ends it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakequeue.clock import wall_micros
from lakequeue.records import Offset, Partition
from lakequeue.steps import Step
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.tail import Tail, commit_versions
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore
from queue_tables.upkeep.delta_rs import checkpoint_table
from tests.support.data.order_truth import Inbox, judge
from tests.support.kinds import one_now
from tests.support.runs.maintenance_process import run_compaction, start
from tests.support.runs.order_process import Orderer

HOUR = 3_600 * 1_000_000
NOW = wall_micros() + 3 * HOUR
CRASHES = [
    *(step for step in Step if step.startswith("compaction.")),
    *(f"{step}:4" for step in (Step.VACUUM_REMOVING, Step.UPKEEP_CLEANING)),
    f"{Step.COMPACTION_DATA_WRITTEN}:2",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hours of small files, and commits that checkpoints could stand for."""
    folder = tmp_path_factory.mktemp("made") / "queue"
    root = QueueRoot.open(str(folder))
    topics = TopicStore(root)
    first, second = (topics.create(name, partitions=1)[0] for name in ("orders", "visits"))
    inbox = Inbox(root, "n")
    now = NOW - 9 * HOUR
    orderer = Orderer(root, 1, wall=lambda: now)
    for n in range(8):
        now += HOUR // 4
        records = [{"topic_id": t.topic_id, "value": b"%d" % n} for t in (first, second)]
        inbox.commit(now, records)
        orderer.drain()
    checkpoint_table(root, "log")
    for n in range(500):
        topics.alter("visits", retention_ms=10**9 + n)
    return folder


@pytest.fixture
def queue(made: Path, tmp_path: Path) -> tuple[QueueRoot, Topic, Inbox]:
    """A copy of it for each test."""
    shutil.copytree(made, tmp_path / "queue")
    root = QueueRoot.open(str(tmp_path / "queue"))
    return root, TopicStore(root).get("orders"), Inbox(root, "later")


def compaction_process(root: QueueRoot, *args: str) -> int:
    return start("compaction", root, NOW, "--no-grace", *args).wait(110)


def read(reader: LogReader, topic: Topic) -> list[bytes]:
    reader.refresh()
    rows = reader.read_range(topic.topic_id, Partition(0), Offset(0), 100)
    values: list[bytes] = rows["value"].to_pylist()
    return values


@pytest.mark.parametrize("crash", one_now(CRASHES))
def test_killed_at_a_step_every_reader_goes_on_and_the_next_run_ends_it(
    queue: tuple[QueueRoot, Topic, Inbox], crash: str
) -> None:
    root, topic, inbox = queue
    live = LogReader(root)
    tail = Tail(root.store, "log", live.version)
    assert compaction_process(root, "--crash-at", crash) == -9
    for reader in (live, LogReader(root)):
        assert read(reader, topic) == [b"%d" % n for n in range(8)]
    inbox.commit(NOW, [{"topic_id": topic.topic_id, "value": b"8"}])
    assert [batch["ordered"] for batch in Orderer(root, 2).drain()] == [1]
    run_compaction(root, NOW, grace_hours=0)
    assert [c.info["rows"] for c in tail.poll() if c.appends] == [1]
    for reader in (live, LogReader(root)):
        assert read(reader, topic) == [b"%d" % n for n in range(9)]
    judge(root)
    assert TopicStore(root).get("visits").retention_ms == 10**9 + 499
    files = load_snapshot(root.store, "log").files
    assert len(files) == 2 * 3 + 1 or len(files) == 2 * 2 + 1
    on_disk = {str(p.relative_to(root.uri)) for p in Path(root.uri, "log").glob("hour=*/*.parquet")}
    assert on_disk == {f"log/{path}" for path in files}
    assert commit_versions(root.store, "log")[0] > 0
    assert len(commit_versions(root.store, "topics")) <= 2
