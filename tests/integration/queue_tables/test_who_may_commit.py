"""For every shard and table: those who may not commit any more are stopped by the storage.

The rows of the table in docs/protocols/storage.md that no other test proves.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from jobs.ordering.order_state import order_number
from jobs.ordering.rejects import fenced_commit
from lakequeue.errors import CommitConflict, CorruptTable, LeadershipLost, ShardSealed
from lakequeue.records import Epoch, Stamp, Version
from queue_tables.delta.actions import Txn, commit_path
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import Tail
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import ORDER_TXN
from queue_tables.shards.shards import ShardWriter, fence_shard, seal_shard
from queue_tables.topics import TopicStore
from queue_tables.upkeep.delta_rs import checkpoint_table
from tests.support.data.rows import inbox_rows, journal_rows

STAMP = Stamp(1_700_000_000_000_000)


@pytest.fixture
def root(tmp_path: Path) -> QueueRoot:
    return QueueRoot.open(str(tmp_path))


@pytest.mark.parametrize("table", ["log", "rejects"])
def test_an_older_order_leader_commits_no_more(root: QueueRoot, table: str) -> None:
    old, new = (TableLog(root.store, table, keep_files=False).open() for _ in range(2))
    fenced_commit(old, [Txn(ORDER_TXN, order_number(1, 0))], {"epoch": 1}, Epoch(1))
    fenced_commit(new, [Txn(ORDER_TXN, order_number(2, 0))], {"epoch": 2}, Epoch(2))
    for _ in range(2):  # the stale handle, and the same one after it has caught up
        with pytest.raises(LeadershipLost, match="epoch 1 presented, 2 current"):
            fenced_commit(old, [Txn(ORDER_TXN, order_number(1, 1))], {"epoch": 1}, Epoch(1))
    assert TableLog(root.store, table).open().txns == {ORDER_TXN: order_number(2, 0)}


def test_an_order_leader_that_was_frozen_meets_the_new_epoch(root: QueueRoot) -> None:
    """The old leader was stopped between planning and committing; its commit is the stale one."""
    old = TableLog(root.store, "log").open()
    old.commit([Txn(ORDER_TXN, order_number(1, 0))], {"epoch": 1})
    TableLog(root.store, "log").open().commit([Txn(ORDER_TXN, order_number(2, 0))], {"epoch": 2})
    with pytest.raises(CommitConflict) as conflict:
        old.commit([Txn(ORDER_TXN, order_number(1, 1))], {"epoch": 1})
    assert [c.info["epoch"] for c in conflict.value.commits] == [2]


def test_maintenance_beside_the_leader_is_gone_on_from(root: QueueRoot) -> None:
    leader = TableLog(root.store, "log").open()
    fenced_commit(leader, [Txn(ORDER_TXN, order_number(1, 0))], {"epoch": 1}, Epoch(1))
    TableLog(root.store, "log").open().commit([Txn("compaction", 1)], {"compaction": True})
    met = fenced_commit(leader, [Txn(ORDER_TXN, order_number(1, 1))], {"epoch": 1}, Epoch(1))
    assert [c.info for c in met] == [{"compaction": True}]
    assert leader.version == 3


def test_a_stale_change_of_topics_is_judged_anew(root: QueueRoot) -> None:
    first, second = TopicStore(root), TopicStore(root)
    first.create("orders", partitions=4)
    topic, created = second.create("orders", partitions=4)
    assert created is False
    assert topic.topic_id == first.get("orders").topic_id


@pytest.mark.parametrize("kind", ["inbox", "journal"])
def test_a_checkpoint_does_not_hide_a_seal_from_the_owner(root: QueueRoot, kind: str) -> None:
    assert kind in {"inbox", "journal"}
    rows = inbox_rows([b"x"]) if kind == "inbox" else journal_rows([1])
    writer = ShardWriter.create(root, kind, "n")  # type: ignore[arg-type]
    writer.append(rows, STAMP)
    seal_shard(root, kind, writer.name)  # type: ignore[arg-type]
    checkpoint_table(root, writer.path)
    with pytest.raises(ShardSealed):
        writer.append(rows, Stamp(STAMP + 1))


def test_a_fence_races_with_the_owner_and_neither_is_lost(root: QueueRoot) -> None:
    writer = ShardWriter.create(root, "journal", "n")
    for i in range(5):
        fence_shard(root, writer.name, [("g", "t1", 0, i)])
        with pytest.raises(CommitConflict):
            writer.append(journal_rows([i]), Stamp(STAMP + 2 * i))
        writer.append(journal_rows([i]), Stamp(STAMP + 2 * i + 1))
    commits = Tail(root.store, writer.path, Version(0)).poll()
    assert [("fence" in c.info) for c in commits] == [True, False] * 5


def test_a_torn_newest_commit_is_named_and_the_table_is_whole_without_it(root: QueueRoot) -> None:
    """As another engine leaves it when the power goes: visible, and not all there."""
    log = TableLog(root.store, "log").open()
    log.commit([Txn(ORDER_TXN, 1)])
    path = Path(root.uri) / commit_path("log", 2)
    path.write_bytes(b'{"add":{"path":"hour=2013')
    with pytest.raises(CorruptTable, match=r"commit 2 cannot be read.*0002\.json away"):
        TableLog(root.store, "log").open()
    with pytest.raises(CorruptTable):
        log.commit([Txn(ORDER_TXN, 2)])
    path.unlink()
    assert log.commit([Txn(ORDER_TXN, 2)]) == 2


def test_a_stale_delta_rs_handle_is_refused_by_our_commit(root: QueueRoot) -> None:
    """Somebody's script that carries an application id we have committed meanwhile."""
    log = TableLog(root.store, "topics").open()
    stale = DeltaTable(f"{root.uri}/topics")
    log.commit([Txn("topics", 1)])
    with pytest.raises(CommitFailedError, match="lakequeue"):
        stale.create_write_transaction(
            [],
            mode="append",
            schema=stale.schema(),
            commit_properties=CommitProperties(app_transactions=[Transaction("topics", 1)]),
        )
    assert DeltaTable(f"{root.uri}/topics").version() == 1
