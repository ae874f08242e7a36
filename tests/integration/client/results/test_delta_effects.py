"""Exactly-once effects in a Delta table, with real nodes and a consumer killed at each step."""

from __future__ import annotations

import signal
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakequeue import Admin, Consumer
from lakequeue.errors import InvalidRequest, ResultBehind
from lakequeue.steps import Step
from tests.support.kinds import one_now
from tests.support.services.small_cluster import COUNT, Cluster
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.timeout(400)
STEPS = [step for step in Step if step.startswith("effect.")]
WAYS = {"append": (), "merge": ("--merge",), "asyncio": ("--asyncio",)}


@pytest.fixture
def table(tmp_path: Path) -> str:
    """An empty result table."""
    uri = str(tmp_path / "result")
    deltalake.DeltaTable.create(uri, pa.schema([pa.field("n", pa.int64())]))
    return uri


def rows(table: str) -> list[int]:
    numbers: list[int] = deltalake.DeltaTable(table).to_pyarrow_table()["n"].to_pylist()
    return sorted(numbers)


def start(cluster: Cluster, table: str, *args: str) -> None:
    at = ("--consumer", cluster.node.url, "--group", cluster.group)
    cluster.start("effect_process", *at, "--table", table, *args)


def wait_written(table: str, count: int) -> None:
    wait_for(lambda: len(rows(table)) >= count, f"{count} rows", 120)


@pytest.mark.parametrize("extra", one_now(WAYS.values()), ids=WAYS)
@pytest.mark.parametrize("step", one_now(STEPS))
def test_killed_at_a_step_each_record_is_in_the_table_once(
    cluster: Cluster, table: str, step: Step, extra: tuple[str, ...]
) -> None:
    start(cluster, table, "--crash-at", f"{step}:2", *extra)
    assert cluster.processes[0].wait(120) == -signal.SIGKILL
    start(cluster, table, *extra)
    wait_written(table, COUNT)
    wait_for(lambda: cluster.committed(cluster.group) == COUNT, "the group knows", 60)
    cluster.end_processes()
    assert rows(table) == list(range(COUNT))


@pytest.mark.parametrize("extra", one_now([(), ("--merge",)]), ids=["append", "merge"])
def test_a_frozen_consumer_that_wakes_up_writes_nothing_twice(
    cluster: Cluster, table: str, extra: tuple[str, ...]
) -> None:
    start(cluster, table, "--crash-at", "effect.taken:2:stop", *extra)
    old = cluster.processes[0]
    assert old.stdout is not None
    old.stdout.readline()
    start(cluster, table, *extra)
    wait_written(table, COUNT)
    old.send_signal(signal.SIGCONT)
    cluster.produce(COUNT, COUNT + 20)
    wait_written(table, COUNT + 20)
    wait_for(lambda: cluster.committed(cluster.group) == COUNT + 20, "the group knows", 60)
    assert old.poll() is None, "it goes on as a member"
    cluster.end_processes()
    assert rows(table) == list(range(COUNT + 20))


def test_what_the_table_has_wins_over_what_the_group_has(cluster: Cluster, table: str) -> None:
    def drain(expected: int) -> None:
        with Consumer("in", "g", urls=cluster.node.url) as consumer:
            while len(rows(table)) < expected:
                with consumer.transaction(table) as tx:
                    if tx.messages:
                        tx.append(pa.table({"n": [m.value for m in tx.messages[:2]]}))
                        tx.append(pa.table({"n": [m.value for m in tx.messages[2:]]}))
            consumer.commit()

    drain(COUNT)
    with Admin(cluster.ingest_url, cluster.node.url) as admin:
        admin.seek("g", "earliest")
    cluster.produce(COUNT, COUNT + 2)
    drain(COUNT + 2)
    assert rows(table) == list(range(COUNT + 2))


def test_a_table_that_is_behind_is_an_error_with_the_numbers(cluster: Cluster, table: str) -> None:
    with Consumer("in", "g", urls=cluster.node.url) as consumer:
        written = False
        while not written:
            with consumer.transaction(table, max_records=5) as tx:
                tx.append(pa.table({"n": [m.value for m in tx.messages]}))
            written = tx.counted
        while cluster.committed("g") < COUNT:
            for message in consumer.poll():
                message.ack()
            consumer.commit()
    cluster.produce(COUNT, COUNT + 4)

    def rounds_until_gap(consumer: Consumer) -> None:
        while True:
            with consumer.transaction(table):
                pass

    with Consumer("in", "g", urls=cluster.node.url) as consumer:
        with pytest.raises(ResultBehind, match="up to offset 5") as behind:
            rounds_until_gap(consumer)
        assert (behind.value.extra["done"], behind.value.extra["from_offset"]) == (5, COUNT // 2)
        with consumer.transaction(table, timeout_s=60, skip_gap=True) as tx:
            assert [m.offset for m in tx.messages] == [30, 31]


def test_an_operation_that_changes_nothing_counts(cluster: Cluster, table: str) -> None:
    deltalake.write_deltalake(table, pa.table({"n": list(range(COUNT))}), mode="append")
    with Consumer("in", "g", urls=cluster.node.url) as consumer:
        seen = 0
        while seen < COUNT:
            with consumer.transaction(table, max_records=7) as tx:
                if tx.messages:
                    tx.table.merge(
                        pa.table({"n": [m.value for m in tx.messages]}),
                        "t.n = s.n",
                        source_alias="s",
                        target_alias="t",
                        commit_properties=tx.commit_properties,
                    ).when_not_matched_insert_all().execute()
                    seen += len(tx.messages)
            assert tx.counted or not tx.messages
        consumer.commit()
    assert rows(table) == list(range(COUNT))
    assert cluster.committed("g") == COUNT


def test_rows_and_an_operation_in_one_round_are_an_error(cluster: Cluster, table: str) -> None:
    def rounds(consumer: Consumer, rows_first: bool) -> None:
        with consumer.transaction(table, timeout_s=60) as tx:
            assert tx.messages
            if rows_first:
                tx.append(pa.table({"n": [m.value for m in tx.messages]}))
            mine = tx.commit_properties
            tx.append(pa.table({"n": [m.value for m in tx.messages]}))
            deltalake.write_deltalake(tx.table, pa.table({"n": [1]}), commit_properties=mine)

    with Consumer("in", "g", urls=cluster.node.url) as consumer:
        for rows_first in (True, False):
            with pytest.raises(InvalidRequest, match="both"):
                rounds(consumer, rows_first)
    assert rows(table) == []


def test_an_operation_without_the_position_is_an_error(cluster: Cluster, table: str) -> None:
    def forgetful(consumer: Consumer) -> None:
        with consumer.transaction(table, timeout_s=60) as tx:
            assert tx.commit_properties.app_transactions
            deltalake.write_deltalake(tx.table, pa.table({"n": [1]}), mode="append")

    with (
        Consumer("in", "g", urls=cluster.node.url) as consumer,
        pytest.raises(InvalidRequest, match="after the block"),
    ):
        forgetful(consumer)
