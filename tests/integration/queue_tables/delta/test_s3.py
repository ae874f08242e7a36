"""What only an S3 server shows: conditional puts over HTTP, races, servers that do not do them."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from lakequeue.clock import HybridClock
from lakequeue.errors import CommitConflict, RootUnusable, StorageUnavailable
from queue_tables.delta import object_store
from queue_tables.delta.actions import Txn
from queue_tables.delta.storage_meter import StorageMeter
from queue_tables.delta.store import ObjectStore
from queue_tables.delta.table import TableLog, create_table
from queue_tables.delta.tail import Tail
from queue_tables.log.writer import SourceFiles
from queue_tables.root import QueueRoot, probe_storage
from queue_tables.schema.schemas import INBOX, LOG
from queue_tables.shards.shards import ShardWriter, seal_shard
from queue_tables.upkeep.delta_rs import checkpoint_table
from tests.support.services.s3 import S3Server

# A quarter of a second a request on a busy machine, and there are some hundreds.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as running:
        yield running


@pytest.fixture
def store(server: S3Server) -> ObjectStore:
    return server.store(uuid.uuid4().hex)


def test_a_root_opens_and_its_tables_are_there(store: ObjectStore) -> None:
    root = QueueRoot.over(store)
    assert QueueRoot.over(store).queue_id == root.queue_id
    assert set(store.names("")) >= {"log", "topics", "group_offsets", "rejects"}
    assert store.sizes("log") != {}
    assert store.local_path is None


def test_a_server_without_conditional_puts_is_refused_before_anything_is_made() -> None:
    with S3Server(lax=True) as lax:
        store = lax.store("lax")
        with pytest.raises(RootUnusable, match="does not refuse to create a file that exists"):
            QueueRoot.over(store)
        assert store.sizes("") == {}


def test_nobody_replaces_what_another_one_has_replaced(store: ObjectStore) -> None:
    store.put_new("count", b"0")
    together = threading.Barrier(4)

    def add(_: int) -> None:
        together.wait(30)
        while True:
            was = store.get("count")
            if store.replace("count", was, str(int(was) + 1).encode()):
                return

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    assert store.get("count") == b"4"


def test_a_bucket_that_is_not_there_is_told(server: S3Server) -> None:
    store = server.store("x", bucket="none")
    for ask in (lambda: QueueRoot.over(store), lambda: store.put("x", b"1")):
        with pytest.raises(RootUnusable, match=r"(?s)NoSuchBucket.*create the bucket") as caught:
            ask()
        assert "Debug source" not in str(caught.value)


def test_a_server_that_is_away_is_told_in_seconds(server: S3Server, store: ObjectStore) -> None:
    probe_storage(store)
    began = time.monotonic()
    server.away = True
    try:
        with pytest.raises(StorageUnavailable):
            store.get("x")
    finally:
        server.away = False
    # By itself the client would go on trying for three minutes.
    assert time.monotonic() - began < 30


def test_of_several_committers_one_lands_and_the_others_meet_it(store: ObjectStore) -> None:
    create_table(store, LOG.name, LOG)
    rounds, committers = 5, 4
    tables = [TableLog(store, LOG.name, keep_files=False).open() for _ in range(committers)]
    together = threading.Barrier(committers)

    def commit(number: int, value: int) -> tuple[int, int]:
        """The version it landed at, and how often it met another's commit."""
        tables[number].refresh()
        together.wait()
        met = 0
        while True:
            try:
                return tables[number].commit([Txn(f"w{number}", value)]), met
            except CommitConflict as conflict:
                assert conflict.commits  # noqa: PT017 -- one of two outcomes
                met += 1

    landed: list[int] = []
    with ThreadPoolExecutor(committers) as pool:
        for value in range(rounds):
            found = list(pool.map(commit, range(committers), [value] * committers))
            landed += [version for version, _ in found]
            assert sum(met > 0 for _, met in found) == committers - 1
    assert sorted(landed) == list(range(1, committers * rounds + 1))
    told = TableLog(store, LOG.name, keep_files=False).open().txns
    assert told == {f"w{n}": rounds - 1 for n in range(committers)}


def inbox_rows(count: int) -> pa.Table:
    given = {
        "topic_id": ["t"] * count,
        "partition": [0] * count,
        "value": [b"v"] * count,
        "bytes": [1] * count,
    }
    names = [n for n in INBOX.file_arrow.names if n not in {"stamp", "row"}]
    columns = [
        pa.array(given[n], INBOX.file_arrow.field(n).type)
        if n in given
        else pa.nulls(count, INBOX.file_arrow.field(n).type)
        for n in names
    ]
    return pa.table(columns, names=names)


def test_a_shard_is_appended_to_tailed_and_sealed(store: ObjectStore) -> None:
    root = QueueRoot.over(store)
    clock = HybridClock()
    writer = ShardWriter.create(root, "inbox", "node")
    tail = Tail(store, writer.path, writer.version)
    stamps = [clock.next() for _ in range(3)]
    for stamp in stamps:
        writer.append(inbox_rows(5), stamp)
    seen = tail.poll()
    assert [commit.info["stamp"] for commit in seen] == stamps
    assert [len(commit.adds) for commit in seen] == [1, 1, 1]
    assert tail.poll() == []
    seal_shard(root, "inbox", writer.name)
    assert root.shards("inbox") == [writer.name]


def test_a_checkpoint_by_delta_rs_stands_for_the_commits(
    server: S3Server, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environ.items():
        monkeypatch.setenv(name, value)
    root = QueueRoot.over(store)
    table = TableLog(store, LOG.name, keep_files=False).open()
    for n in range(5):
        table.commit([Txn("a", n)])
    assert checkpoint_table(root, LOG.name) == 5
    for version in range(5):
        store.delete(f"log/_delta_log/{version:020d}.json")
    assert TableLog(store, LOG.name, keep_files=False).open().txns == {"a": 4}


def test_what_a_batch_reads_is_one_request_a_file(server: S3Server, store: ObjectStore) -> None:
    root = QueueRoot.over(store)
    writer = ShardWriter.create(root, "inbox", "node")
    tail, clock = Tail(store, writer.path, writer.version), HybridClock()
    for _ in range(6):
        writer.append(inbox_rows(3), clock.next())
    paths = [f"{writer.path}/{add.path}" for commit in tail.poll() for add in commit.adds]
    before = server.requests
    sources = SourceFiles(store)
    sources.load(paths)
    assert sum(sources.get(path).num_rows for path in paths) == 18
    assert server.requests - before == 6


def test_an_empty_poll_is_one_request_and_a_commit_two(
    server: S3Server, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One of its own: other tests' threads look into other stores meanwhile.
    meter = StorageMeter()
    monkeypatch.setattr(object_store, "METER", meter)
    root = QueueRoot.over(store)
    writer = ShardWriter.create(root, "inbox", "node")
    tail = Tail(store, writer.path, writer.version)
    tail.poll()  # the first looks back
    before, counted = server.requests, sum(meter.snapshot().requests.values())
    tail.poll()
    assert server.requests - before == 1
    before = server.requests
    writer.append(inbox_rows(1), HybridClock().next())
    assert server.requests - before == 3, "data file, commit, and a look that nothing was cleaned"
    assert sum(meter.snapshot().requests.values()) - counted == 4, "as the meter has it"
