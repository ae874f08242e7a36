"""Topics and shards whose rows made the order job fail are tried alone first, and others gain."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import jobs.rows.id_hash
import jobs.rows.key_projection
import queue_tables.log.writer
from queue_tables.root import QueueRoot
from tests.support.data.foreign_shard import ForeignShard, records
from tests.support.data.order_truth import log_rows, reject_rows
from tests.support.data.topic_values import new_topic
from tests.support.runs.order_process import Orderer

BASE = 1_700_000_000_000_000


def fail_on_ids(monkeypatch: pytest.MonkeyPatch, marker: str = "poison") -> None:
    """Reading fails for ids that hold the marker."""
    right = jobs.rows.id_hash.hash_ids

    def hash_ids(ids: pa.Array) -> Any:
        if any(marker in (i or "") for i in ids.to_pylist()):
            raise ZeroDivisionError(f"no hash of {marker}")
        return right(ids)

    monkeypatch.setattr("jobs.rows.key_projection.hash_ids", hash_ids)


def values(count: int, guilty: set[int]) -> list[bytes]:
    return [b"poison-%d" % n if n in guilty else b"good-%d" % n for n in range(count)]


def test_a_reader_that_fails_at_every_row_blames_none(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = new_topic(root)
    ForeignShard(root).commit(BASE, records(topic_id, BASE, values(20, {3})))
    with monkeypatch.context() as broken:
        fail_on_ids(broken, "")
        with pytest.raises(ZeroDivisionError):
            Orderer(root, 1, whole=True).drain()
    assert not reject_rows(root)
    Orderer(root, 2, whole=True).drain()
    assert len(log_rows(root)) == 20


def test_a_shard_whose_rows_failed_is_read_apart_until_a_file_of_it_is_sound(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = new_topic(root)
    bad, good = ForeignShard(root, "bad"), ForeignShard(root, "good")
    tried: list[list[str]] = []
    right = jobs.rows.key_projection._project

    def project(held: Any, *more: Any) -> Any:
        tried.append([file.shard for file, _ in held])
        return right(held, *more)

    monkeypatch.setattr("jobs.rows.key_projection._project", project)
    fail_on_ids(monkeypatch)
    orderer = Orderer(root, 1, whole=True)

    def order(stamp: int, guilty: set[int]) -> list[list[str]]:
        for n in range(3):
            good.commit(stamp + n, records(topic_id, stamp + n, values(4, set())))
        bad.commit(stamp + 3, records(topic_id, stamp + 3, values(4, guilty)))
        tried.clear()
        orderer.drain()
        return list(tried)

    together = ["good-0"] * 3
    assert order(BASE, {1})[0] == [*together, "bad-0"], "nothing is known yet"
    assert order(BASE + 10, {1})[:2] == [together, ["bad-0"]]
    assert order(BASE + 20, set()) == [together, ["bad-0"]]
    assert order(BASE + 30, set()) == [[*together, "bad-0"]]
    assert len(reject_rows(root)) == 2
    assert len(log_rows(root)) == 4 * 16 - 2


def test_a_topic_that_was_guilty_is_tried_first_and_rows_of_others_are_not_tried(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, other = new_topic(root), new_topic(root, "other")
    shards = [ForeignShard(root, name) for name in ("bad", "other")]
    tried: list[set[bytes]] = []
    right = queue_tables.log.writer._rendered

    def rendered(rows: pa.Table, compression: str) -> pa.Buffer:
        tried.append(set(rows["value"].to_pylist()))
        if any(b"poison" in value for value in tried[-1]):
            raise ZeroDivisionError("no page")
        return right(rows, compression)

    monkeypatch.setattr("queue_tables.log.writer._rendered", rendered)
    orderer = Orderer(root, 1)

    def order(stamp: int, guilty: set[int]) -> None:
        shards[0].commit(stamp, records(bad, stamp, values(20, guilty)))
        shards[1].commit(
            stamp + 1, records(other, stamp + 1, [b"of another %d" % n for n in range(20)])
        )
        tried.clear()
        orderer.drain()

    order(BASE, {3, 11})
    order(BASE + 10, {3, 11})
    assert not [some for some in tried[:-1] if b"of another 0" in some]
    assert b"of another 0" in tried[-1], "they are written once, with what passed"
    order(BASE + 20, set())
    assert len(tried) == 2, "its rows, which pass; then all"
    order(BASE + 30, set())
    assert len(tried) == 1, "it is as any other topic"
    assert [r["row"] for r in reject_rows(root)] == [3, 11] * 2
    assert len(log_rows(root)) == 4 * 40 - 4
