"""One contract, every storage: a local directory, obstore in memory, obstore on a local disk."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakequeue.errors import RootUnusable, StorageFull
from queue_tables.delta.store import LocalStore, ObjectStore, Store, open_store
from queue_tables.root import QueueRoot

MAKERS: dict[str, Callable[[Path], Store]] = {
    "local": lambda path: open_store(path / "root"),
    "obstore memory": lambda _: ObjectStore.in_memory(),
    "obstore local": lambda path: ObjectStore.from_url(f"file://{path}/o", mkdir=True),
}


@pytest.fixture(params=MAKERS, ids=str)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MAKERS[request.param](tmp_path)


def test_what_is_put_is_read_back(store: Store) -> None:
    store.put("a/b/c.bin", b"data")
    store.put("a/b/arrow.bin", pa.py_buffer(b"arrow"))
    assert store.get("a/b/c.bin") == b"data"
    assert store.get("a/b/arrow.bin") == b"arrow"
    assert store.size("a/b/c.bin") == 4
    assert store.exists("a/b/c.bin")
    assert not store.exists("a/b/other")


def test_large_content_survives(store: Store) -> None:
    data = bytes(range(256)) * 60_000
    store.put("large", data)
    store.put_new("new", data)
    assert store.get("large") == store.get("new") == data


def test_put_overwrites_and_put_new_does_not(store: Store) -> None:
    store.put("x", b"1")
    store.put("x", b"22")
    with pytest.raises(FileExistsError):
        store.put_new("x", b"333")
    assert store.get("x") == b"22"
    store.put_new("d/y", b"1")
    with pytest.raises(FileExistsError):
        store.put_new("d/y", b"2")
    assert store.get("d/y") == b"1"
    assert store.names("d") == ["y"]


def test_of_many_creators_exactly_one_succeeds(store: Store) -> None:
    store.put_new("race/before", b"")
    together, won = threading.Barrier(8), []

    def create(i: int) -> None:
        together.wait(10)
        try:
            store.put_new("race/x", str(i).encode())
        except FileExistsError:
            return
        won.append(i)

    threads = [threading.Thread(target=create, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(won) == 1
    assert store.get("race/x") == str(won[0]).encode()
    assert store.names("race") == ["before", "x"]


@pytest.mark.parametrize("maker", ["local", "obstore memory"])
def test_nobody_replaces_what_another_one_has_replaced(maker: str, tmp_path: Path) -> None:
    """As many additions at once as threads: none is lost."""
    store = MAKERS[maker](tmp_path)
    store.put_new("d/count", b"0")
    together = threading.Barrier(8)

    def add(_: int) -> None:
        together.wait(10)
        while True:
            was = store.get("d/count")
            if store.replace("d/count", was, str(int(was) + 1).encode()):
                return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    assert store.get("d/count") == b"8"
    assert not store.replace("d/count", b"7", b"9")
    assert store.names("d") == ["count"]
    with pytest.raises(FileNotFoundError):
        store.replace("d/nothing", b"", b"x")


def test_what_is_not_there(store: Store) -> None:
    with pytest.raises(FileNotFoundError):
        store.get("a/nothing")
    with pytest.raises(FileNotFoundError):
        store.size("nothing")
    with pytest.raises(FileNotFoundError):
        store.open("nothing")
    store.delete("a/nothing")


def test_names_are_the_direct_children_without_dot_names(store: Store) -> None:
    store.put("t/b/deep/x", b"")
    store.put("t/a.json", b"")
    store.put("t/.a.json.tmp", b"")
    store.put("tother", b"")
    assert store.names("t") == ["a.json", "b"]
    assert store.names("") == ["t", "tother"]
    assert store.names("nothing") == []


def test_deleting(store: Store) -> None:
    store.put("x", b"")
    store.delete("x")
    assert not store.exists("x")


def test_directories_can_be_made_durable(store: Store) -> None:
    store.put("d/x", b"")
    store.make_durable("d")


def test_parquet_reads_what_open_gives(store: Store) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink)
    store.put("hour=2013-01-31T07/x.parquet", sink.getvalue())
    with pq.ParquetFile(store.open("hour=2013-01-31T07/x.parquet")) as file:
        assert file.read().to_pydict() == {"a": [1]}


def test_a_root_opens_over_any_store(store: Store) -> None:
    first, again = QueueRoot.over(store), QueueRoot.over(store, create=False)
    assert first.queue_id == again.queue_id
    assert store.names("_lakequeue") == ["format.json"]


def test_an_object_store_is_opened_anew_by_who_unpickles_it() -> None:
    for store in (ObjectStore.in_memory(), ObjectStore.from_url("s3://bucket/x", region="eu")):
        again = pickle.loads(pickle.dumps(store))  # noqa: S301 -- our own bytes
        assert again.uri == store.uri


def test_a_local_store_survives_pickling(tmp_path: Path) -> None:
    opened = open_store(f"file://{tmp_path}/a%20b")
    store = pickle.loads(pickle.dumps(opened))  # noqa: S301 -- our own bytes
    store.put("x/y", b"1")
    assert (tmp_path / "a b" / "x" / "y").read_bytes() == b"1"
    assert open_store(store.uri).get("x/y") == b"1"


def test_a_uri_that_no_store_understands() -> None:
    with pytest.raises(RootUnusable, match="no storage can be opened at nosuch://x"):
        open_store("nosuch://x")
    with pytest.raises(RootUnusable, match="no root is named"):
        open_store("")


def test_a_file_where_the_root_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "root").write_bytes(b"")
    with pytest.raises(RootUnusable, match="a file is in the way"):
        open_store(tmp_path / "root").put_new("x/y", b"")
    with pytest.raises(RootUnusable, match="a file is in the way"):
        open_store(tmp_path / "root").put("x/y", b"")
    assert not open_store(tmp_path / "root").exists("x/y")


def test_a_full_disk_is_a_full_disk(tmp_path: Path) -> None:
    # The device answers every write as a full disk does; the link leads there.
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(StorageFull, match="no space left writing full") as caught:
        LocalStore(tmp_path).put("full", b"x")
    assert caught.value.retry_after_s
    assert not (tmp_path / "full").exists(), "nothing may stay half-written"
