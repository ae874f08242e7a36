"""Whoever waits for the order of his records hears of it, though a read failed in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from ingest.commit import order_tail
from ingest.commit.order_tail import PATIENCE_S, OrderTail
from ingest.commit.pending_offsets import PendingOffsets, Ticket
from lakequeue.errors import StorageUnavailable
from lakequeue.records import ShardName, Stamp
from queue_rules.produce.outcomes import Outcome
from queue_tables.delta.actions import Txn
from queue_tables.delta.store import ObjectStore
from queue_tables.files.parquet import read_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import WATERMARKS
from queue_tables.schema.schemas import LOG, REJECTS
from tests.support.data.log_builder import LogBuilder

SHARD = ShardName("test-shard")
AWAY = StorageUnavailable("the store is away", hint="try again")


class Ordering(LogBuilder):
    """Orders what stands in one shard: each commit passes its stamp."""

    def _commit(self, now: int, rows: pa.Table, txns: Sequence[Txn]) -> None:
        super()._commit(now, rows, [*txns, Txn(WATERMARKS.name(SHARD), now)])


class World:
    """A tail that nobody runs, and a topic whose records it waits for."""

    def __init__(self) -> None:
        self.store = ObjectStore.in_memory()
        root = QueueRoot.over(self.store)
        self.stamp = 0
        self.log = Ordering(root, wall=lambda: self.stamp)
        self.topic = self.log.topic()
        self.pending = PendingOffsets()
        self.tail = OrderTail(root, self.pending, threading.Event())

    def waits(self, stamp: int) -> Ticket:
        ticket = Ticket(1)
        self.pending.expect(SHARD, Stamp(stamp), [ticket])
        return ticket

    def orders(self, stamp: int) -> None:
        self.stamp = stamp
        self.log.append(self.topic, ["a"])


def failing(monkeypatch: pytest.MonkeyPatch, fails: Callable[[str], bool]) -> None:
    """Reading a data file fails while `fails` says so of its table."""

    def maybe(store: object, table: str, *rest: object) -> pa.Table:
        if fails(table):
            raise AWAY
        return read_data_file(store, table, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(order_tail, "read_data_file", maybe)


def test_a_file_that_could_not_be_read_is_read_by_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    first, second = world.waits(10), world.waits(20)
    world.orders(10)
    world.orders(20)
    away = [True]
    failing(monkeypatch, lambda _: away[0])
    with pytest.raises(StorageUnavailable):
        world.tail._look()
    assert not first.settled.is_set()
    away[0] = False
    world.tail._look()
    assert (first.outcomes, second.outcomes) == ([Outcome(0, 0)], [Outcome(0, 1)])


def test_what_the_log_has_passed_is_told_though_the_rejects_could_not_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    ticket = world.waits(10)
    world.orders(10)
    get = world.store.get

    def away(path: str) -> bytes:
        if path.startswith(REJECTS.name):
            raise AWAY
        return get(path)

    monkeypatch.setattr(world.store, "get", away)
    with pytest.raises(StorageUnavailable):
        world.tail._look()
    monkeypatch.undo()
    world.tail._look()
    assert ticket.outcomes == [Outcome(0, 0)]


def test_nobody_waits_for_ever_behind_a_file_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    now = [100.0]
    monkeypatch.setattr(order_tail, "boot_seconds", lambda: now[0])
    first, second = world.waits(10), world.waits(20)
    world.orders(10)
    reads: list[str] = []

    def three_times(table: str) -> bool:
        reads.append(table)
        return len(reads) <= 3

    failing(monkeypatch, three_times)
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            world.tail._look()
    world.orders(20)
    now[0] += PATIENCE_S
    world.tail._look()
    assert reads == [LOG.name] * 4
    assert first.settled.is_set(), "it is stored: more is not known"
    assert first.outcomes is None
    assert second.outcomes == [Outcome(0, 1)]


def test_after_a_clean_up_of_what_was_not_read_those_who_wait_are_answered() -> None:
    world = World()
    ordered, waits = world.waits(10), world.waits(20)
    world.orders(10)
    world.tail._find_ends()
    assert ordered.settled.is_set()
    assert ordered.outcomes is None
    assert not waits.settled.is_set()
    world.orders(20)
    world.tail._look()
    assert waits.outcomes == [Outcome(0, 1)]
