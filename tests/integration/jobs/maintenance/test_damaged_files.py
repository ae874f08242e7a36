"""A file of `log` or `rejects` that is damaged or gone keeps maintenance from nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakequeue.records import Partition
from queue_tables.delta.table import TableLog
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from tests.support.data.log_builder import LogBuilder
from tests.support.data.maintained import NOW, a_topic
from tests.support.data.order_truth import Inbox
from tests.support.data.wall import HOUR, Wall
from tests.support.runs.maintenance_process import run_compaction, run_retention
from tests.support.runs.order_process import Orderer


@pytest.fixture
def time() -> Wall:
    return Wall(NOW - NOW % HOUR - 48 * HOUR)


def where(root: QueueRoot, path: str, table: str = "log") -> Path:
    return Path(str(root.store.local_path)) / table / path


def flip(file: Path, at: int) -> None:
    """One bit of a byte; negative `at` counts from the end."""
    data = bytearray(file.read_bytes())
    data[at] ^= 0x10
    file.write_bytes(bytes(data))


def damage(root: QueueRoot, path: str, how: str) -> None:
    """`page`: in the records; `footer`: before the length of the footer; or gone."""
    file = where(root, path)
    if how == "gone":
        file.unlink()
    elif how == "footer":
        flip(file, -1)
    else:
        flip(file, 40)


def files_of(root: QueueRoot) -> dict[str, list[str]]:
    """The files of each hour of `log`, the oldest first."""
    found: dict[str, list[str]] = {}
    for add in sorted(LogReader(root).files(), key=lambda add: add.stats or ""):
        found.setdefault(add.partition_values["hour"] or "", []).append(add.path)
    return dict(sorted(found.items()))


def first(root: QueueRoot, topic: Topic) -> int:
    return LogReader(root).first_offset(topic.topic_id, Partition(0))


def hours(log: LogBuilder, time: Wall, topic: Topic, count: int = 2) -> None:
    """Three small files in each of `count` hours."""
    for _ in range(count):
        for n in range(3):
            time.now += 1_000_000
            log.append(topic, [f"{n}"])
        time.now += HOUR


@pytest.mark.parametrize("how", ["page", "footer", "gone"])
def test_later_hours_are_compacted_and_other_topics_expire(
    root: QueueRoot, log: LogBuilder, time: Wall, how: str
) -> None:
    orders = a_topic(root)
    hours(log, time, orders)
    visits = a_topic(root, "visits")
    hours(log, time, visits, count=1)
    bad = next(iter(files_of(root).values()))[0]
    whole = where(root, bad).read_bytes()
    damage(root, bad, how)

    report = run_compaction(root, NOW)["log"]
    assert report["damaged"] == [f"log/{bad}"]
    assert f"log/{bad}" in report["failed"]
    assert (report["files_before"], report["files_after"]) == (8, 3)
    after = files_of(root)
    assert [len(files) for files in after.values()] == [2, 1, 1]
    assert bad in next(iter(after.values())), "it is as it was"

    report = run_retention(root, NOW)["log"]
    assert first(root, visits) == 3
    if how == "page":  # its footer tells what is in it: it can expire
        assert first(root, orders) == 6
        return
    assert report["damaged"] == [f"log/{bad}"]
    assert f"log/{bad}" in report["failed"] or how == "gone"
    assert report["topics"]["orders"]["rows_removed"] == 0, "its partition begins with the file"
    where(root, bad).write_bytes(whole)
    assert "damaged" not in run_retention(root, NOW)["log"]
    assert first(root, orders) == 6


def test_retention_keeps_what_follows_the_file_in_its_partitions(
    root: QueueRoot, log: LogBuilder, time: Wall
) -> None:
    orders = a_topic(root)
    hours(log, time, orders)
    bad = [path for files in files_of(root).values() for path in files][2]
    whole = where(root, bad).read_bytes()
    damage(root, bad, "footer")
    report = run_retention(root, NOW)["log"]
    assert report["damaged"] == [f"log/{bad}"]
    assert report["topics"]["orders"]["rows_removed"] == 2, "what is before it goes"
    assert report["topics"]["orders"]["files_kept"] == {"after_kept": 3}
    where(root, bad).write_bytes(whole)
    assert first(root, orders) == 2


def test_a_young_file_in_which_a_partition_may_begin_is_named(root: QueueRoot, time: Wall) -> None:
    """Of a file with two topics the log knows the lowest offset in it, not whose it is."""
    orders, visits = a_topic(root), a_topic(root, "visits")
    inbox, orderer = Inbox(root, "n"), Orderer(root, 1, wall=time)

    def send(hours_ago: int, *topics: Topic) -> None:
        time.now = NOW - hours_ago * HOUR
        inbox.commit(time(), [{"topic_id": topic.topic_id, "value": b"v"} for topic in topics])
        orderer.drain()

    send(60, orders)
    send(40, orders)
    assert run_retention(root, NOW - 34 * HOUR)["log"]["files_removed"] == 1
    send(0, orders, visits)
    young = list(files_of(root).values())[-1][0]
    damage(root, young, "footer")
    report = run_retention(root, NOW)["log"]
    assert (report["damaged"], report["files_removed"]) == ([f"log/{young}"], 0)


def test_rejects_of_another_hour_become_one_file(root: QueueRoot, time: Wall) -> None:
    record = {"topic_id": a_topic(root).topic_id, "value": b"v", "message_id": "m"}
    inbox, orderer = Inbox(root, "n"), Orderer(root, 1, wall=time)
    for _ in range(2):
        for _ in range(3):
            time.now += 1_000_000
            inbox.commit(time(), [record])
            orderer.drain()
        time.now += HOUR
    files = TableLog(root.store, "rejects").open().files.values()
    bad = min(files, key=lambda add: add.partition_values["hour"] or "").path
    flip(where(root, bad, "rejects"), -1)
    report = run_compaction(root, NOW)["rejects"]
    assert report["damaged"] == [f"rejects/{bad}"]
    assert (report["files_before"], report["files_after"], report["commits"]) == (2, 1, 1)
    assert bad in TableLog(root.store, "rejects").open().files
