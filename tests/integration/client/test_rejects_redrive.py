"""Rejected records are sent again: what their topic takes, each once, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakequeue import Admin
from lakequeue.records import ShardName
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import WATERMARKS
from queue_tables.schema.schemas import INBOX
from tests.support.command import lakequeue
from tests.support.data.foreign_shard import ForeignShard, records
from tests.support.data.order_truth import log_rows, reject_rows
from tests.support.services.small_cluster import Cluster
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.timeout(200)
STAMP = 1_700_000_000_000_000


def wait_until_ordered(root: QueueRoot, shard: str, stamp: int) -> None:
    mark = WATERMARKS.name(ShardName(shard))
    wait_for(lambda: LogMarks(root).read(mark).get(mark, 0) >= stamp, every_s=0.1)


def redrive(cluster: Cluster, *args: str, code: int = 0) -> dict[str, Any]:
    where = ("--root", cluster.queue.root.uri, "--url", cluster.ingest_url)
    done = lakequeue("rejects", "redrive", "--json", *args, *where)
    assert done.returncode == code, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def counted(cluster: Cluster, *args: str, code: int = 0) -> tuple[int, int, int]:
    found = redrive(cluster, *args, code=code)
    return found["sent"], found["there"], found["refused"]


def values_of(root: QueueRoot, topic: str) -> list[bytes]:
    return sorted(r["value"] for r in log_rows(root) if r["topic"] == topic)


@pytest.fixture
def rejected(own_cluster: Cluster) -> Cluster:
    """Of topic `late`: five rows whose message ids are no UTF-8, one of them JSON, one bytes; one
    of a partition that is not there; and one that is ordered."""
    cluster = own_cluster
    topic_id = cluster.ingest.create("late", partitions=1)["topic_id"]
    rows = records(
        topic_id,
        STAMP,
        [b"text", b'{"n":12345678901234567890.10}', b"\xff\x00", b"4", b"fine", b"far"],
    )
    ids = pa.array([b"\xfe0", b"\xfe1", b"\xfe2", b"\xfe3", b"ok", b"p"], pa.binary())
    changed = {
        "message_id": ids.view(pa.string()),
        "value_format": pa.array([0, 2, 1, 0, 0, 0], pa.int32()),
        "partition": pa.array([0, 0, 0, 0, 0, 7], pa.int32()),
    }
    for name, column in changed.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, INBOX.arrow.field(at), column)
    shard = ForeignShard(cluster.queue.root)
    shard.commit(STAMP, rows)
    wait_until_ordered(cluster.queue.root, shard.name, STAMP)
    return cluster


def test_what_would_be_taken_now_is_sent_once_and_the_rest_is_named(rejected: Cluster) -> None:
    root = rejected.queue.root
    told = redrive(rejected, code=1)
    assert (told["execute"], told["sent"], told["refused"]) == (False, 4, 1)
    assert "partition 7" in told["records"][0]["why"]
    assert told["records"][0]["row"] == 5
    assert values_of(root, "late") == [b"fine"], "nothing is sent unless one says so"

    assert counted(rejected, "--execute", code=1) == (4, 0, 1)
    wanted = [b"4", b"\xff\x00", b"fine", b"text", b'{"n":12345678901234567890.10}']
    assert values_of(root, "late") == sorted(wanted)
    formats = {r["value"]: r["value_format"] for r in log_rows(root) if r["topic"] == "late"}
    assert formats[b'{"n":12345678901234567890.10}'] == 2
    assert formats[b"\xff\x00"] == 0, "it said that it is text"
    # Again, it sends nothing: also when the ids are long out of the window of duplicates.
    assert counted(rejected, "--execute", code=1) == (0, 4, 1)
    assert counted(rejected, code=1) == (0, 4, 1)
    assert values_of(root, "late") == sorted(wanted)
    assert len([r for r in reject_rows(root) if r["reason"] == "duplicate"]) == 0
    offsets = [r["offset"] for r in log_rows(root) if r["topic"] == "late"]
    assert sorted(offsets) == list(range(5))


def test_a_record_of_a_partition_that_is_gone_goes_where_its_key_belongs(rejected: Cluster) -> None:
    only = ("--reason", "partition_gone", "--to", "out")
    assert counted(rejected, *only) == (1, 0, 0)
    assert counted(rejected, *only, "--execute") == (1, 0, 0)
    assert values_of(rejected.queue.root, "out") == [b"far"]
    assert counted(rejected, *only, "--execute") == (0, 1, 0)


def test_what_the_topic_does_not_take_is_refused(rejected: Cluster) -> None:
    with Admin(rejected.ingest_url) as admin:
        admin.alter_topic("late", max_record_bytes=20)
    found = redrive(rejected, "--reason", "malformed", "--execute", code=1)
    assert (found["sent"], found["refused"]) == (3, 1)
    assert "20" in found["records"][0]["why"]
    with Admin(rejected.ingest_url) as admin:
        admin.alter_topic("late", max_record_bytes=2_000)
    assert counted(rejected, "--reason", "malformed", "--execute") == (1, 3, 0)


def test_a_record_without_a_topic_needs_one(rejected: Cluster) -> None:
    with Admin(rejected.ingest_url) as admin:
        topic_id = admin.create_topic("short")[0].topic_id
        admin.delete_topic("short")
    shard = ForeignShard(rejected.queue.root, "second")
    shard.commit(STAMP + 1, records(topic_id, STAMP + 1, [b"lost"]))
    wait_until_ordered(rejected.queue.root, shard.name, STAMP + 1)
    only = ("--reason", "topic_gone", "--execute")
    assert "--to" in redrive(rejected, *only, code=1)["records"][0]["why"]
    assert counted(rejected, *only, "--to", "in") == (1, 0, 0)


@pytest.mark.parametrize("reason", ["duplicate", "no_record", "unreadable"])
def test_what_is_no_missing_record_is_not_sent(tmp_path: Path, reason: str) -> None:
    root = QueueRoot.open(str(tmp_path / "queue"))
    args = ["rejects", "redrive", "--reason", reason, "--root", root.uri]
    done = lakequeue(*args)
    assert done.returncode != 0
    assert "is not a missing record" in done.stderr


def test_records_go_to_no_other_queue(rejected: Cluster, tmp_path: Path) -> None:
    other = QueueRoot.open(str(tmp_path / "other"))
    args = ["rejects", "redrive", "--execute", "--root", other.uri, "--url", rejected.ingest_url]
    done = lakequeue(*args)
    assert done.returncode != 0
    assert "serves another queue" in done.stderr
