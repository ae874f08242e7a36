"""Opening a root: created once, refused when it cannot serve."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakequeue.errors import CorruptTable, NewerFormat, RootUnusable, SchemaDrift
from queue_tables.delta.actions import Metadata
from queue_tables.delta.declared import delta_schema
from queue_tables.delta.store import LocalStore, Store
from queue_tables.delta.table import TableLog
from queue_tables.identity import make_identity, raise_format, read_document
from queue_tables.querying.arrow_tables import dataset
from queue_tables.root import QueueRoot, probe_storage
from queue_tables.schema.formats import NEWEST, RootFormat, format_in
from queue_tables.schema.schemas import GROUP_OFFSETS, INBOX, LOG, REJECTS, TOPICS
from queue_tables.shards.shards import ShardWriter
from tests.support.data.log_builder import LogBuilder
from tests.support.faults.faulty_store import FaultyStore


def test_a_new_root_has_its_tables_and_an_identity(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path / "q"))
    for name in ("topics", "log", "group_offsets", "rejects"):
        assert TableLog(root.store, name).open().version == 0
    assert QueueRoot.open(str(tmp_path / "q")).queue_id == root.queue_id
    assert QueueRoot.open(str(tmp_path / "other")).queue_id != root.queue_id
    found = orjson.loads((tmp_path / "q/_lakequeue/format.json").read_bytes())
    assert (found["format"], found["queue_id"]) == (2, root.queue_id)
    assert root.format == NEWEST


def test_every_engine_can_read_what_a_column_means(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path / "q"))
    shard = ShardWriter.create(root, "inbox", "node")
    for declared in (TOPICS, LOG, GROUP_OFFSETS, REJECTS):
        fields = DeltaTable(tmp_path / "q" / declared.name).schema().fields
        assert {f.name: f.metadata.get("comment") for f in fields} == declared.meanings
    fields = DeltaTable(tmp_path / "q" / shard.path).schema().fields
    assert {f.name: f.metadata.get("comment") for f in fields} == INBOX.meanings


def test_people_find_a_record_first_and_what_the_queue_needs_last(tmp_path: Path) -> None:
    names = [f.name for f in LOG.arrow]
    first = ["topic", "partition", "offset", "key", "value", "headers", "timestamp"]
    assert names[: len(first)] == first
    internal = [name for name in names if LOG.meanings[name].startswith("internal: ")]
    assert names[-len(internal) :] == internal
    assert {"topic_id", "stamp", "row", "shard", "sequence"} <= set(internal)
    QueueRoot.open(str(tmp_path / "q"))
    assert [f.name for f in DeltaTable(tmp_path / "q" / "log").schema().fields] == names


def test_a_root_whose_log_has_no_comments_and_another_order_opens_and_is_read(
    tmp_path: Path,
) -> None:
    """As the last release made it."""
    root = QueueRoot.open(str(tmp_path))
    table = TableLog(root.store, LOG.name).open()
    before = delta_schema(pa.schema(sorted(LOG.arrow, key=lambda field: field.name)))
    table.commit([Metadata(table.metadata.id, before, LOG.partition_by)])
    root = QueueRoot.open(str(tmp_path))
    log = LogBuilder(root)
    topic = log.topic("orders", partitions=1)
    log.append(topic, ["a", "b"])
    assert TableLog(root.store, LOG.name).open().metadata.schema_string == before
    rows = dataset(root.uri, LOG.name).to_table().to_pylist()
    assert [(r["topic"], r["offset"], r["value"]) for r in rows] == [
        ("orders", 0, b"a"),
        ("orders", 1, b"b"),
    ]


def test_a_root_that_is_not_there_is_only_created_when_asked(tmp_path: Path) -> None:
    with pytest.raises(RootUnusable, match="there is no queue at"):
        QueueRoot.open(str(tmp_path / "q"), create=False)
    assert not (tmp_path / "q").exists()


def test_a_probe_whose_first_put_was_sent_twice_is_told_by_the_second(tmp_path: Path) -> None:
    def sent_twice(inner: Store, path: str, data: bytes) -> None:
        inner.put_new(path, data)
        inner.put_new(path, data)

    store = FaultyStore(LocalStore(tmp_path))
    store.faults = [sent_twice]
    probe_storage(store)
    assert store.names("_lakequeue") == []


def test_a_root_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    QueueRoot.open(str(tmp_path))
    path = tmp_path / "_lakequeue/format.json"
    path.write_bytes(
        orjson.dumps(orjson.loads(path.read_bytes()) | {"format": 3, "release": "0.9.0"})
    )
    said = r"format 3, this release knows up to 2; install lakequeue 0\.9\.0 or later here"
    with pytest.raises(NewerFormat, match=said):
        QueueRoot.open(str(tmp_path))


def test_a_damaged_format_file_is_named(tmp_path: Path) -> None:
    QueueRoot.open(str(tmp_path))
    (tmp_path / "_lakequeue/format.json").write_bytes(b"{}")
    with pytest.raises(CorruptTable, match=r"_lakequeue/format\.json"):
        QueueRoot.open(str(tmp_path))


@pytest.mark.parametrize("table", ["log", "topics"])
def test_a_table_whose_log_is_gone_does_not_begin_anew(tmp_path: Path, table: str) -> None:
    log = LogBuilder(QueueRoot.open(str(tmp_path)))
    log.append(log.topic("orders"), ["a", "b"])
    kept = tmp_path / "kept"
    (tmp_path / table / "_delta_log").rename(kept)
    with pytest.raises(CorruptTable, match=f"{table} has data files, and its _delta_log is gone"):
        QueueRoot.open(str(tmp_path))
    assert not (tmp_path / table / "_delta_log").exists(), "nothing was begun there"
    kept.rename(tmp_path / table / "_delta_log")
    assert QueueRoot.open(str(tmp_path)).is_table(table)


def test_a_drifted_table_is_refused_by_name(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path))
    log = TableLog(root.store, "log").open()
    drifted = Metadata(log.metadata.id, delta_schema(TOPICS.arrow), LOG.partition_by)
    log.commit([drifted])
    with pytest.raises(SchemaDrift, match=r"log: columns .* differ"):
        QueueRoot.open(str(tmp_path))


def test_group_offsets_that_do_not_say_how_records_ended_are_refused(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path))
    table = TableLog(root.store, GROUP_OFFSETS.name).open()
    newer = {"dead", "expired", "ends_known_from"}
    before = pa.schema([field for field in GROUP_OFFSETS.arrow if field.name not in newer])
    table.commit([Metadata(table.metadata.id, delta_schema(before), GROUP_OFFSETS.partition_by)])
    with pytest.raises(SchemaDrift, match=r"group_offsets: columns .* differ"):
        QueueRoot.open(str(tmp_path))


@contextmanager
def as_nobody() -> Iterator[None]:
    """Whoever is root may write everywhere, so that user is another one for the block."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_root_that_cannot_be_written_is_refused() -> None:
    # Not in pytest's folder, which only its owner may look into.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        with as_nobody(), pytest.raises(RootUnusable, match="no permission"):
            QueueRoot.open(f"{folder}/q")


def test_a_store_without_atomic_create_is_refused(tmp_path: Path) -> None:
    class Overwriting(LocalStore):
        """What a file system without exclusive creation does."""

        def put_new(self, path: str, data: bytes) -> None:
            self.put(path, data)

    with pytest.raises(RootUnusable, match="does not refuse to create a file that exists"):
        QueueRoot.over(Overwriting(tmp_path))
    assert list((tmp_path / "_lakequeue").iterdir()) == []


def test_of_upgrades_at_once_none_takes_back_what_a_later_release_has_raised(
    tmp_path: Path,
) -> None:
    """The other one is always in between the look and the write of this one."""
    store = LocalStore(tmp_path)
    make_identity(store, None, RootFormat(1))
    before = read_document(store)
    later = RootFormat(NEWEST.number, {**NEWEST.features, "made_later": "0.9.0"}, "0.9.0")

    class Between(FaultyStore):
        def replace(self, path: str, was: bytes, data: bytes) -> bool:
            raise_format(store, later)
            return super().replace(path, was, data)

    with pytest.raises(NewerFormat, match="made_later"):
        raise_format(Between(store), NEWEST)
    after = read_document(store)
    assert format_in(after) == later
    assert all(after[name] == before[name] for name in ("queue_id", "created_at"))
    # Of the same release: both end, and write the same.
    other = LocalStore(tmp_path / "other")
    make_identity(other, None, RootFormat(1))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: raise_format(other, NEWEST), range(4)))
    assert format_in(read_document(other)) == NEWEST
