"""Who may commit to a shard, and what stops the others."""

from __future__ import annotations

import pytest

from lakequeue.errors import (
    CommitConflict,
    CorruptTable,
    InvalidName,
    ShardSealed,
    StorageUnavailable,
)
from lakequeue.records import Stamp, Version
from queue_tables.delta.actions import Add, Commit, Txn
from queue_tables.delta.store import ObjectStore, Store
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import Tail
from queue_tables.files.parquet import read_data_file
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.shards.shards import (
    ShardWriter,
    fence_shard,
    highest_stamp,
    is_sealed,
    node_of,
    seal_shard,
    shard_path,
)
from tests.support.data.rows import inbox_rows, journal_rows
from tests.support.faults.faulty_store import FaultyStore

STAMP = Stamp(1_700_000_000_000_000)


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(ObjectStore.in_memory())


@pytest.fixture
def root(store: FaultyStore) -> QueueRoot:
    return QueueRoot.over(store)


def commits_of(root: QueueRoot, kind: ShardKind, shard: str) -> list[Commit]:
    return Tail(root.store, shard_path(kind, shard), Version(-1)).poll()


def data_files(root: QueueRoot, writer: ShardWriter) -> list[str]:
    return [
        name
        for folder in root.store.names(writer.path)
        if folder.startswith("hour=")
        for name in root.store.names(f"{writer.path}/{folder}")
    ]


def test_a_group_is_one_commit_with_its_stamp_rows_in_order(root: QueueRoot) -> None:
    writer = ShardWriter.create(root, "inbox", "node-1")
    values = [b"c", b"a", b"b"]
    assert writer.append(inbox_rows(values), STAMP) == 1
    created, group = commits_of(root, "inbox", writer.name)
    assert created.version == 0
    assert group.info == {"stamp": STAMP, "rows": 3, "bytes": 3}
    assert group.txns == {"group": 1, "stamp": STAMP}
    assert group.appends
    assert group.adds[0].partition_values == {"hour": "2023-11-14T22"}
    rows = read_data_file(root.store, writer.path, group.adds[0].path)
    assert rows.select(["value", "stamp", "row"]).to_pylist() == [
        {"value": v, "stamp": STAMP, "row": i} for i, v in enumerate(values)
    ]


def test_each_incarnation_is_a_new_shard_that_exists_before_it_is_used(root: QueueRoot) -> None:
    first = ShardWriter.create(root, "inbox", "node-1")
    second = ShardWriter.create(root, "inbox", "node-1")
    assert root.shards("inbox") == sorted([first.name, second.name])
    assert {node_of(s) for s in root.shards("inbox")} == {"node-1"}
    assert root.shards("journal") == []


def test_a_folder_without_a_commit_is_no_shard_yet(root: QueueRoot) -> None:
    root.store.put("inbox/node-1-abc/hour=2023-11-14T22/part-1.parquet", b"x")
    assert root.shards("inbox") == []


def test_a_removed_shard_is_listed_no_more(root: QueueRoot) -> None:
    writer = ShardWriter.create(root, "inbox", "n")
    assert root.shards("inbox") == [writer.name]
    root.store.delete(f"{writer.path}/_delta_log/{0:020d}.json")
    assert root.shards("inbox") == []


def test_a_list_of_shards_is_whole_though_another_thread_forgets_it_meanwhile(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ForgottenAtOnce(dict[str, frozenset[str]]):
        def __setitem__(self, kind: str, found: frozenset[str]) -> None:
            super().__setitem__(kind, frozenset())

    shard = ShardWriter.create(root, "journal", "node-1").name
    monkeypatch.setattr(root, "_known", ForgottenAtOnce(root._known))
    assert root.shards("journal") == [shard]


def test_a_node_name_must_be_valid(root: QueueRoot) -> None:
    with pytest.raises(InvalidName):
        ShardWriter.create(root, "inbox", "no/slash")


@pytest.mark.parametrize("kind", ["inbox", "journal"])
def test_the_owner_of_a_sealed_shard_can_append_no_more_and_leaves_no_file(
    root: QueueRoot, kind: ShardKind
) -> None:
    rows = inbox_rows([b"x"]) if kind == "inbox" else journal_rows([1])
    writer = ShardWriter.create(root, kind, "n")
    writer.append(rows, STAMP)
    seal_shard(root, kind, writer.name)
    seal_shard(root, kind, writer.name)
    assert is_sealed(root, kind, writer.name)
    for stamp in (Stamp(STAMP + 1), Stamp(STAMP + 2)):
        with pytest.raises(ShardSealed) as caught:
            writer.append(rows, stamp)
        assert caught.value.stored == "no"
    assert len(commits_of(root, kind, writer.name)) == 3
    assert len(data_files(root, writer)) == 1


def test_a_seal_keeps_schema_and_partitioning(root: QueueRoot) -> None:
    writer = ShardWriter.create(root, "inbox", "n")
    before = TableLog(root.store, writer.path).open().metadata
    seal_shard(root, "inbox", writer.name)
    after = TableLog(root.store, writer.path).open().metadata
    assert (after.id, after.schema_string, after.partition_columns) == (
        before.id,
        before.schema_string,
        before.partition_columns,
    )


def test_a_fence_reaches_the_owner_as_a_conflict_and_the_rest_can_be_appended(
    root: QueueRoot,
) -> None:
    writer = ShardWriter.create(root, "journal", "n")
    writer.append(journal_rows([1]), STAMP)
    assert fence_shard(root, writer.name, [("g", "t1", 0, 2)]) is True
    with pytest.raises(CommitConflict) as caught:
        writer.append(journal_rows([2, 3]), Stamp(STAMP + 1))
    assert [c.info["fence"] for c in caught.value.commits] == [[["g", "t1", 0, 2]]]
    assert len(data_files(root, writer)) == 1
    assert writer.append(journal_rows([3]), Stamp(STAMP + 2)) == 3


def test_fences_number_themselves_and_a_sealed_shard_needs_none(root: QueueRoot) -> None:
    writer = ShardWriter.create(root, "journal", "n")
    assert fence_shard(root, writer.name, [("g", "t1", 0, 2)])
    assert fence_shard(root, writer.name, [("g", "t1", 1, 2)])
    assert [c.txns for c in commits_of(root, "journal", writer.name)[1:]] == [
        {"fence": 1},
        {"fence": 2},
    ]
    seal_shard(root, "journal", writer.name)
    assert fence_shard(root, writer.name, [("g", "t1", 0, 3)]) is False


def test_an_append_by_anybody_else_is_reported_not_ignored(root: QueueRoot) -> None:
    writer = ShardWriter.create(root, "inbox", "n")
    TableLog(root.store, writer.path).open().commit([Add("hour=x/y.parquet", 1)])
    with pytest.raises(CorruptTable, match="appended by another process"):
        writer.append(inbox_rows([b"x"]), STAMP)


def test_maintenance_beside_the_owner_is_gone_on_from(root: QueueRoot) -> None:
    writer = ShardWriter.create(root, "inbox", "n")
    TableLog(root.store, writer.path).open().commit([Add("hour=x/y", 1, data_change=False)])
    assert writer.append(inbox_rows([b"x"]), STAMP) == 2


def test_a_group_whose_put_arrived_late_is_neither_foreign_nor_lost(
    root: QueueRoot, store: FaultyStore
) -> None:
    writer = ShardWriter.create(root, "inbox", "n")
    late: list[tuple[str, bytes]] = []

    def delayed(inner: Store, path: str, data: bytes) -> None:
        late.append((path, data))
        raise StorageUnavailable("timed out")

    store.faults = [delayed] * 3
    with pytest.raises(StorageUnavailable) as caught:
        writer.append(inbox_rows([b"first"]), STAMP)
    assert caught.value.stored == "unknown"
    assert len(data_files(root, writer)) == 1  # it may be needed
    root.store.put_new(*late[-1])
    assert writer.append(inbox_rows([b"second"]), Stamp(STAMP + 1)) == 2
    groups = commits_of(root, "inbox", writer.name)[1:]
    assert [c.info["stamp"] for c in groups] == [STAMP, STAMP + 1]
    assert [c.txns["group"] for c in groups] == [1, 2]


def test_the_highest_stamp_of_a_node_is_over_all_its_shards(root: QueueRoot) -> None:
    assert highest_stamp(root, "inbox", "n") == 0
    old = ShardWriter.create(root, "inbox", "n")
    old.append(inbox_rows([b"x"]), Stamp(STAMP + 9))
    seal_shard(root, "inbox", old.name)
    ShardWriter.create(root, "inbox", "n").append(inbox_rows([b"x"]), STAMP)
    ShardWriter.create(root, "inbox", "n-2").append(inbox_rows([b"x"]), Stamp(STAMP + 99))
    assert highest_stamp(root, "inbox", "n") == STAMP + 9


def test_a_txn_of_another_is_no_reason_to_stop(root: QueueRoot) -> None:
    writer = ShardWriter.create(root, "inbox", "n")
    TableLog(root.store, writer.path).open().commit([Txn("somebody", 1)])
    assert writer.append(inbox_rows([b"x"]), STAMP) == 2
