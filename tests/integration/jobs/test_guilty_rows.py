"""Rows and files that make the order job fail, for reasons nobody thought of: the rest goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import jobs.ordering.order_batch
import jobs.rows.id_hash
import queue_tables.log.writer
from jobs.ordering.numbering import order
from jobs.ordering.order_piece import Search, Trial
from jobs.rows.projected_rows import ProjectedBatch
from lakequeue.clock import hour_of
from lakequeue.records import Stamp
from lakequeue.steps import Step
from queue_tables.delta.actions import commit_path
from queue_tables.delta.commit_json import parse
from queue_tables.delta.tail import commit_versions
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX
from queue_tables.shards.bulk import BulkFile, commit_bulk, shard_of
from queue_tables.shards.shards import shard_path
from tests.support.data.foreign_shard import ForeignShard, records
from tests.support.data.order_truth import log_rows, reject_rows
from tests.support.data.topic_values import new_topic
from tests.support.runs.order_process import Orderer

BASE = 1_700_000_000_000_000


def fail_on_ids(monkeypatch: pytest.MonkeyPatch, marker: str = "poison") -> None:
    """Reading fails, in whatever process, for ids that hold the marker."""
    right = jobs.rows.id_hash.hash_ids

    def hash_ids(ids: pa.Array) -> Any:
        if any(marker in (i or "") for i in ids.to_pylist()):
            raise ZeroDivisionError(f"no hash of {marker}")
        return right(ids)

    monkeypatch.setattr("jobs.rows.key_projection.hash_ids", hash_ids)


def fail_on_values(monkeypatch: pytest.MonkeyPatch, marker: bytes = b"poison") -> None:
    """Writing fails for values that hold the marker."""
    right = queue_tables.log.writer._rendered

    def rendered(rows: pa.Table, compression: str) -> pa.Buffer:
        if any(marker in (v or b"") for v in rows["value"].to_pylist()):
            raise ZeroDivisionError(f"no page of {marker!r}")
        return right(rows, compression)

    monkeypatch.setattr("queue_tables.log.writer._rendered", rendered)


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "reading": fail_on_ids,
    "writing": fail_on_values,
}


def values(count: int, guilty: set[int]) -> list[bytes]:
    return [b"poison-%d" % n if n in guilty else b"good-%d" % n for n in range(count)]


@pytest.mark.parametrize("whole", [True, False], ids=["driver", "tasks"])
@pytest.mark.parametrize("fault", FAULTS)
def test_guilty_rows_are_found_and_the_rest_is_ordered(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch, fault: str, whole: bool
) -> None:
    topic_id, other = new_topic(root), new_topic(root, "other")
    shard, second = ForeignShard(root), ForeignShard(root, "second")
    guilty = {7, 8, 150}
    shard.commit(BASE, records(topic_id, BASE, values(200, guilty)))
    second.commit(BASE + 1, records(other, BASE + 1, values(50, set())))
    FAULTS[fault](monkeypatch)
    Orderer(root, 1, whole=whole).drain()
    log, rejects = log_rows(root), reject_rows(root)
    assert len(log) == 250 - 3
    assert not [r for r in log if b"poison" in r["value"]]
    assert [r["value"] for r in rejects] == [b"poison-%d" % n for n in sorted(guilty)]
    assert {r["reason"] for r in rejects} == {"unorderable"}
    assert all(r["detail"].startswith("ZeroDivisionError: no ") for r in rejects)
    offsets = [r["offset"] for r in log if r["topic"] == "orders"]
    assert offsets == list(range(197))


def test_looking_for_guilty_rows_reads_each_file_once_and_numbers_the_batch_a_few_times(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = new_topic(root)
    guilty = set(range(0, 200, 20))
    ForeignShard(root).commit(BASE, records(topic_id, BASE, values(200, guilty)))
    fail_on_values(monkeypatch)
    reads = []

    def read(*args: Any) -> pa.Table:
        reads.append(args)
        return read_data_file(*args)

    numbered = []

    def count(*args: Any) -> Any:
        numbered.append(args)
        return order(*args)

    monkeypatch.setattr("queue_tables.log.writer.read_data_file", read)
    monkeypatch.setattr("jobs.ordering.order_batch.order", count)
    Orderer(root, 1).drain()
    assert len(reject_rows(root)) == len(guilty)
    # There are a hundred trials: others wait for them.
    assert len(reads) == 1
    assert len(numbered) <= 4


def test_offsets_of_duplicates_are_those_of_the_batch_as_it_is_ordered(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    rows = pa.concat_tables(
        records(topic_id, BASE, [value] * 4, message_id=value).slice(n, 1)
        for n, value in enumerate([b"poison", b"good", b"good", b"more"])
    )
    shard.commit(BASE, rows)
    fail_on_values(monkeypatch)
    Orderer(root, 1).drain()
    assert [(r["value"], r["offset"]) for r in log_rows(root)] == [(b"good", 0), (b"more", 1)]
    assert [(r["reason"], r["original_offset"]) for r in reject_rows(root)] == [
        ("unorderable", None),
        ("duplicate", 0),
    ]


def test_an_atomic_request_goes_as_a_whole(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    shard.commit(BASE, records(topic_id, BASE, values(6, {2}), atomic=True, request="r"))
    shard.commit(BASE + 1, records(topic_id, BASE + 1, values(6, set()), atomic=True, request="s"))
    fail_on_values(monkeypatch)
    Orderer(root, 1).drain()
    assert {r["stamp"] for r in log_rows(root)} == {BASE + 1}
    assert len(log_rows(root)) == len(reject_rows(root)) == 6


def test_what_fails_for_every_row_blames_none(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = new_topic(root)
    ForeignShard(root).commit(BASE, records(topic_id, BASE, values(20, {3})))
    orderer = Orderer(root, 1)
    with monkeypatch.context() as broken:
        fail_on_values(broken, b"")
        with pytest.raises(ZeroDivisionError):
            orderer.drain()
    assert not log_rows(root)
    assert not reject_rows(root)
    Orderer(root, 2).drain()
    assert len(log_rows(root)) == 20


def test_a_search_that_is_broken_off_blames_no_row_of_a_process_that_fails_at_every_row(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    for n in range(4):
        shard.commit(BASE + n, records(topic_id, BASE + n, values(20, set())))
    clock = iter(range(10**6))
    monkeypatch.setattr("jobs.ordering.order_piece.boot_seconds", lambda: next(clock))
    monkeypatch.setattr("jobs.ordering.order_piece.SEARCH_S", 30.0)  # that many trials
    monkeypatch.setattr("jobs.ordering.dividing.SLICE_ROWS", 1)
    fail_on_values(monkeypatch, b"")
    with pytest.raises(ZeroDivisionError):
        Orderer(root, 1).drain()
    assert not reject_rows(root)


def test_a_verdict_stands_over_the_death_of_its_leader(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = new_topic(root)
    ForeignShard(root).commit(BASE, records(topic_id, BASE, values(20, {3, 11})))
    orderer = Orderer(root, 1)

    def die(step: Step) -> None:
        if step is Step.ORDER_REJECTS_COMMITTED:
            raise SystemExit(9)

    with monkeypatch.context() as dying:
        fail_on_values(dying)
        dying.setattr("jobs.ordering.order_batch.reach", die)
        with pytest.raises(SystemExit):
            orderer.drain()
    assert not log_rows(root)
    before = reject_rows(root)
    assert [r["row"] for r in before] == [3, 11]
    # The next leader meets no fault at all, and judges the same.
    Orderer(root, 2).drain()
    assert reject_rows(root) == before
    assert [r["row"] for r in log_rows(root)] == [n for n in range(20) if n not in {3, 11}]


def test_what_is_sound_is_ordered_before_rows_are_searched(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, other = new_topic(root), new_topic(root, "other")
    shards = [ForeignShard(root, name) for name in ("one", "two")]
    for n in range(12):
        shard = shards[n % 2]
        if n == 7:
            shard.commit(BASE + n, records(bad, BASE + n, values(40, {3, 30})))
        else:
            shard.commit(BASE + n, records(other, BASE + n, [b"%d-%d" % (n, i) for i in range(5)]))
    seen: list[list[int]] = []

    right = Search.run

    def searched(search: Search, trial: Trial, *, once: bool) -> None:
        if not search.divides:
            seen.append(sorted({r["stamp"] - BASE for r in log_rows(root)}))
            seen.append(sorted({stamp - BASE for stamp in search.rows["stamp"].to_pylist()}))
        right(search, trial, once=once)

    monkeypatch.setattr("jobs.ordering.order_piece.SEARCH_S", 0.0)
    monkeypatch.setattr("jobs.ordering.dividing.SLICE_ROWS", 1)
    monkeypatch.setattr(Search, "run", searched)
    fail_on_values(monkeypatch)
    orderer = Orderer(root, 1)
    orderer.drain()
    assert seen == [list(range(7)), [7]], (
        "only the commit that fails is searched, the earlier stand"
    )
    log = log_rows(root)
    assert len(log) == 11 * 5 + 38
    assert [r["row"] for r in reject_rows(root)] == [3, 30]
    places = [(r["stamp"], r["row"]) for r in log if r["topic"] == "other"]
    assert places == sorted(places)
    assert [r["offset"] for r in log if r["topic"] == "other"] == list(range(55))


def test_a_leader_that_dies_between_two_parts_of_a_batch_loses_and_doubles_nothing(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    for n in range(4):
        shard.commit(BASE + n, records(topic_id, BASE + n, values(20, {5} if n == 2 else set())))

    right = Search.run

    def die(search: Search, trial: Trial, *, once: bool) -> None:
        if not search.divides:
            raise SystemExit(9)
        right(search, trial, once=once)

    monkeypatch.setattr("jobs.ordering.order_piece.SEARCH_S", 0.0)
    monkeypatch.setattr("jobs.ordering.dividing.SLICE_ROWS", 1)
    with monkeypatch.context() as dying:
        fail_on_values(dying)
        dying.setattr(Search, "run", die)
        with pytest.raises(SystemExit):
            Orderer(root, 1).drain()
    assert {r["stamp"] - BASE for r in log_rows(root)} == {0, 1}
    fail_on_values(monkeypatch)
    Orderer(root, 2).drain()
    assert [(r["stamp"] - BASE, r["row"]) for r in reject_rows(root)] == [(2, 5)]
    assert len(log_rows(root)) == 79
    assert [r["offset"] for r in log_rows(root)] == list(range(79))


def test_a_write_of_spark_is_not_divided(root: QueueRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    topic_id = new_topic(root)
    shard, node = shard_of("spark-w", "0"), ForeignShard(root)
    node.commit(BASE, records(topic_id, BASE, [b"before"]))
    files = []
    for n in (2, 4, 6):
        rows = records(topic_id, BASE + n, values(10, {4} if n == 4 else set()))
        hour = {"hour": hour_of(BASE + n)}
        add = write_data_file(
            root.store, shard_path("inbox", shard), rows.drop_columns(["hour"]), hour, INBOX
        )
        files.append(BulkFile(shard, add, Stamp(BASE + n), 10, 100))
    commit_bulk(root, "spark-w", "0", 0, files)
    node.commit(BASE + 3, records(topic_id, BASE + 3, [b"between"]))
    node.commit(BASE + 9, records(topic_id, BASE + 9, [b"behind"]))
    monkeypatch.setattr("jobs.ordering.order_piece.SEARCH_S", 0.0)
    monkeypatch.setattr("jobs.ordering.dividing.SLICE_ROWS", 1)
    fail_on_values(monkeypatch)
    Orderer(root, 1).drain()
    versions: dict[bytes, int] = {}
    for version in commit_versions(root.store, "log"):
        for add in parse(version, root.store.get(commit_path("log", version))).adds:
            rows = read_data_file(root.store, "log", add.path, ["value"])
            versions |= dict.fromkeys(rows["value"].to_pylist(), version)
    written = {versions[value] for value in values(10, {4}) if value in versions}
    assert len(written) == 1, "it is in the log in one version"
    assert len({versions[b"before"], *written, versions[b"behind"]}) == 3, "others are divided off"
    order = [r["stamp"] - BASE for r in log_rows(root)]
    assert order == sorted(order)
    assert len(order) == 3 + 29


def test_what_a_search_has_found_before_the_batch_is_divided_is_not_searched_again(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = new_topic(root)
    shard = ForeignShard(root)
    for n in range(4):
        shard.commit(BASE + n, records(topic_id, BASE + n, values(20, {5, 11})))
    clock = iter(range(10**6))
    monkeypatch.setattr("jobs.ordering.order_piece.boot_seconds", lambda: next(clock))
    monkeypatch.setattr("jobs.ordering.order_piece.SEARCH_S", 30.0)  # that many trials
    monkeypatch.setattr("jobs.ordering.dividing.SLICE_ROWS", 1)
    found: list[int] = []
    right = Search.run

    def run(search: Search, trial: Trial, *, once: bool) -> None:
        known = search.rows.num_rows - search.rows["fault"].null_count
        try:
            right(search, trial, once=once)
        finally:
            found.append(search.rows.num_rows - search.rows["fault"].null_count - known)

    monkeypatch.setattr(Search, "run", run)
    fail_on_values(monkeypatch)
    Orderer(root, 1).drain()
    assert found[0] > 0, "it was broken off before it had found anything"
    assert sum(found) == 8, "each is found once"
    assert [r["row"] for r in reject_rows(root)] == [5, 11] * 4
    assert [r["offset"] for r in log_rows(root)] == list(range(72))


def test_copies_of_a_guilty_row_are_found_with_it(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second copy is written only once the first is put aside."""
    topic_id = new_topic(root)
    rows = pa.concat_tables(
        records(topic_id, BASE, [value] * 5, message_id=value).slice(n, 1)
        for n, value in enumerate([b"poison", b"good", b"poison", b"poison", b"more"])
    )
    ForeignShard(root).commit(BASE, rows)
    fail_on_values(monkeypatch)
    Orderer(root, 1).drain()
    assert [r["value"] for r in log_rows(root)] == [b"good", b"more"]
    assert [(r["row"], r["reason"]) for r in reject_rows(root)] == [
        (n, "unorderable") for n in (0, 2, 3)
    ]


@pytest.mark.parametrize("fails_in", ["order", "log_plan"])
def test_rows_that_cannot_be_numbered_are_found_as_well(
    root: QueueRoot, monkeypatch: pytest.MonkeyPatch, fails_in: str
) -> None:
    topic_id = new_topic(root)
    ForeignShard(root).commit(BASE, records(topic_id, BASE, values(40, set())))
    right = getattr(jobs.ordering.order_batch, fails_in)

    def failing(batch: ProjectedBatch, *args: Any) -> Any:
        sound = batch.table.filter(pc.is_null(batch.table["fault"]))
        if {3, 29} & set(sound["row"].to_pylist()):
            raise ZeroDivisionError("no number")
        return right(batch, *args)

    monkeypatch.setattr(f"jobs.ordering.order_batch.{fails_in}", failing)
    Orderer(root, 1).drain()
    assert [r["row"] for r in reject_rows(root)] == [3, 29]
    assert len(log_rows(root)) == 38
