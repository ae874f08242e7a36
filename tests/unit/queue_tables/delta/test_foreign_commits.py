"""What other engines commit to a guarded table does not count, and a repair undoes it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from lakequeue.errors import ShardSealed
from lakequeue.records import Stamp
from queue_tables.delta.actions import (
    Action,
    Add,
    CommitInfo,
    Metadata,
    Protocol,
    Txn,
    commit_path,
    encode,
)
from queue_tables.delta.guard import FOREIGN_TXN, GUARDED, REPAIRED_TXN
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.store import ObjectStore
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX, LOG, METRICS, TOPICS
from queue_tables.shards.shards import SEALED, ShardWriter, is_sealed, seal_shard
from queue_tables.topics import TopicStore
from queue_tables.upkeep import health
from queue_tables.upkeep.health import look, troubles_of
from queue_tables.upkeep.repair import repair_table
from tests.support.data.deletion_vectors import delete_before_the_guard
from tests.support.data.log_builder import LogBuilder
from tests.support.data.rows import rows_of
from tests.support.faults.foreign import as_of_earlier_release, take_guard_off

VECTOR = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}


@pytest.fixture
def root() -> QueueRoot:
    return QueueRoot.over(ObjectStore.in_memory())


def commit_foreign(root: QueueRoot, table: str, *actions: Action) -> int:
    """As Spark or delta-rs commits, once the guard is off."""
    version = TableLog(root.store, table).open().version + 1
    info = CommitInfo(engine="Apache-Spark/4.2.0 Delta-Lake/4.4.0", operation="OPTIMIZE")
    root.store.put_new(commit_path(table, version), encode([info, *actions]))
    return version


def seen(root: QueueRoot, table: str) -> dict[str, Add]:
    """The files as a reader of Delta sees them."""
    return load_snapshot(root.store, table, every_engine=True).files


def offsets_in(root: QueueRoot) -> list[int]:
    """Of `log`, in the order of files, as the queue reads it."""
    files = TableLog(root.store, "log").open().files
    rows = [read_data_file(root.store, "log", path) for path in files]
    return [n for one in rows for n in one["offset"].to_pylist()]


@pytest.fixture
def log(root: QueueRoot) -> LogBuilder:
    """Ten records in two files, and the guard is off."""
    log = LogBuilder(root)
    topic = log.topic()
    log.append(topic, [str(n) for n in range(5)])
    log.append(topic, [str(n) for n in range(5, 10)])
    take_guard_off(root.store, "log")
    return log


def test_files_that_are_taken_out_still_count_and_come_back(
    root: QueueRoot, log: LogBuilder
) -> None:
    running = TableLog(root.store, "log").open()
    files = dict(running.files)
    deleted, kept = files.values()
    version = commit_foreign(root, "log", deleted.removal(1))
    assert [(c.foreign, c.removes) for c in running.refresh()] == [(True, ())]
    restarted = TableLog(root.store, "log").open()
    assert running.files == restarted.files == files
    assert list(seen(root, "log")) == [kept.path]
    # The queue goes on; its next commit guards the table, and notes what was met.
    assert running.commit([]) == version + 1
    assert (running.protocol, running.txns[FOREIGN_TXN]) == (GUARDED, version)

    [trouble] = troubles_of(root.store, "log", LOG)
    assert trouble.stops is False
    assert f"version {version} (Apache-Spark/4.2.0 Delta-Lake/4.4.0: OPTIMIZE" in trouble.what
    dry = repair_table(root, "log", LOG, execute=False)
    assert dry.done is False
    assert [a.path for a in dry.ins] == [deleted.path]
    assert running.refresh() == []

    assert repair_table(root, "log", LOG, execute=True).done
    assert running.refresh()[0].appends is False
    assert set(seen(root, "log")) == set(running.files) == set(files)
    assert running.txns[REPAIRED_TXN] == version
    assert look(root) == []
    assert repair_table(root, "log", LOG, execute=True).steps == []


def test_files_that_are_brought_do_not_count_and_go(root: QueueRoot, log: LogBuilder) -> None:
    table = TableLog(root.store, "log").open()
    rows = read_data_file(root.store, "log", next(iter(table.files)))
    hour = next(iter(table.files.values())).partition_values["hour"] or ""
    copy = write_data_file(root.store, "log", rows, {"hour": hour}, LOG)
    commit_foreign(root, "log", copy)
    assert offsets_in(root) == list(range(10))
    assert copy.path in seen(root, "log")
    assert repair_table(root, "log", LOG, execute=True).done
    assert copy.path not in seen(root, "log")


def test_deletion_vectors_hide_nothing_from_the_queue(root: QueueRoot, log: LogBuilder) -> None:
    table = TableLog(root.store, "log").open()
    first = next(iter(table.files.values()))
    on = Protocol(3, 7, ("deletionVectors",), ("deletionVectors",))
    marked = replace(first, deletion_vector=VECTOR)
    commit_foreign(root, "log", on)
    commit_foreign(root, "log", first.removal(1), marked)
    assert offsets_in(root) == list(range(10))
    table.refresh()
    table.commit([])
    assert table.protocol == GUARDED or "deletionVectors" in (table.protocol.reader_features or ())
    assert repair_table(root, "log", LOG, execute=True).done
    assert seen(root, "log")[first.path].deletion_vector is None
    assert TableLog(root.store, "log").open().protocol == GUARDED


def test_when_the_old_files_are_deleted_the_rows_of_the_new_ones_are_put_in_order(
    root: QueueRoot, log: LogBuilder
) -> None:
    table = TableLog(root.store, "log").open()
    old = list(table.files.values())
    hour = old[0].partition_values["hour"] or ""
    rows = pa.concat_tables([read_data_file(root.store, "log", add.path) for add in old])
    shuffled = rows.take(pa.array([7, 3, 3, 1, 0, 9, 8, 5, 6, 4, 2]))
    new = write_data_file(root.store, "log", shuffled, {"hour": hour}, LOG)
    commit_foreign(root, "log", *(add.removal(1) for add in old), new)
    for add in old:
        root.store.delete(f"log/{add.path}")
    report = repair_table(root, "log", LOG, execute=True)
    assert (report.done, report.lost) == (True, [])
    assert offsets_in(root) == list(range(10))
    assert seen(root, "log").keys() == TableLog(root.store, "log").open().files.keys()


def test_rows_that_are_nowhere_any_more_are_counted(root: QueueRoot, log: LogBuilder) -> None:
    table = TableLog(root.store, "log").open()
    first, _ = table.files.values()
    commit_foreign(root, "log", first.removal(1))
    root.store.delete(f"log/{first.path}")
    report = repair_table(root, "log", LOG, execute=True)
    assert report.lost == ["5 rows are in no file any more"]
    assert offsets_in(root) == list(range(5, 10))


def test_files_from_before_the_guard_are_named_and_written_anew(root: QueueRoot) -> None:
    log = LogBuilder(root)
    topic = log.topic()
    log.append(topic, ["0", "1", "2", "3"])
    as_of_earlier_release(root.store, "log")
    [(path, add)] = TableLog(root.store, "log").open().files.items()
    rows = read_data_file(root.store, "log", path).take(pa.array([2, 1, 3, 0, 3]))
    hour = add.partition_values["hour"] or ""
    other = f"hour={hour}/part-00000-abc.c000.zstd.parquet"
    new = write_data_file(root.store, "log", rows, {"hour": hour}, LOG, path=other)
    commit_foreign(root, "log", add.removal(1), new)
    QueueRoot.over(root.store)
    [trouble] = look(root)
    assert trouble.what == f"1 files were written by another engine, {other} among them"
    assert repair_table(root, "log", LOG, execute=True).done
    assert look(root) == []
    assert offsets_in(root) == [0, 1, 2, 3]


def test_a_topic_that_somebody_deletes_from_the_table_goes_on(root: QueueRoot) -> None:
    topics = TopicStore(root)
    topics.create("orders", partitions=2)
    take_guard_off(root.store, "topics")
    files = TableLog(root.store, "topics").open().files.values()
    commit_foreign(root, "topics", *(add.removal(1) for add in files))
    topics.refresh()
    assert (
        [t.topic for t in topics.list()] == [t.topic for t in TopicStore(root).list()] == ["orders"]
    )
    topics.alter("orders", partitions=3)
    assert repair_table(root, "topics", TOPICS, execute=True).done
    assert len(seen(root, "topics")) == 2


def test_properties_and_columns_of_others_go_with_the_repair(root: QueueRoot) -> None:
    take_guard_off(root.store, "topics")
    old = TableLog(root.store, "topics").open().metadata
    on = replace(old, configuration={"delta.enableRowTracking": "true"})
    commit_foreign(root, "topics", on)
    commit_foreign(root, "topics", Protocol(1, 7, None, ("domainMetadata", "rowTracking")))
    [_, *steps] = [str(trouble) for trouble in troubles_of(root.store, "topics", TOPICS)]
    assert any("rowTracking" in step for step in steps)
    assert repair_table(root, "topics", TOPICS, execute=True).done
    repaired = TableLog(root.store, "topics").open()
    assert (repaired.protocol, repaired.metadata) == (GUARDED, old)
    assert look(root) == []


def test_an_unreadable_feature_is_named_and_repaired(root: QueueRoot) -> None:
    take_guard_off(root.store, "metrics")
    commit_foreign(root, "metrics", Protocol(3, 7, ("anew",), ("anew",)))
    [trouble] = look(root)
    assert trouble.stops
    assert "anew" in trouble.what
    assert "lakequeue repair" in trouble.remedy
    assert repair_table(root, "metrics", METRICS, execute=True).done
    assert QueueRoot.over(root.store).damaged == {}


def test_what_others_did_before_the_guard_is_part_of_the_table(root: QueueRoot) -> None:
    store = root.store
    first = CommitInfo(operation="CREATE TABLE")
    old = Metadata("id", TableLog(store, "topics").open().metadata.schema_string)
    store.put_new(commit_path("old", 0), encode([first, Protocol(1, 2), old]))
    store.put_new(commit_path("old", 1), encode([CommitInfo(engine="delta-rs"), Add("a", 1)]))
    log = TableLog(store, "old").open()
    assert list(log.files) == ["a"]
    assert log.put_guard()
    assert list(TableLog(store, "old").open().files) == ["a"]
    assert TableLog(store, "old").open().is_settled


def test_a_commit_that_does_not_say_who_made_it_does_not_count(
    root: QueueRoot, log: LogBuilder
) -> None:
    table = TableLog(root.store, "log").open()
    first = next(iter(table.files.values()))
    path = commit_path("log", table.version + 1)
    root.store.put_new(path, encode([first.removal(1)]))
    table.refresh()
    assert offsets_in(root) == list(range(10))
    assert len(table.files) == 2


def test_a_commit_that_has_done_nothing_leaves_nothing_to_repair(root: QueueRoot) -> None:
    table = TableLog(root.store, "log").open()
    started = CommitInfo(engine="delta-rs", operation="VACUUM START")
    root.store.put_new(commit_path("log", table.version + 1), encode([started]))
    table.refresh()
    table.commit([])
    assert table.is_settled
    assert TableLog(root.store, "log").open().is_settled
    assert look(root) == []


def test_foreign_commits_are_told_of_however_many_of_the_queue_come_behind(
    root: QueueRoot, log: LogBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_MOST_LOOKED", 3)
    table = TableLog(root.store, "log").open()
    first = next(iter(table.files.values()))
    version = commit_foreign(root, "log", first.removal(1))
    table.refresh()
    for _ in range(5):
        table.commit([])
    [trouble] = troubles_of(root.store, "log", LOG)
    assert f"version {version} (" in trouble.what


def test_what_is_marked_and_cannot_be_told_any_more_is_settled(
    root: QueueRoot, log: LogBuilder
) -> None:
    table = TableLog(root.store, "log").open()
    commit_foreign(root, "log", Txn("theirs", 1))
    table.refresh()
    table.commit([])
    assert not table.is_settled
    assert repair_table(root, "log", LOG, execute=True).done
    table.refresh()
    assert table.is_settled


def test_a_sealed_shard_stays_sealed_if_another_engine_restores_it(root: QueueRoot) -> None:
    owner = ShardWriter.create(root, "inbox", "n1")
    path = owner.path
    before = TableLog(root.store, path).open().metadata
    seal_shard(root, "inbox", owner.name)
    take_guard_off(root.store, path)
    commit_foreign(root, path, before)
    assert is_sealed(root, "inbox", owner.name)
    with pytest.raises(ShardSealed):
        owner.append(rows_of(INBOX, {"value": [b"v"]}, ("hour", "stamp", "row")), Stamp(1))
    assert repair_table(root, path, INBOX, execute=True).done
    seen = load_snapshot(root.store, path, every_engine=True)
    assert seen.configuration[SEALED] == "true"
    assert seen.protocol == GUARDED


def test_a_topic_that_a_deletion_vector_hides_is_gone(root: QueueRoot) -> None:
    TopicStore(root).create("orders")
    delete_before_the_guard(root.store, "topics", [0])
    assert TopicStore(QueueRoot.over(root.store)).list() == []


def test_rows_of_a_file_that_comes_back_are_not_written_anew_as_well(root: QueueRoot) -> None:
    topics = TopicStore(root)
    topics.create("orders")
    topics.create("bills")
    take_guard_off(root.store, "topics")
    old = list(TableLog(root.store, "topics").open().files.values())
    rows = pa.concat_tables([read_data_file(root.store, "topics", add.path) for add in old])
    new = write_data_file(root.store, "topics", rows, {}, TOPICS)
    commit_foreign(root, "topics", *(add.removal(1) for add in old), new)
    root.store.delete(f"topics/{old[0].path}")
    report = repair_table(root, "topics", TOPICS, execute=True)
    assert (report.done, report.lost) == (True, [])
    files = TableLog(root.store, "topics").open().files
    names = [n for f in files for n in read_data_file(root.store, "topics", f)["topic"].to_pylist()]
    assert sorted(names) == ["bills", "orders"]
