"""The retention job is killed at each of its steps: no reader minds, and the next run ends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakequeue.clock import wall_micros
from lakequeue.records import Epoch, Offset, Partition, Stamp
from lakequeue.steps import Step
from queue_tables.delta.table import TableLog
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Kind, States
from queue_tables.groups.state import read_group_state
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from queue_tables.shards.shards import (
    ShardWriter,
    fence_shard,
    highest_stamp,
    seal_shard,
    shard_path,
)
from queue_tables.topics import TopicStore
from queue_tables.upkeep.delta_rs import checkpoint_table
from tests.support.data.order_truth import Inbox, rows_in
from tests.support.kinds import one_now
from tests.support.runs.fold_process import Folder
from tests.support.runs.maintenance_process import run_retention, start
from tests.support.runs.order_process import Orderer

HOUR = 3_600 * 1_000_000
NOW = wall_micros() + 2 * HOUR
OLD = NOW - 9 * 24 * HOUR
CRASHES = [
    *(step for step in Step if step.startswith("retention.")),
    *(f"{Step.SHARD_LOG_REMOVING}:{n}" for n in range(2, 9)),
    f"{Step.SHARD_DATA_REMOVED}:2",
]


@pytest.fixture
def topic(tmp_path: Path) -> tuple[QueueRoot, Topic]:
    """A queue in which something of each kind can go: log, rejects, rows and whole shards."""
    root = QueueRoot.open(str(tmp_path / "queue"))
    topic = TopicStore(root).create("orders", partitions=1, retention_ms=86_400_000)[0]
    record = {"topic_id": topic.topic_id, "value": b"old", "message_id": "m"}
    gone, live = Inbox(root, "gone"), Inbox(root, "live")
    gone.commit(OLD, [record])
    checkpoint_table(root, shard_path("inbox", gone.name))
    live.commit(OLD + HOUR, [record | {"message_id": "n"}])
    live.commit(OLD + HOUR + 1, [record])
    Orderer(root, 1, wall=lambda: OLD + 2 * HOUR).drain()
    live.commit(NOW - 2 * HOUR, [record | {"value": b"new", "message_id": "o"}])
    Orderer(root, 2).drain()
    # Two commits behind a checkpoint: without the first of them it does not stand for the table.
    fence_shard(root, gone.name, [("g", topic.topic_id, 0, 1)], "inbox")
    seal_shard(root, "inbox", gone.name)
    journal = ShardWriter.create(root, "journal", "c")
    fact = Fact(Kind.COMMITTED, "g", "orders", topic.topic_id, Partition(0), 0, Epoch(1), Offset(2))
    journal.append(to_arrow([fact]), Stamp(OLD))
    Folder(root, 1).drain()
    seal_shard(root, "journal", journal.name)
    return root, topic


def retention_process(root: QueueRoot, *args: str) -> int:
    return start("retention", root, NOW, *args).wait(110)


def seen(root: QueueRoot, topic: Topic) -> tuple[States, list[bytes]]:
    """What consumers go by: the groups, and what can be read from the first offset on."""
    reader = LogReader(root)
    first = reader.first_offset(topic.topic_id, Partition(0))
    rows = reader.read_range(topic.topic_id, Partition(0), first, 100)
    return read_group_state(root).states, rows["value"].to_pylist()


@pytest.mark.parametrize("crash", one_now(CRASHES))
def test_killed_at_a_step_every_reader_goes_on_and_the_next_run_ends_it(
    topic: tuple[QueueRoot, Topic], crash: str
) -> None:
    root, orders = topic
    groups, everything = seen(root, orders)
    assert retention_process(root, "--crash-at", crash) == -9
    states, values = seen(root, orders)
    assert states == groups
    assert values in (everything, [b"new"])
    assert highest_stamp(root, "inbox", "gone") in {0, OLD}
    late = Inbox(root, "late")
    late.commit(NOW, [{"topic_id": orders.topic_id, "value": b"later", "message_id": "p"}])
    assert [batch["ordered"] for batch in Orderer(root, 3).drain()] == [1]
    run_retention(root, NOW)
    assert seen(root, orders) == (groups, [b"new", b"later"])
    assert rows_in(root, "rejects") == []
    assert [shard.split("-")[0] for shard in root.shards("inbox")] == ["late", "live"]
    assert root.shards("journal") == []
    assert sorted(p.name.split("-")[0] for p in Path(root.uri, "inbox").iterdir()) == [
        "late",
        "live",
    ]
    for shard in root.shards("inbox"):
        table = TableLog(root.store, shard_path("inbox", shard)).open()
        folder = Path(root.uri, table.path)
        kept = {str(file.relative_to(folder)) for file in folder.rglob("*.parquet")}
        assert {path for path in kept if not path.startswith("_")} == table.files.keys()
    again = run_retention(root, NOW)
    assert again["log"]["files_removed"] == again["inbox"]["files_removed"] == 0
    assert again["inbox"]["shards_removed"] == again["journal"]["shards_removed"] == []


def test_two_runs_at_once_do_it_once(topic: tuple[QueueRoot, Topic]) -> None:
    root, orders = topic
    groups, _ = seen(root, orders)
    runs = [start("retention", root, NOW) for _ in range(3)]
    assert [run.wait(110) for run in runs] == [0, 0, 0]
    assert seen(root, orders) == (groups, [b"new"])
    assert [shard.split("-")[0] for shard in root.shards("inbox")] == ["live"]
