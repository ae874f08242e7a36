from __future__ import annotations

import orjson
import pyarrow as pa
import pytest

from lakequeue.errors import SchemaDrift
from lakequeue.records import Stamp
from queue_tables.delta.actions import Add, CommitInfo, Metadata, Protocol, Txn, commit_path, encode
from queue_tables.delta.commit_json import parse
from queue_tables.delta.declared import delta_schema, verify_schema
from queue_tables.delta.guard import GUARDED, check_readable, reinstated
from queue_tables.delta.store import ObjectStore
from queue_tables.delta.table import TableLog, create_table
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX, TOPICS
from queue_tables.shards.shards import SEALED, ShardWriter, seal_shard
from tests.support.faults.foreign import take_guard_off

SCHEMA = delta_schema(TOPICS.arrow)
PLAIN = Metadata("id", SCHEMA, configuration={"lakequeue.quiet_s": "5"})


def new_root() -> QueueRoot:
    return QueueRoot.over(ObjectStore.in_memory())


def mapped(rename: str | None = None) -> str:
    """The schema as another engine leaves it that has switched on column mapping."""
    schema = orjson.loads(SCHEMA)
    for number, field in enumerate(schema["fields"]):
        field["metadata"] = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": field["name"],
            "comment": "kept",
        }
    if rename:
        schema["fields"][0]["name"] = rename
    return orjson.dumps(schema).decode()


def test_a_guarded_table_needs_nothing() -> None:
    assert reinstated("t", GUARDED, PLAIN, vectors=False) == ()


def test_a_protocol_is_read_as_it_was_written() -> None:
    for protocol in (GUARDED, Protocol(), Protocol(3, 7, ("a", "b"), ("b", "c"))):
        assert parse(1, encode([protocol])).actions == (protocol,)


@pytest.mark.parametrize("feature", ["inCommitTimestamp", "rowTracking", "appendOnly"])
def test_what_no_file_depends_on_is_switched_off(feature: str) -> None:
    said = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "3",
    }
    said |= {"delta.enableRowTracking": "true", "delta.appendOnly": "true"}
    metadata = Metadata("id", SCHEMA, configuration={**PLAIN.configuration, **said})
    found = reinstated("t", Protocol(1, 7, None, (feature,)), metadata, vectors=True)
    assert found == (GUARDED, PLAIN)


def test_deletion_vectors_stay_while_files_may_carry_them() -> None:
    protocol = Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "invariants"))
    assert reinstated("t", protocol, PLAIN, vectors=False) == (GUARDED,)
    kept = Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "lakequeue"))
    assert reinstated("t", protocol, PLAIN, vectors=True) == (kept,)
    assert reinstated("t", kept, PLAIN, vectors=True) == ()


def test_column_mapping_ends_unless_a_column_was_renamed() -> None:
    on = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "22"}
    protocol = Protocol(2, 7, None, ("columnMapping",))
    [guard, metadata] = reinstated("t", protocol, Metadata("id", mapped(), (), on), vectors=False)
    assert guard == GUARDED
    assert isinstance(metadata, Metadata)
    assert metadata.configuration == {}
    fields = orjson.loads(metadata.schema_string)["fields"]
    assert {orjson.dumps(f["metadata"]) for f in fields} == {b'{"comment":"kept"}'}
    renamed = Metadata("id", mapped("other"), (), on)
    [kept] = reinstated("t", protocol, renamed, vectors=False)
    assert kept == Protocol(3, 7, ("columnMapping",), ("columnMapping", "lakequeue"))


def test_what_the_queue_would_break_is_refused_by_name() -> None:
    protocol = Protocol(1, 7, None, ("catalogManaged",))
    with pytest.raises(SchemaDrift, match=r"t: .*catalogManaged.*lakequeue repair") as error:
        reinstated("t", protocol, PLAIN, vectors=False)
    assert error.value.stored == "no"
    with pytest.raises(SchemaDrift, match="anew"):
        check_readable("t", Protocol(3, 7, ("anew",), ("anew",)))


def test_every_commit_guards_a_table_that_was_not() -> None:
    store = new_root().store
    take_guard_off(store, "topics")
    log = TableLog(store, "topics").open()
    log.commit([Txn("topics", 1)])
    assert log.protocol == TableLog(store, "topics").open().protocol == GUARDED
    version = log.commit([Txn("topics", 2)])
    written = parse(version, store.get(commit_path("topics", version)))
    assert not [action for action in written.actions if isinstance(action, Protocol)]


def test_a_table_that_needs_an_unknown_feature_goes_on_when_that_is_ended() -> None:
    store = new_root().store
    log = TableLog(store, "topics").open()
    end = TableLog(store, "topics").open().version
    anew = Protocol(3, 7, ("anew",), ("anew",))
    store.put_new(commit_path("topics", end + 1), encode([CommitInfo(engine="other"), anew]))
    for _ in range(2):
        with pytest.raises(SchemaDrift, match="anew"):
            log.refresh()
    store.put_new(commit_path("topics", end + 2), encode([CommitInfo(), GUARDED, Txn("x", 1)]))
    assert [commit.version for commit in log.refresh()] == [end + 1, end + 2]
    assert log.commit([Txn("x", 2)]) == end + 3


def test_a_live_shard_of_an_earlier_release_is_guarded_beside_its_owner() -> None:
    root = new_root()
    writer = ShardWriter.create(root, "inbox", "node")
    take_guard_off(root.store, writer.path)
    assert TableLog(root.store, writer.path).open().put_guard() is True
    assert TableLog(root.store, writer.path).open().put_guard() is False
    columns = [f for f in INBOX.file_arrow if f.name not in {"stamp", "row"}]
    rows = pa.table({f.name: pa.nulls(1, f.type) for f in columns}, schema=pa.schema(columns))
    assert writer.append(rows, Stamp(7)) == 3
    take_guard_off(root.store, writer.path)
    seal_shard(root, "inbox", writer.name)
    sealed = TableLog(root.store, writer.path).open()
    assert sealed.protocol == GUARDED
    assert sealed.configuration[SEALED] == "true"


def test_added_columns_and_comments_are_no_drift() -> None:
    store = new_root().store
    create_table(store, "t", TOPICS)
    log = TableLog(store, "t").open()
    schema = orjson.loads(log.metadata.schema_string)
    schema["fields"][0]["metadata"] = {"comment": "the name"}
    schema["fields"].append({"name": "note", "type": "string", "nullable": True, "metadata": {}})
    log.commit([Metadata(log.metadata.id, orjson.dumps(schema).decode())])
    verify_schema(log, TOPICS)


def test_a_file_that_gets_a_deletion_vector_stays_in_the_table() -> None:
    store = new_root().store
    create_table(store, "t", TOPICS)
    log = TableLog(store, "t").open()
    plain = Add("a", 1)
    log.commit([plain])
    vector = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    log.commit([Add("a", 1, deletion_vector=vector), plain.removal(5)])
    for found in (log, TableLog(store, "t").open()):
        assert found.files["a"].deletion_vector == vector
    assert log.files["a"].removal(6).deletion_vector == vector


def test_a_root_opens_when_a_table_is_damaged_that_the_caller_does_not_need() -> None:
    store = new_root().store
    end = TableLog(store, "metrics").open().version
    store.put_new(commit_path("metrics", end + 1), encode([Protocol(3, 7, ("anew",), ("anew",))]))
    with pytest.raises(SchemaDrift, match="metrics"):
        QueueRoot.over(store)
    root = QueueRoot.over(store, needs=("topics",))
    assert set(root.damaged) == {"metrics"}
