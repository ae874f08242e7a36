"""What a process asks of its storage is counted, by whichever store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakequeue import metrics
from lakequeue.errors import RootUnusable
from lakequeue.metrics.declaring import Sample
from queue_tables.delta.storage_meter import METER, StorageMeter, Usage, samples
from queue_tables.delta.store import LocalStore, ObjectStore, Store

STORES: dict[str, Callable[[Path], Store]] = {
    "local": LocalStore,
    "object": lambda _: ObjectStore.in_memory(),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return STORES[request.param](tmp_path)


def made(before: Usage, operation: str) -> int:
    return METER.snapshot().requests.get(operation, 0) - before.requests.get(operation, 0)


def test_each_operation_is_a_request_and_bytes_are_counted(store: Store) -> None:
    before = METER.snapshot()
    store.put("t/data", b"12345")
    store.put_new("t/_delta_log/0.json", b"123")
    store.get("t/data")
    store.size("t/data")
    store.names("t")
    sizes = store.sizes("t")
    store.delete("t/data")
    assert sizes == {"t/data": 5, "t/_delta_log/0.json": 3}
    after = METER.snapshot()
    operations = ("put", "create", "get", "head", "list", "delete")
    assert [made(before, operation) for operation in operations] == [1, 1, 1, 1, 2, 1]
    assert after.written_bytes - before.written_bytes == 8
    assert after.read_bytes - before.read_bytes == 5


def test_an_answer_is_no_error(store: Store) -> None:
    before = METER.snapshot()
    with pytest.raises(FileNotFoundError):
        store.get("not there")
    store.put_new("x", b"1")
    with pytest.raises(FileExistsError):
        store.put_new("x", b"2")
    assert (made(before, "get"), made(before, "create")) == (1, 2)
    assert METER.snapshot().errors == before.errors


def test_what_the_storage_refuses_is_an_error_with_its_code() -> None:
    meter = StorageMeter()
    with pytest.raises(RootUnusable), meter.request("reading"):
        raise RootUnusable("no")
    assert meter.snapshot().errors == {"get/root_unusable": 1}


def test_a_long_listing_is_a_request_a_page() -> None:
    meter = StorageMeter()
    for objects in (0, 1, 1_000, 1_001, 2_001):
        meter.listed(objects)
    assert meter.snapshot().requests == {"list": 3}


def test_two_processes_together() -> None:
    one = Usage({"get": 1}, {"get": 0.5}, {}, 1, 10, 0)
    other = Usage({"get": 2, "put": 1}, {"get": 0.25, "put": 1.0}, {"put/x": 3}, 0, 5, 7)
    both = one.plus(other)
    assert (both.requests, both.errors) == ({"get": 3, "put": 1}, {"put/x": 3})
    assert Sample(metrics.every.STORAGE_SECONDS, 0.75, ("get",), 3) in samples(both)
    assert Sample(metrics.every.STORAGE_ERRORS, 3, ("put", "x")) in samples(both)
    assert Sample(metrics.every.STORAGE_READ, 15) in samples(both)
