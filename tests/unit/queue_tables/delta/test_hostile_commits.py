"""Whatever a commit says of itself: of the queue's own it is named, of others' it stops nothing.

Generated: each field of each action as the queue writes it, with every value that is none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import pytest

from lakequeue.errors import CorruptTable
from queue_tables.delta.actions import (
    Add,
    CommitInfo,
    Metadata,
    Protocol,
    Remove,
    Txn,
    commit_path,
    encode,
)
from queue_tables.delta.commit_json import parse
from queue_tables.delta.declared import delta_schema
from queue_tables.delta.guard import FOREIGN_TXN
from queue_tables.delta.store import ObjectStore
from queue_tables.delta.table import TableLog
from queue_tables.delta.tail import Tail
from queue_tables.files.stats import FileStats, newest_micros, oldest_micros
from queue_tables.log.reader import LogReader
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG
from queue_tables.upkeep.health import TablesWatch, look
from queue_tables.upkeep.repair import repair_table
from tests.support.data.log_builder import LogBuilder
from tests.support.faults.foreign import as_of_earlier_release, take_guard_off

VECTOR = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
STATS = {
    "numRecords": 2,
    "minValues": {"topic_id": "t1", "offset": 0, "ordered_at": "2026-01-01T00:00:00.000Z"},
    "maxValues": {"topic_id": "t1", "offset": 1, "ordered_at": "2026-01-01T00:00:00.000Z"},
    "nullCount": {"topic_id": 0},
}
ACTIONS = [
    Add("a.parquet", 9, {"hour": "2026-01-01T00"}, 3, True, orjson.dumps(STATS).decode(), VECTOR),
    Remove("a.parquet", 4, True, {"hour": "2026-01-01T00"}, 9, VECTOR),
    Txn("order", 7),
    Metadata("id", delta_schema(LOG.arrow), ("hour",), {"lakequeue.x": "y"}, "name", 5),
    Protocol(1, 7, None, ("lakequeue",)),
]
HOSTILE: Mapping[str, Any] = {
    "null": None,
    "true": True,
    "text": "x",
    "empty text": "",
    "a path out of the table": "../../etc/passwd",
    "an absolute path": "/etc/passwd",
    "a URL": "s3://other/a.parquet",
    "a path into the log": "_delta_log/00000000000000000000.json",
    "zero": 0,
    "negative": -5,
    "10^12": 10**12,
    "2^63": 1 << 63,
    "beyond 64 bits": "<big>",
    "a fraction": 1.5,
    "infinite": "<1e400>",
    "a list": [7],
    "a list of nulls": [None],
    "an object": {"x": 1},
    "not JSON": "{",
}


def written(action: Any) -> tuple[str, dict[str, Any]]:
    [(kind, body)] = orjson.loads(encode([action])).items()
    return kind, body


def hostile_actions() -> Iterator[tuple[str, str, bytes]]:
    """(action, field, line) of every action with one field that is none."""
    for action in ACTIONS:
        kind, body = written(action)
        for name, value in HOSTILE.items():
            yield kind, f"all {name}", _line({kind: value})
            for field in body:
                yield kind, f"{field} {name}", _line({kind: body | {field: value}})
            for field in [f for f, inner in body.items() if isinstance(inner, dict)]:
                for key in body[field]:
                    inner = body[field] | {key: value}
                    yield kind, f"{field}.{key} {name}", _line({kind: body | {field: inner}})


def _line(document: Any) -> bytes:
    text = orjson.dumps(document)
    return text.replace(b'"<big>"', b"1" + b"0" * 30).replace(b'"<1e400>"', b"1e400")


CASES = list(hostile_actions())
OURS = encode([CommitInfo({"stamp": 1})])
THEIRS = encode([CommitInfo(engine="other", operation="HOSTILE")])


def numbers_of(commit: Any) -> Iterator[int]:
    for action in commit.actions:
        match action:
            case Add():
                yield from (action.size, action.modification_time)
            case Remove():
                yield action.deletion_timestamp
            case Txn():
                yield action.version
            case CommitInfo():
                yield action.timestamp


def test_what_is_read_is_what_it_says_to_be() -> None:
    assert len(CASES) > 500
    for kind, what, line in CASES:
        own = None
        with contextlib.suppress(CorruptTable):
            own = parse(3, OURS + line, "log")
        foreign = parse(3, THEIRS + line, "log")
        assert (own is None) == bool(foreign.faults), (kind, what)
        for commit in filter(None, (own, foreign)):
            for number in numbers_of(commit):
                assert type(number) is int, (kind, what)
                assert 0 <= number < 1 << 63, (kind, what)
            for add in commit.adds:
                assert ".." not in add.path, (kind, what)
                assert not add.path.startswith(("/", "_delta_log")), (kind, what)
                stats = FileStats(add.stats)
                assert stats.records is None or 0 <= stats.records < 1 << 63
                newest_micros(add.stats, "ordered_at")
                oldest_micros(add.stats, "ordered_at")


@pytest.mark.parametrize("field", ["stamp", "rows", "bytes", "fence", "vacuum", "erased", "x"])
def test_what_a_commit_says_of_itself_is_no_reason_to_fail(field: str) -> None:
    for value in HOSTILE.values():
        for said in (value, {field: value}):
            info = {"commitInfo": written(CommitInfo())[1] | {"lakequeue": said}}
            assert isinstance(parse(3, THEIRS + _line(info)).info, dict)
        for name in ("timestamp", "operation", "engineInfo", "txnId"):
            info = {"commitInfo": written(CommitInfo(engine="other"))[1] | {name: value}}
            commit = parse(3, THEIRS + _line(info))
            assert commit.timestamp_ms >= 0
            assert isinstance(commit.told, str)


def test_a_statistic_that_is_none_is_not_known() -> None:
    for value in HOSTILE.values():
        for text in (value, STATS | {"numRecords": value}, STATS | {"minValues": value}):
            stats = FileStats(_line(text).decode())
            assert stats.records is None or type(stats.records) is int
            assert stats.low("offset", int) in {None, 0}
            assert stats.low("topic_id", str) in {None, "t1"}
        for name, kind in (("topic_id", str), ("offset", int), ("ordered_at", str)):
            stats = FileStats(_line({"maxValues": {name: value}}).decode())
            high = stats.high(name, kind)
            assert high is None or type(high) is kind


def two_records() -> QueueRoot:
    """In one file."""
    root = QueueRoot.over(ObjectStore.in_memory())
    log = LogBuilder(root)
    log.append(log.topic(), ["0", "1"])
    return root


@pytest.fixture(scope="module")
def root() -> QueueRoot:
    """The guard is off."""
    root = two_records()
    take_guard_off(root.store, "log")
    return root


@pytest.mark.parametrize("kind", sorted({kind for kind, _, _ in CASES} - {"protocol"}))
def test_in_a_guarded_table_it_stops_nothing_and_is_named(root: QueueRoot, kind: str) -> None:
    running, watch = LogReader(root), TablesWatch(root, clock=lambda: float("inf"))
    for number, (of, what, line) in enumerate(CASES):
        if of != kind or number % 7:
            continue  # each value somewhere, in a tenth of the time
        version = TableLog(root.store, "log").open().version + 1
        root.store.put_new(commit_path("log", version), THEIRS + line)
        running.refresh()
        for reader in (running, LogReader(root)):
            assert len(list(reader.files())) == 1, (kind, what)
        handle = TableLog(root.store, "log").open()
        assert handle.foreign >= version, (kind, what)
    [trouble] = [t for t in look(root) if "HOSTILE" in t.what]
    assert not trouble.stops
    assert any(t.table == "log" for t in watch.troubles())
    assert repair_table(root, "log", LOG, execute=True).lost == []
    assert look(root) == []
    take_guard_off(root.store, "log")


def test_in_a_table_that_was_never_guarded_it_is_an_error_that_names_it() -> None:
    store = two_records().store
    as_of_earlier_release(store, "log")
    handle = TableLog(store, "log").open()
    odd = _line({"txn": {"appId": "order", "version": -5}})
    store.put_new(commit_path("log", handle.version + 1), THEIRS + odd)
    for _ in range(2):
        with pytest.raises(CorruptTable, match="txn: version is -5"):
            handle.refresh()
    with pytest.raises(CorruptTable, match="txn: version is -5"):
        TableLog(store, "log").open()
    assert FOREIGN_TXN not in handle.txns


def test_a_tail_returns_what_comes_before() -> None:
    store = ObjectStore.in_memory()
    store.put_new(commit_path("t", 0), OURS)
    store.put_new(commit_path("t", 1), OURS + _line({"txn": {"appId": "a", "version": 1 << 63}}))
    store.put_new(commit_path("t", 2), OURS)
    tail = Tail(store, "t", -1)  # type: ignore[arg-type]
    assert [c.version for c in tail.poll()] == [0]
    with pytest.raises(CorruptTable, match="txn: version is 9223372036854775808"):
        tail.poll()
    passing = Tail(store, "t", -1, pass_torn=True)  # type: ignore[arg-type]
    assert [bool(c.torn) for c in passing.poll()] == [False, True, False]
