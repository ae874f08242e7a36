"""Erased records are tombstones everywhere, and their values are in no file under the root."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

from consumer_service.reading.segments import Segments
from consumer_service.reading.tailer import Tailer
from lakequeue.clock import wall_micros
from lakequeue.errors import InvalidRequest, UnknownTopic
from lakequeue.records import Offset, Partition, TopicPartition
from lakequeue.wire import ERASED_HEADER, DeadLetterHeader, dead_letter_id
from queue_tables.delta.snapshot import load_snapshot
from queue_tables.delta.tail import Tail
from queue_tables.files.parquet import read_data_file
from queue_tables.log.reader import LogReader
from queue_tables.log.writer import write_log_file
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore
from tests.support.command import Done, lakequeue
from tests.support.data.order_truth import Inbox, reject_rows, rows_in
from tests.support.data.secrets_on_disk import files_with
from tests.support.runs.erase_process import run_erase
from tests.support.runs.maintenance_process import run_compaction
from tests.support.runs.order_process import Orderer

SECRET = b"alice lives in Wonderland 1865"
NOW = wall_micros()


def dead(offset: int) -> list[dict[str, Any]]:
    said = {
        DeadLetterHeader.TOPIC: "orders",
        DeadLetterHeader.PARTITION: "0",
        DeadLetterHeader.OFFSET: str(offset),
    }
    return [{"key": key, "value": value.encode()} for key, value in said.items()]


def a_queue(root: QueueRoot) -> Topic:
    """Alice's records beside Bob's: one was sent twice, one died, as one of Bob's did."""
    topics = TopicStore(root)
    topic, letters = (topics.create(n, partitions=1)[0] for n in ("orders", "orders.dlq"))
    inbox = Inbox(root, "n")

    def record(key: bytes, value: bytes, message_id: str, **more: Any) -> dict[str, Any]:
        plain = {"topic_id": topic.topic_id, "key": key, "value": value, "message_id": message_id}
        return plain | more

    inbox.commit(NOW, [record(b"alice", SECRET, "m0"), record(b"bob", b"b1", "m1")])
    inbox.commit(NOW + 1, [record(b"bob", b"b2", "m2"), record(b"alice", SECRET + b"!", "m3")])
    inbox.commit(NOW + 2, [record(b"alice", SECRET, "m0")])
    to_letters = {"topic_id": letters.topic_id}
    inbox.commit(
        NOW + 3,
        [
            record(b"alice", SECRET, "d0", headers=dead(3), **to_letters),
            record(b"bob", b"b2", "d1", headers=dead(2), **to_letters),
        ],
    )
    Orderer(root, 1).drain()
    return topic


@pytest.fixture
def topic(root: QueueRoot) -> Topic:
    return a_queue(root)


def read(reader: LogReader, topic: Topic) -> list[tuple[bytes | None, bytes | None]]:
    reader.refresh()
    rows = reader.read_range(topic.topic_id, Partition(0), Offset(0), 100)
    assert rows["offset"].to_pylist() == list(range(rows.num_rows))
    return list(zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True))


ERASED = [(None, None), (b"bob", b"b1"), (b"bob", b"b2"), (None, None)]


def test_the_values_are_in_no_file_and_tombstones_at_their_offsets(
    root: QueueRoot, topic: Topic
) -> None:
    live = LogReader(root)
    read(live, topic)
    tail = Tail(root.store, "log", live.version)
    assert len(files_with(root.uri, SECRET)) > 4
    dry = run_erase(root, "orders", "key = 'alice'", dry_run=True)
    assert (dry["records"], dry["dead_letters"], dry["rejects"]) == (2, 1, 1)
    assert dry["offsets"] == {"0": [0, 3]}
    report = run_erase(root, "orders", "key = 'alice'", delete_now=True)
    assert {name: report[name] for name in dry} == dry
    assert report["left"] == {"records": 0, "dead_letters": 0, "rejects": 0}
    assert report["old_files"] == []
    assert files_with(root.uri, SECRET) == []
    assert files_with(root.uri, b"alice") == []
    for reader in (live, LogReader(root)):
        assert read(reader, topic) == ERASED
    assert [commit for commit in tail.poll() if commit.appends] == []
    (tombstone, *_) = sorted(rows_in(root, "log"), key=lambda row: (row["topic"], row["offset"]))
    assert [header["key"] for header in tombstone["headers"]] == [ERASED_HEADER]
    assert tombstone["message_id"] == "m0"
    letters = [row for row in rows_in(root, "log") if row["topic"] == "orders.dlq"]
    assert [row["value"] for row in letters] == [None, b"b2"]
    assert [row["value"] for row in rows_in(root, "rejects")] == [None]
    table = DeltaTable(f"{root.uri}/log")
    duck = duckdb.connect().register("log", table.to_pyarrow_dataset())
    counted = duck.execute("SELECT count(*), count(value) FROM log").fetchall()
    assert counted == [(6, 3)]


def test_old_files_go_with_the_next_vacuum_and_the_report_names_them(
    root: QueueRoot, topic: Topic
) -> None:
    report = run_erase(root, "orders", "key = 'alice'")
    assert sorted(report["old_files"]) == files_with(root.uri, SECRET)
    assert len(report["old_files"]) >= 2
    run_compaction(root, wall_micros(), grace_hours=0)
    assert files_with(root.uri, SECRET) == []
    assert read(LogReader(root), topic) == ERASED


def test_files_that_were_replaced_before_are_named_and_go_as_well(
    root: QueueRoot, topic: Topic
) -> None:
    # Within the grace of vacuum the files that compaction has replaced still exist.
    run_compaction(root, wall_micros() + 2 * 3_600 * 1_000_000)
    report = run_erase(root, "orders", "key = 'alice'")
    assert sorted(report["old_files"]) == files_with(root.uri, SECRET)
    run_compaction(root, wall_micros() + 3 * 3_600 * 1_000_000)
    again = run_erase(root, "orders", "key = 'alice'", delete_now=True)
    assert (again["records"], again["old_files"]) == (0, [])
    assert files_with(root.uri, SECRET) == []
    assert read(LogReader(root), topic) == ERASED


def test_a_copy_that_comes_later_is_a_duplicate_of_the_tombstone(
    root: QueueRoot, topic: Topic
) -> None:
    run_erase(root, "orders", "key = 'alice'", delete_now=True)
    late = Inbox(root, "late")
    copy = {"topic_id": topic.topic_id, "key": b"alice", "value": SECRET, "message_id": "m0"}
    late.commit(NOW + 1_000_000, [copy])
    assert Orderer(root, 2).drain() == [{"rows": 1, "ordered": 0, "duplicates": 1}]
    again = run_erase(root, "orders", "key = 'alice'", delete_now=True)
    assert (again["records"], again["rejects"]) == (0, 1)
    assert files_with(root.uri, SECRET) == []
    assert read(LogReader(root), topic) == ERASED


def test_what_a_node_holds_in_memory_is_dropped(root: QueueRoot, topic: Topic) -> None:
    where = TopicPartition(topic.topic_id, Partition(0))
    segments = Segments(1 << 20)
    told: list[bool] = []
    tailer = Tailer(
        root, segments, lambda _topic: True, lambda _grown: None, 0.5, lambda: told.append(True)
    )
    inbox = Inbox(root, "n2")
    new = {"topic_id": topic.topic_id, "key": b"alice", "value": SECRET, "message_id": "m9"}
    inbox.commit(wall_micros(), [new])
    Orderer(root, 2).drain()
    tailer.catch_up()
    assert tailer.read(where, 4, 10, 1 << 20)["value"].to_pylist() == [SECRET]
    assert segments.bytes > 0
    assert not told
    run_erase(root, "orders", "key = 'alice'", delete_now=True)
    tailer.catch_up()
    assert segments.bytes == 0
    assert told == [True], "what was read ahead goes as well"
    assert tailer.read(where, 0, 10, 1 << 20)["value"].to_pylist() == [
        None,
        b"b1",
        b"b2",
        None,
        None,
    ]


def test_a_predicate_on_content_finds_dead_letters_whose_record_is_gone(
    root: QueueRoot, topic: Topic
) -> None:
    where = f"value LIKE '%{SECRET.decode()}%' AND offset >= 3"
    report = run_erase(root, "orders", where, delete_now=True)
    assert (report["records"], report["dead_letters"]) == (1, 1)
    assert read(LogReader(root), topic)[0] == (b"alice", SECRET)


def test_a_dead_letter_of_an_earlier_topic_of_that_name_stays(
    root: QueueRoot, topic: Topic
) -> None:
    letters = TopicStore(root).get("orders.dlq")
    # It died at the offset that one of Alice's records has in the topic of today.
    died = dead_letter_id("g", "an-earlier-topic", 0, 3)
    bobs = {"topic_id": letters.topic_id, "key": b"bob", "value": b"b0", "message_id": died}
    Inbox(root, "m").commit(NOW + 4, [bobs | {"headers": dead(3)}])
    Orderer(root, 2).drain()
    assert run_erase(root, "orders", "key = 'alice'")["dead_letters"] == 1
    kept = [row["value"] for row in rows_in(root, "log") if row["topic"] == "orders.dlq"]
    assert sorted(filter(None, kept)) == [b"b0", b"b2"]


def test_another_topics_records_and_a_topic_that_is_not_there(
    root: QueueRoot, topic: Topic
) -> None:
    before = sorted(map(str, rows_in(root, "log")))
    assert run_erase(root, "orders.dlq", "key = 'nobody'")["records"] == 0
    with pytest.raises(UnknownTopic):
        run_erase(root, "visits", "key = 'alice'")
    with pytest.raises(InvalidRequest):
        run_erase(root, "orders", "secret = 1")
    assert sorted(map(str, rows_in(root, "log"))) == before
    assert topic.topic == "orders"


def test_compaction_in_between_is_planned_around(
    root: QueueRoot, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While files with tombstones are written, another process rewrites the same ones."""
    written: list[str] = []

    def write_late(table: Any, rows: Any, hour: str) -> Any:
        if not written:
            path = next(iter(load_snapshot(root.store, "log").files))
            assert read_data_file(root.store, "log", path).num_rows
            run_compaction(root, wall_micros() + 2 * 3_600 * 1_000_000)
        written.append(hour)
        return write_log_file(table.store, rows, hour)

    monkeypatch.setattr("jobs.erase._write_log", write_late)
    report = run_erase(root, "orders", "key = 'alice'", delete_now=True)
    assert report["left"]["records"] == 0
    assert read(LogReader(root), topic) == ERASED


def test_the_command_reports_in_json(root: QueueRoot, topic: Topic) -> None:
    def command(*args: str) -> Done:
        return lakequeue("erase", *args, "--root", root.uri)

    where = ("--where", "key = 'alice'")
    done = command("orders", *where, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] == 2
    assert read(LogReader(root), topic)[0] == (b"alice", SECRET)
    done = command("orders", *where, "--yes", "--delete-now", "--json")
    assert json.loads(done.stdout)["left"]["records"] == 0
    assert files_with(Path(root.uri), SECRET) == []
    wrong = command("orders", "--where", "secret = 1", "--yes")
    assert (wrong.returncode, "predicate" in wrong.stderr) == (8, True)


def test_a_file_that_could_not_be_read_is_named_and_goes_if_one_says_so(
    root: QueueRoot, topic: Topic
) -> None:
    inbox = Inbox(root, "torn")
    said = {"topic_id": topic.topic_id, "key": b"alice", "message_id": "t"}
    inbox.commit(NOW + 9, [said | {"value": SECRET + b" torn"}])
    inbox.commit(NOW + 10, [said | {"value": b"other", "key": b"bob", "message_id": "u"}])
    shard = str(inbox.name)
    path = f"inbox/{shard}/{next(iter(load_snapshot(root.store, f'inbox/{shard}').files))}"
    torn = bytes(root.store.get(path))[:-9]
    root.store.delete(path)
    root.store.put(path, torn)
    Orderer(root, 2).drain()
    assert reject_rows(root)[-1]["value"] == torn

    def command(*args: str) -> tuple[int, dict[str, Any], str]:
        where = ("--where", "key = 'alice'", "--root", root.uri)
        done = lakequeue("erase", "orders", "--json", *args, *where)
        return done.returncode, json.loads(done.stdout), done.stderr

    for mode, code in (("--dry-run", 0), ("--yes", 1)):
        found, report, error = command(mode, "--delete-now")
        assert (found, len(report["unreadable"])) == (code, 1)
        assert report["unreadable"][0] | {"detail": ""} == {
            "shard": shard, "stamp": NOW + 9, "detail": "", "bytes": len(torn)
        }  # fmt: skip
        assert "1 files of the inbox could not be read" in error
        assert "--delete-unreadable" in error
    assert read(LogReader(root), topic)[:4] == ERASED
    assert root.store.exists(path)
    assert reject_rows(root)[-1]["value"] == torn

    found, report, _ = command("--yes", "--delete-now", "--delete-unreadable")
    assert (found, report["unreadable"], len(report["unreadable_deleted"])) == (0, [], 1)
    assert not root.store.exists(path)
    assert files_with(root.uri, torn[4:100]) == files_with(root.uri, SECRET) == []
    assert [row["key"] for row in rows_in(root, "log")].count(b"bob") == 4
    assert command("--yes")[0] == 0
