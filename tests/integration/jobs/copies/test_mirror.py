"""A replica on real tables: what it has, who may write it, and what it is once promoted."""

from __future__ import annotations

import os
import re
import shutil
import string
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from deltalake import DeltaTable

import lakequeue.duck
from jobs.command_line.options import Exit
from jobs.copies.kept_words import copy_entries, unless_promoted
from jobs.copies.mirror_copy import Mirror
from lakequeue.errors import CorruptTable, ReplicaPromoted, RootUnusable
from lakequeue.records import Offset, Partition
from lakequeue.settings import AccessSettings
from queue_access.registry import Entry, Registry
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.table import TableLog
from queue_tables.entries import AccessTable, must_be_locked
from queue_tables.files.parquet import read_data_file
from queue_tables.group_settings import GroupSettings, Setting
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import TOPICS
from queue_tables.topics import TopicStore
from queue_tables.upkeep.repair import repair_table
from tests.support.access.locked import Locks
from tests.support.data.deletion_vectors import delete_before_the_guard
from tests.support.data.log_builder import LogBuilder
from tests.support.data.order_truth import Inbox, log_rows
from tests.support.data.replicas import (
    NOW,
    SECRET,
    commit,
    fill,
    first_life,
    is_prefix,
    is_same,
    positions,
    second_life,
)
from tests.support.faults.foreign import take_guard_off
from tests.support.runs.erase_process import run_erase
from tests.support.runs.maintenance_process import run_compaction, run_retention
from tests.support.runs.mirror_process import run_job, run_mirror
from tests.support.runs.order_process import Orderer


@pytest.fixture
def to(tmp_path: Path) -> str:
    return str(tmp_path / "replica")


def replica_at(to: str) -> QueueRoot:
    return QueueRoot.existing(to, replica_too=True)


def test_a_replica_goes_along_with_a_queue_that_is_compacted_expired_and_erased(
    root: QueueRoot, to: str
) -> None:
    first_life(root)
    assert run_mirror(root, to).records == 12
    is_same(replica_at(to), root)
    second_life(root)
    report = run_mirror(root, to)
    assert (report.records, report.groups) == (21, True)
    is_same(replica_at(to), root)
    assert len({r["offset"] for r in DeltaTable(f"{to}/log").to_pyarrow_table().to_pylist()}) == 7
    (count,) = lakequeue.duck.connect(to).sql("SELECT count(*) FROM records").fetchall()[0]
    assert count == len(log_rows(root))


def test_values_that_were_erased_are_in_no_file_of_the_replica(root: QueueRoot, to: str) -> None:
    first_life(root)
    run_mirror(root, to)
    run_erase(root, "orders", "key = 'alice'", delete_now=True)
    run_erase(root, "visits", "key = 'alice'", delete_now=True)
    run_mirror(root, to, grace_hours=0)
    is_same(replica_at(to), root)
    files = [file.relative_to(Path(to, "log")) for file in Path(to, "log").rglob("*.parquet")]
    left = [f for f in files if not str(f).startswith("_")]
    values = [v for f in left for v in _values(replica_at(to), str(f))]
    assert len(values) == 12
    assert SECRET not in values


def _values(root: QueueRoot, path: str) -> list[bytes]:
    values: list[bytes] = read_data_file(root.store, "log", path)["value"].to_pylist()
    return values


def test_a_mirror_that_slept_past_retention_goes_on_where_the_source_begins(
    root: QueueRoot, to: str
) -> None:
    orders = TopicStore(root).create("orders", partitions=1, retention_ms=3_600_000 * 4)[0]
    fill(root, 1, 20, "ab", [orders])
    run_mirror(root, to)
    fill(root, 2, 10, "cd", [orders])
    fill(root, 3, 1, "ef", [orders])
    run_retention(root, NOW)
    assert [row["offset"] for row in log_rows(root)] == [4, 5]
    run_mirror(root, to)
    is_same(replica_at(to), root)


def test_a_file_with_old_and_new_records_comes_in_one_exchange(root: QueueRoot, to: str) -> None:
    orders = TopicStore(root).create("orders", partitions=1)[0]
    fill(root, 1, 20, "ab", [orders])
    run_mirror(root, to)
    fill(root, 2, 20, "cd", [orders])
    assert run_compaction(root, NOW)["log"]["files_after"] == 1
    report = run_mirror(root, to)
    assert (report.commits, report.records, report.files_removed) == (1, 2, 2)
    is_same(replica_at(to), root)


def test_a_mirror_beside_a_leader_and_maintenance_is_always_a_prefix(
    root: QueueRoot, to: str
) -> None:
    orders = first_life(root)
    errors: list[BaseException] = []
    mirrored = threading.Event()

    def live() -> None:
        try:
            for n in range(12):
                fill(root, n + 2, 7 - n / 2, string.ascii_letters[4 * n : 4 * n + 4], [orders])
                commit(root, orders, "billing", 4 + 4 * n)
                run_compaction(root, NOW)
        except BaseException as error:  # noqa: BLE001 -- raised in the test's thread
            errors.append(error)
        mirrored.set()

    life = threading.Thread(target=live)
    life.start()
    versions = set()
    while not mirrored.is_set():
        versions.add(run_mirror(root, to).version)
        is_prefix(replica_at(to), root)
    life.join(60)
    assert not errors
    assert len(versions) > 1
    run_mirror(root, to)
    is_same(replica_at(to), root)


def test_the_file_of_positions_that_a_run_replaces_stays_for_those_who_read_it(
    root: QueueRoot, to: str
) -> None:
    orders = first_life(root)
    run_mirror(root, to)
    reader = DeltaTable(f"{to}/group_offsets")
    commit(root, orders, "billing", 2)
    assert run_mirror(root, to).groups
    assert reader.to_pyarrow_table()["committed_offset"].to_pylist() == [1]
    reader.update_incremental()
    assert reader.to_pyarrow_table()["committed_offset"].to_pylist() == [2]


def test_nobody_else_writes_a_replica(root: QueueRoot, to: str) -> None:
    first_life(root)
    run_mirror(root, to)
    for open_root in (QueueRoot.open, QueueRoot.existing):
        with pytest.raises(RootUnusable, match="--promote"):
            open_root(to)
    other = QueueRoot.open(f"{to}-other")
    with pytest.raises(RootUnusable, match="replica of"):
        QueueRoot.replica(to, other)
    with pytest.raises(RootUnusable, match="never was"):
        QueueRoot.replica(other.uri, root)
    with pytest.raises(RootUnusable, match="itself"):
        QueueRoot.replica(root.uri, root)
    with pytest.raises(RootUnusable, match="not a replica"):
        run_job(root.uri, "--to", other.uri, "--promote")


def test_a_promoted_replica_goes_on_after_the_last_offset_and_the_source_by_itself(
    root: QueueRoot, to: str
) -> None:
    orders = first_life(root)
    commit(root, orders, "workers", 3, "queue")
    run_mirror(root, to)
    before = positions(root)
    assert run_job(root.uri, "--to", to, "--promote", "--dry-run")["promoted"] is False
    report = run_job(root.uri, "--to", to, "--promote")
    promoted = QueueRoot.open(to, create=False)
    assert report == {"queue_id": promoted.queue_id, "promoted": True}
    assert promoted.queue_id != root.queue_id

    again = Inbox(promoted, "elsewhere")
    known, new = "orders-0-a", "new"
    again.commit(
        NOW,
        [
            {"topic_id": orders.topic_id, "value": b"sent again", "message_id": known},
            {"topic_id": orders.topic_id, "value": b"new", "message_id": new},
        ],
    )
    TopicStore(promoted).alter("orders", dedup_window_ms=86_400_000)
    # The leases and epochs of the source are known: a lower one leads no more.
    (batch,) = Orderer(promoted, 9).drain()
    assert (batch["ordered"], batch["duplicates"]) == (1, 1)
    reader = LogReader(promoted)
    rows = reader.read_range(orders.topic_id, Partition(0), Offset(4), 10)
    assert rows.select(["offset", "value"]).to_pylist() == [{"offset": 4, "value": b"new"}]
    assert positions(promoted) == before

    fill(root, 2, 1, "z", [orders])
    assert reader.end_offset(orders.topic_id, Partition(0)) == 5
    with pytest.raises(RootUnusable, match="any more"):
        run_mirror(root, to)
    assert run_job(root.uri, "--to", to, "--promote") == report


def test_a_promoted_replica_is_as_locked_as_its_source(root: QueueRoot, to: str) -> None:
    first_life(root)
    made = Locks(root).lock()
    made.may("ada", "read", "topic", "*")
    GroupSettings(root).change(lambda _: [Setting("webhook", "audit", "{}")], "test")
    did = run_job(root.uri, "--to", to)
    assert (did["entries"], did["settings"]) == (len(AccessTable(root).entries()), 1)
    made.revoke("ada")
    assert run_job(root.uri, "--to", to)["entries"] == 1
    run_job(root.uri, "--to", to, "--promote")
    must_be_locked(to, "0.0.0.0", AccessSettings())
    assert principals(QueueRoot.existing(to)) == ["admin"]
    assert ("webhook", "audit") in GroupSettings(QueueRoot.existing(to)).read()


def test_a_mirror_that_was_frozen_brings_no_key_into_what_was_promoted(
    root: QueueRoot, to: str
) -> None:
    first_life(root)
    made = Locks(root).lock()
    run_job(root.uri, "--to", to)
    replica, entries = replica_at(to), AccessTable(root).entries()
    made.may("late", "read", "topic", "*")
    looks = 0

    def judge(_: Registry) -> Sequence[Entry]:
        nonlocal looks
        looks += 1
        if looks == 1:
            # It has looked, and is frozen right before its commit.
            run_job(root.uri, "--to", to, "--promote")
            return entries
        return unless_promoted(replica, entries)

    with pytest.raises(ReplicaPromoted):
        AccessTable(replica).change(judge, "test")
    with pytest.raises(ReplicaPromoted):
        copy_entries(root, replica, "test")
    assert looks == 2
    assert principals(QueueRoot.existing(to)) == ["admin"]


def principals(root: QueueRoot) -> list[str]:
    return [key.principal for key in AccessTable(root).registry().keys.values()]


def test_the_job_says_what_it_would_do_and_does_it(root: QueueRoot, to: str) -> None:
    first_life(root)
    would = run_job(root.uri, "--to", to, "--dry-run")
    assert not Path(to).exists()
    did = run_job(root.uri, "--to", to)
    assert (would["records"], would["version"]) == (did["records"], did["version"]) == (12, 5)
    assert run_job(root.uri, "--to", to, "--dry-run")["files_copied"] == 0
    assert run_job(root.uri, "--to", to)["commits"] == 0


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["--grace-hours", "99"], Exit.USAGE, "0 to 24"),
        (["--root", "nowhere"], Exit.UNUSABLE, "no queue"),
        (["--promote"], Exit.UNUSABLE, "no queue"),
    ],
)
def test_exit_codes_tell_what_is_wrong(
    root: QueueRoot, to: str, args: list[str], code: Exit, says: str
) -> None:
    command = [sys.executable, "-m", "jobs.mirror", "--root", root.uri, "--to", to, *args]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == code
    assert says in done.stderr


def test_a_file_that_is_gone_and_a_replica_without_tables_are_named(
    root: QueueRoot, to: str
) -> None:
    first_life(root)
    run_mirror(root, to)
    shutil.rmtree(Path(to, "log"))
    with pytest.raises(RootUnusable, match="without tables"):
        run_job(root.uri, "--to", to, "--promote")
    lost = next(iter(load_snapshot(root.store, "log").files))
    root.store.delete(f"log/{lost}")
    with pytest.raises(CorruptTable, match=re.escape(Path(lost).name)):
        run_mirror(root, f"{to}-2")


def test_replaced_files_stay_for_the_grace_that_is_given(
    root: QueueRoot, to: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_life(root)
    run_mirror(root, to)
    old = [Path(to, "log", path) for path in load_snapshot(replica_at(to).store, "log").files]
    run_compaction(root, NOW)
    seven_hours_ago = time.time() - 7 * 3_600
    with monkeypatch.context() as then:
        then.setattr("jobs.copies.mirror_copy._now_ms", lambda: int(seven_hours_ago * 1_000))
        assert Mirror(root, replica_at(to), 1 << 30).run().files_removed == len(old)
    for file in old:
        os.utime(file, (seven_hours_ago, seven_hours_ago))
    run_mirror(root, to, grace_hours=24)
    assert all(file.exists() for file in old)
    run_mirror(root, to, grace_hours=6)
    assert not any(file.exists() for file in old)


def test_rows_that_a_deletion_vector_hides_in_the_source_are_not_in_the_replica(
    root: QueueRoot, to: str
) -> None:
    log = LogBuilder(root)
    topic = log.topic()
    log.append(topic, list("0123456789"))
    delete_before_the_guard(root.store, "log", [2, 3])
    source = QueueRoot.open(root.uri)
    assert run_mirror(source, to).records == 10
    rows = LogReader(replica_at(to)).read_range(topic.topic_id, Partition(0), Offset(0), 10)
    assert rows["offset"].to_pylist() == [0, 1, 4, 5, 6, 7, 8, 9]
    assert not any(
        add.deletion_vector for add in load_snapshot(replica_at(to).store, "log").files.values()
    )


def test_what_was_repaired_in_the_source_says_nothing_of_the_replica(
    root: QueueRoot, to: str
) -> None:
    topics = TopicStore(root)
    topics.create("orders")
    for _ in range(9):
        TableLog(root.store, "topics").open().commit([])
    take_guard_off(root.store, "topics")
    assert repair_table(root, "topics", TOPICS, execute=True).done
    run_mirror(root, to)
    store = replica_at(to).store
    replica = TableLog(store, "topics").open()
    take_guard_off(store, "topics")
    assert replica.refresh()
    assert not replica.is_settled
