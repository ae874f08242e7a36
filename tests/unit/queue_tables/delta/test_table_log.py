"""Commits at exactly the next version: conflicts, and outcomes that are unknown at first."""

from __future__ import annotations

import pytest

from lakequeue.errors import (
    CommitConflict,
    CorruptTable,
    SchemaDrift,
    StorageFull,
    StorageUnavailable,
)
from queue_tables.delta.actions import (
    Add,
    CommitInfo,
    Metadata,
    Protocol,
    Remove,
    Txn,
    commit_path,
    encode,
)
from queue_tables.delta.declared import verify_schema
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.store import ObjectStore, Store
from queue_tables.delta.table import TableLog, create_table
from queue_tables.schema.schemas import LOG, TOPICS
from tests.support.faults.faulty_store import Fault, FaultyStore


@pytest.fixture
def store() -> FaultyStore:
    faulty = FaultyStore(ObjectStore.in_memory())
    create_table(faulty, "t", TOPICS)
    return faulty


def lost(inner: Store, path: str, data: bytes) -> None:
    """The request never arrives."""
    raise StorageUnavailable("connection reset")


def landed(inner: Store, path: str, data: bytes) -> None:
    """The request arrives, its answer does not."""
    inner.put_new(path, data)
    raise StorageUnavailable("timed out")


def retried_by_the_client(inner: Store, path: str, data: bytes) -> None:
    """The client library sends twice, and reports the second answer."""
    inner.put_new(path, data)
    raise FileExistsError(path)


def foreign(inner: Store, path: str, data: bytes) -> None:
    """Another process commits first, and our request gets no answer."""
    inner.put_new(path, encode([CommitInfo(), Txn("theirs", 1)]))
    raise StorageUnavailable("timed out")


def full(inner: Store, path: str, data: bytes) -> None:
    raise StorageFull("no space left")


def test_a_commit_lands_at_the_next_version_and_is_seen_at_once(store: FaultyStore) -> None:
    log = TableLog(store, "t").open()
    assert log.version == 0
    assert log.commit([Txn("a", 1), Add("x", 1)], {"stamp": 5}) == 1
    assert log.txns == {"a": 1}
    assert list(log.files) == ["x"]
    again = TableLog(store, "t").open()
    assert (again.version, again.txns, list(again.files)) == (1, {"a": 1}, ["x"])


def test_another_handle_follows_by_refresh(store: FaultyStore) -> None:
    log, other = TableLog(store, "t").open(), TableLog(store, "t").open()
    log.commit([Add("x", 1)], {"n": 1})
    log.commit([Remove("x")], {"n": 2})
    assert [c.info["n"] for c in other.refresh()] == [1, 2]
    assert other.files == {}
    assert other.refresh() == []


def test_a_conflict_brings_the_foreign_commits_and_the_next_try_lands(store: FaultyStore) -> None:
    log, other = TableLog(store, "t").open(), TableLog(store, "t").open()
    other.commit([Txn("theirs", 1)], {"n": 1})
    other.commit([Txn("theirs", 2)], {"n": 2})
    with pytest.raises(CommitConflict) as caught:
        log.commit([Txn("ours", 1)])
    assert [c.info["n"] for c in caught.value.commits] == [1, 2]
    assert "commits" not in caught.value.to_problem()
    assert log.txns == {"theirs": 2}
    assert log.commit([Txn("ours", 1)]) == 3


@pytest.mark.parametrize(
    "faults",
    [[landed], [lost], [lost, lost], [retried_by_the_client], [lost, landed]],
    ids=lambda faults: "+".join(f.__name__ for f in faults),
)
def test_an_unknown_outcome_is_resolved_and_the_commit_is_there_once(
    store: FaultyStore, faults: list[Fault]
) -> None:
    log = TableLog(store, "t").open()
    store.faults = list(faults)
    assert log.commit([Txn("a", 1)], {"n": 1}) == 1
    assert log.commit([Txn("a", 2)], {"n": 2}) == 2
    assert load_snapshot(store, "t").version == 2


def in_the_way(inner: Store, path: str, data: bytes) -> None:
    """Another put of that name is under way, which comes to nothing."""
    raise FileExistsError(path)


def test_an_answer_that_a_name_is_taken_which_it_is_not_is_asked_again(store: FaultyStore) -> None:
    log = TableLog(store, "t").open()
    store.faults = [in_the_way]
    assert log.commit([Txn("a", 1)]) == 1
    store.faults = [in_the_way] * 3
    with pytest.raises(StorageUnavailable) as caught:
        log.commit([Txn("a", 2)])
    assert caught.value.stored == "no"
    assert log.commit([Txn("a", 3)]) == 2


def test_an_unknown_outcome_that_turns_out_foreign_is_a_conflict(store: FaultyStore) -> None:
    log = TableLog(store, "t").open()
    store.faults = [foreign]
    with pytest.raises(CommitConflict) as caught:
        log.commit([Txn("a", 1)])
    assert caught.value.commits[0].txns == {"theirs": 1}


def test_storage_that_stays_away_leaves_the_outcome_unknown(store: FaultyStore) -> None:
    log = TableLog(store, "t").open()
    store.faults = [lost] * 3
    with pytest.raises(StorageUnavailable) as caught:
        log.commit([Txn("a", 1)])
    # On an object store the last request may still be on its way.
    assert caught.value.stored == "unknown"
    assert log.version == 0


def test_an_outcome_that_cannot_be_looked_up_is_unknown(store: FaultyStore) -> None:
    log = TableLog(store, "t").open()
    store.faults = [landed]
    store.get_faults = [StorageUnavailable("away")]
    with pytest.raises(StorageUnavailable, match="could not be found out") as caught:
        log.commit([Txn("a", 1)])
    assert caught.value.stored == "unknown"
    # The next commit meets it, and the caller knows its own txn.
    with pytest.raises(CommitConflict) as conflict:
        log.commit([Txn("a", 2)])
    assert conflict.value.commits[0].txns == {"a": 1}


def test_a_commit_that_landed_is_never_said_not_to_be_stored(store: FaultyStore) -> None:
    log = TableLog(store, "t").open()
    store.faults = [retried_by_the_client]
    store.get_faults = [StorageUnavailable("away")]
    with pytest.raises(StorageUnavailable) as caught:
        log.commit([Txn("a", 1)])
    assert caught.value.stored == "unknown"


def test_a_commit_that_cannot_be_checked_is_unknown(store: FaultyStore) -> None:
    log = TableLog(store, "t").open()
    store.exists_faults = [StorageUnavailable("away")]
    with pytest.raises(StorageUnavailable, match="landed") as caught:
        log.commit([Txn("a", 1)])
    assert caught.value.stored == "unknown"
    assert load_snapshot(store, "t").txns == {"a": 1}


def test_a_full_disk_is_not_retried(store: FaultyStore) -> None:
    log = TableLog(store, "t").open()
    store.faults = [full]
    with pytest.raises(StorageFull):
        log.commit([Txn("a", 1)])
    assert store.faults == []
    assert log.commit([Txn("a", 1)]) == 1


def test_creating_a_table_twice_keeps_the_first(store: FaultyStore) -> None:
    assert create_table(store, "t", TOPICS) is False
    assert TableLog(store, "t").open().version == 0


def test_a_table_as_declared_passes_and_a_drifted_one_is_named(store: FaultyStore) -> None:
    verify_schema(TableLog(store, "t").open(), TOPICS)
    with pytest.raises(SchemaDrift, match=r"t: columns .*offset"):
        verify_schema(TableLog(store, "t").open(), LOG)


def test_the_files_of_a_shard_need_not_be_kept(store: FaultyStore) -> None:
    log = TableLog(store, "t", keep_files=False).open()
    log.commit([Add("x", 1), Txn("a", 1)])
    assert log.files == {}
    assert log.txns == {"a": 1}


def test_a_table_feature_that_is_not_understood_is_refused(store: FaultyStore) -> None:
    store.put_new(commit_path("t", 1), encode([Protocol(3, 7, ("anew",), ("anew",))]))
    with pytest.raises(SchemaDrift, match=r"switched on the features anew .*lakequeue repair"):
        TableLog(store, "t").open()


def test_no_table_and_missing_commits(store: FaultyStore) -> None:
    with pytest.raises(FileNotFoundError):
        TableLog(store, "nothing").open()
    with pytest.raises(ValueError, match="not open"):
        _ = TableLog(store, "t").metadata
    store.put_new(commit_path("gap", 0), encode([Protocol(), Metadata("id", '{"fields":[]}')]))
    store.put_new(commit_path("gap", 2), encode([Txn("a", 1)]))
    with pytest.raises(CorruptTable, match="commits of the Delta log are missing"):
        TableLog(store, "gap").open()
