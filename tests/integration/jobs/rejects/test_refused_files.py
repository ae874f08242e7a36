"""Storage that refuses the files of `rejects` alone: ordering waits, says so, and goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from jobs.measuring.order_health import look_at_order, refused
from jobs.ordering.order_job import OrderJob
from jobs.ordering.rejects import StorageWait
from jobs.streaming.query import Part
from lakequeue.clock import hour_of, wall_micros
from lakequeue.errors import RootUnusable, StorageFull, StorageUnavailable
from lakequeue.records import Epoch
from lakequeue.settings import OrderSettings
from queue_tables.root import QueueRoot
from tests.support.data.foreign_shard import ForeignShard, records
from tests.support.data.order_truth import judge, log_rows, reject_rows
from tests.support.data.topic_values import new_topic
from tests.support.runs.order_process import Orderer
from tests.support.services.zookeeper import wait_for

BASE = 1_700_000_000_000_000


@pytest.fixture
def in_the_way(root: QueueRoot) -> Iterator[Callable[[], None]]:
    """Files stand where folders of `rejects` should be; called, they are taken away."""
    folder = Path(root.uri, "rejects")
    now = wall_micros()
    there = [folder / f"hour={hour_of(now + ahead * 3_600_000_000)}" for ahead in (0, 1)]
    for path in there:
        path.write_bytes(b"in the way")

    def clear() -> None:
        for path in there:
            if path.is_file():
                path.unlink()

    yield clear
    clear()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.ordering.rejects._PAUSE_S", 0.01)
    monkeypatch.setattr("jobs.ordering.rejects._LONGEST_PAUSE_S", 0.02)


def commit_all(root: QueueRoot) -> None:
    """Sound records of three shards, and amid them a copy that goes to `rejects`."""
    topic_id, other = new_topic(root), new_topic(root, "other")
    one, two = ForeignShard(root, "one"), ForeignShard(root, "two")
    one.commit(BASE, records(topic_id, BASE, [b"first"], message_id="m"))
    two.commit(BASE + 1, records(other, BASE + 1, [b"sound"]))
    one.commit(BASE + 2, records(topic_id, BASE + 2, [b"first"], message_id="m"))
    two.commit(BASE + 3, records(other, BASE + 3, [b"behind"]))


def test_what_comes_before_is_ordered_the_rest_waits_and_goes_on(
    root: QueueRoot, in_the_way: Callable[[], None]
) -> None:
    commit_all(root)
    orderer = Orderer(root, 1)
    thread = threading.Thread(target=orderer.drain)
    thread.start()
    wait_for(lambda: len(log_rows(root)) == 2, "what comes before the copy is ordered")
    wait_for(lambda: orderer.term.refused is not None, "it says that it waits")
    said = orderer.term.refused
    assert said is not None
    assert "storage refuses rejects/hour=" in said
    assert thread.is_alive()
    in_the_way()
    thread.join(20)
    assert not thread.is_alive()
    assert orderer.term.refused is None
    assert {r["value"] for r in log_rows(root)} == {b"first", b"sound", b"behind"}
    assert [(r["value"], r["reason"]) for r in reject_rows(root)] == [(b"first", "duplicate")]
    judge(root)


def test_the_doctor_says_so_and_leaves_nothing(
    root: QueueRoot, in_the_way: Callable[[], None]
) -> None:
    said = [s for s in look_at_order(root.uri) if "storage refuses rejects/hour=" in s.detail]
    assert len(said) == 1
    assert said[0].warns
    assert said[0].fix
    in_the_way()
    before = sorted(path.name for path in Path(root.uri, "rejects").iterdir())
    assert not [s for s in look_at_order(root.uri) if "storage refuses" in s.detail]
    assert sorted(path.name for path in Path(root.uri, "rejects").iterdir()) == before


@pytest.mark.parametrize("table", ["log", "rejects"])
def test_the_doctor_says_where_commits_are_refused(root: QueueRoot, table: str) -> None:
    now = wall_micros()
    names = set(root.store.names(f"{table}/_delta_log"))
    assert list(refused(root.store, now)) == []
    assert set(root.store.names(f"{table}/_delta_log")) == names, "it leaves nothing"
    folder = Path(root.uri, table, "_delta_log")
    folder.rename(folder.with_name("aside"))
    folder.write_bytes(b"in the way")
    (said,) = refused(root.store, now)
    assert said.warns
    assert said.detail.startswith(f"storage refuses {table}/_delta_log, so ")
    assert said.fix


@pytest.mark.usefixtures("in_the_way")
def test_a_leader_that_is_stopped_waits_no_longer(root: QueueRoot) -> None:
    commit_all(root)
    orderer = Orderer(root, 1)
    ended: list[BaseException] = []

    def drain() -> None:
        try:
            orderer.drain()
        except BaseException as error:  # noqa: BLE001 -- looked at below
            ended.append(error)

    thread = threading.Thread(target=drain)
    thread.start()
    wait_for(lambda: orderer.term.refused is not None, "it waits")
    orderer.term.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert "rejects/hour=" in str(ended[0])


@pytest.mark.usefixtures("in_the_way")
def test_the_job_tells_whoever_watches_it_and_ends_when_it_is_asked_to(root: QueueRoot) -> None:
    commit_all(root)
    scanner = Orderer(root, 1)
    parts = [partial(scanner.read, piece) for piece in scanner.cut()]
    job = OrderJob(root, OrderSettings(), None)
    job.warm()
    job.begin(Epoch(2))
    assert job.troubles() == []
    ended: list[BaseException] = []

    def process() -> None:
        try:
            job.process(cast(SparkSession, None), cast(list[Part], parts))
        except BaseException as error:  # noqa: BLE001 -- looked at below
            ended.append(error)

    thread = threading.Thread(target=process)
    thread.start()
    wait_for(lambda: job.troubles() != [], "it says that it waits")
    assert "storage refuses rejects/hour=" in job.troubles()[0]
    assert job.warnings() == job.troubles()
    job.stop()
    thread.join(20)
    assert not thread.is_alive()
    assert isinstance(ended[0], RootUnusable)


def test_the_next_leader_orders_what_the_one_before_has_given_up(
    root: QueueRoot, in_the_way: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_all(root)
    monkeypatch.setattr("jobs.ordering.rejects._GIVE_UP_S", 0.0)
    orderer = Orderer(root, 1)
    with pytest.raises(Exception, match="rejects/hour="):
        orderer.drain()
    assert len(log_rows(root)) == 2, "what came before stands"
    in_the_way()
    Orderer(root, 2).drain()
    assert len(log_rows(root)) == 3
    judge(root)


def test_a_full_disk_is_for_who_supervises_the_process() -> None:
    def put() -> None:
        raise StorageFull("no space left")

    wait = StorageWait()
    with pytest.raises(StorageFull):
        wait.until_taken(put, "rejects/x", lambda: None)
    assert wait.refused is None


def test_it_is_told_once_and_taken_back() -> None:
    answers = iter([StorageUnavailable("away")] * 3 + [None])
    told: list[str | None] = []
    wait = StorageWait()

    def put() -> None:
        answer = next(answers)
        if answer is not None:
            raise answer

    wait.until_taken(put, "rejects/x", lambda: told.append(wait.refused))
    assert len(told) == 1
    assert told[0] is not None
    assert told[0].endswith("away")
    assert wait.refused is None
