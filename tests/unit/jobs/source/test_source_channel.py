"""What a driver and the source of its query tell each other, whatever becomes of either."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.rows.batch_file import BatchFile
from jobs.source.batch_manifest import BatchManifest
from jobs.source.leader_state import LeaderState
from jobs.source.source_channel import STATUS_S, DriverEnd, SourceEnd
from lakequeue.records import Epoch, ShardName, Stamp
from queue_tables.delta.storage_meter import METER
from queue_tables.delta.store import LocalStore
from tests.support.services.zookeeper import wait_for

A = ShardName("a-1")
TERM = LeaderState(Epoch(3), {A: Stamp(7)}, {A: Stamp(9)}, {A: Stamp(8)}, {A: 2})
PIECES = [
    BatchManifest([BatchFile("a-1", "x.parquet", Stamp(1), Stamp(2))], [("a-1", "g", "t", 0, 3)])
]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[DriverEnd]:
    """A driver that does not lead yet."""
    end = DriverEnd(tmp_path, "inbox")
    end.open()
    end.begin(0)
    yield end
    end.close()


@pytest.fixture
def source(tmp_path: Path, driver: DriverEnd) -> Iterator[SourceEnd]:
    """The source of its query."""
    end = SourceEnd(tmp_path, "inbox", 0)
    yield end
    end.close()


def test_a_source_knows_the_term_as_soon_as_it_is_told(
    driver: DriverEnd, source: SourceEnd
) -> None:
    assert source.state() is None
    driver.tell(TERM)
    assert source.state() == TERM
    driver.tell(None)
    assert source.state() is None


def test_a_source_that_comes_later_hears_the_term_of_then(
    driver: DriverEnd, source: SourceEnd
) -> None:
    driver.tell(LeaderState(Epoch(2)))
    driver.wake()
    driver.tell(TERM)
    assert source.state() == TERM
    assert not source.wait(0.0), "nothing is left unread"


def test_a_word_of_the_driver_ends_the_wait_of_its_source(
    driver: DriverEnd, source: SourceEnd
) -> None:
    source.state()
    for say in (driver.wake, lambda: driver.tell(TERM)):
        assert not source.wait(0.0)
        said = threading.Thread(target=say)
        said.start()
        assert source.wait(60.0)
        said.join()
        source.state()


def test_a_wake_while_the_source_looks_is_heard_after_the_look(
    driver: DriverEnd, source: SourceEnd
) -> None:
    source.state()
    driver.wake()
    driver.wake()
    assert source.wait(0.0)
    source.state()
    assert not source.wait(0.0), "both were there before this look"


def test_a_batch_is_known_by_its_number(driver: DriverEnd, source: SourceEnd) -> None:
    source.tell_batch(0, None)
    assert driver.batch(0) is None
    source.tell_batch(1, PIECES)
    assert driver.batch(1) == PIECES
    assert driver.batch(0) is None, "Spark runs another one than the newest"


def test_a_batch_is_told_on_before_spark_asks_for_it(tmp_path: Path) -> None:
    told: list[tuple[int, list[BatchManifest] | None]] = []
    driver = DriverEnd(tmp_path, "inbox", lambda *batch: told.append(batch))
    driver.open()
    driver.begin(0)
    source = SourceEnd(tmp_path, "inbox", 0)
    source.tell_batch(0, None)
    source.tell_batch(1, PIECES)
    wait_for(lambda: told == [(0, None), (1, PIECES)])
    source.close()
    driver.close()


def test_wakes_that_nobody_reads_hold_nobody_up_and_the_newest_term_is_heard(
    driver: DriverEnd, source: SourceEnd
) -> None:
    driver.tell(TERM)
    source.tell_batch(1, PIECES)
    assert driver.batch(1) == PIECES
    for _ in range(20_000):
        driver.wake()  # far more than a socket holds
    many = {ShardName(f"node-{n}"): Stamp(n) for n in range(20_000)}
    driver.tell(LeaderState(Epoch(4), many))
    assert source.wait(60.0)
    assert source.state() == LeaderState(Epoch(4), many)
    assert driver.batch(1) == PIECES, "it was told again with the new connection"
    driver.wake()
    assert source.wait(60.0)


def test_a_source_of_an_earlier_start_has_no_leader_and_is_not_heard(
    driver: DriverEnd, source: SourceEnd, tmp_path: Path
) -> None:
    driver.tell(TERM)
    assert source.state() == TERM
    driver.begin(1)
    newer = SourceEnd(tmp_path, "inbox", 1)
    assert newer.state() == TERM
    assert source.state() is None
    source.tell_batch(1, PIECES)
    newer.tell_batch(1, None)
    assert driver.batch(1) is None
    newer.close()


def test_a_source_whose_driver_is_gone_has_no_leader(driver: DriverEnd, source: SourceEnd) -> None:
    driver.tell(TERM)
    assert source.state() == TERM
    driver.close()
    assert source.state() is None
    source.tell_batch(1, PIECES)
    assert not source.wait(0.0)


def test_a_driver_whose_source_died_in_the_middle_of_a_line_leaves_the_batch_to_spark(
    driver: DriverEnd, source: SourceEnd
) -> None:
    source.state()
    assert source._driver is not None
    source._driver.sendall(b'{"batch": {"numb')
    source.close()
    assert driver.batch(1) is None
    source.tell_batch(1, PIECES)
    assert driver.batch(1) == PIECES, "its successor is heard"


def test_the_folder_of_a_driver_may_be_deep(tmp_path: Path) -> None:
    folder = tmp_path / ("d" * 100) / ("e" * 100)
    folder.mkdir(parents=True)
    driver, source = DriverEnd(folder, "journal"), SourceEnd(folder, "journal", 0)
    driver.open()
    driver.tell(TERM)
    assert source.state() == TERM
    source.close()
    driver.close()


def test_a_source_tells_its_status_now_and_then(driver: DriverEnd, tmp_path: Path) -> None:
    now = [100.0]
    source = SourceEnd(tmp_path, "inbox", 0, clock=lambda: now[0])
    source.state()
    assert driver.status().pending == 0
    source.tell_status(5, {A: "damaged"})
    source.tell_status(6)
    now[0] += STATUS_S
    source.tell_batch(1, None)
    driver.batch(1)
    assert driver.status().pending == 5
    assert driver.status().stuck == {"a-1": "damaged"}
    source.tell_status(7)
    source.tell_batch(2, None)
    driver.batch(2)
    assert driver.status().pending == 7
    source.close()


def test_what_a_source_has_asked_for_goes_on_when_the_query_is_started_again(
    driver: DriverEnd, tmp_path: Path
) -> None:
    store = LocalStore(tmp_path / "store")
    store.put("x", b"1")
    first = SourceEnd(tmp_path, "inbox", 0)
    first.state()
    first.tell_status(5)
    wait_for(lambda: driver.status().pending == 5, "the status of the first start")
    before = driver.status()
    assert before.usage.requests["put"] >= 1
    driver.begin(1)
    assert driver.status().usage == before.usage, "its process has not told anything yet"
    store.put("y", b"1")
    second = SourceEnd(tmp_path, "inbox", 1)
    second.state()
    second.tell_status(2)
    wait_for(lambda: driver.status().pending == 2, "the status of the second start")
    usage = driver.status().usage
    assert usage == before.usage.plus(METER.snapshot()), "a counter never falls"
    first.close()
    second.close()
