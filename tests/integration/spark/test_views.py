"""The matrix: Spark, delta-rs and DuckDB read every table, and answer every view, alike."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

import lakequeue.duck
import lakequeue.spark
from lakequeue.clock import wall_micros
from lakequeue.records import Epoch, Offset, Partition, Stamp, TopicId
from lakequeue.wire import DeadLetterHeader as Dead
from queue_tables.groups import terminal_states
from queue_tables.groups.fact_rows import to_arrow
from queue_tables.groups.facts import Fact, Kind, fold
from queue_tables.groups.record_status import Status, status_in
from queue_tables.groups.state import GroupOffsetsWriter, read_group_state
from queue_tables.querying.arrow_tables import dataset
from queue_tables.querying.views import FUNCTIONS, VIEWS
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX, TABLES
from queue_tables.shards.shards import ShardWriter
from queue_tables.topics import TopicStore
from tests.support.data.rows import rows_of
from tests.support.data.wall import HOUR
from tests.support.runs.maintenance_process import run_metrics
from tests.support.runs.order_process import Orderer

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]
STAMP = 1_700_000_000_000_000
LATER = 4_100_000_000_000_000
"""In the year 2099."""
WORK = [
    *(("settled", None), ("in_flight", 1), ("pending", 1), ("parked", 0), ("dead", 3)),
    *(("expired", None), ("acked", None), ("dying", 2), ("pending", 0), ("pending", 2)),
]
"""Status and attempt of each record of `work` in the group `workers`."""
UNDONE = {"pending", "in_flight", "parked", "dying"}


@pytest.fixture
def queue(root: QueueRoot, monkeypatch: pytest.MonkeyPatch) -> QueueRoot:
    """Three topics and a dead-letter topic, duplicates, a gone topic, three groups."""
    monkeypatch.setattr(terminal_states, "MOST_DEAD", 1)
    topics = TopicStore(root)
    orders, gone = topics.create("orders", partitions=2)[0], topics.create("gone")[0]
    letters = topics.create("orders.dlq", partitions=1)[0]
    work = topics.create("work", partitions=1)[0]
    values: list[tuple[str, int, bytes | None, int, str | None, list[dict[str, Any]]]] = [
        (orders.topic_id, 0, b'{"n": 1}', 2, "m1", []),
        (orders.topic_id, 0, "ä".encode(), 1, "m2", [{"key": "h", "value": b"\x00\xff"}]),
        (orders.topic_id, 1, b"\xff\xfe", 0, None, []),
        (orders.topic_id, 1, None, 0, "m3", []),
        (orders.topic_id, 0, b'{"n": 1}', 2, "m1", []),
        (gone.topic_id, 0, b"lost", 1, "m4", []),
        (orders.topic_id, 0, b"odd", 1, "", []),  # an id that is none: it is put aside
        (letters.topic_id, 0, b'{"n": 9}', 2, "m5", _dead_headers("card: declined")),
        (letters.topic_id, 0, b'{"n": 8}', 2, "m6", _dead_headers()),
        *((work.topic_id, 0, b"w", 1, f"w{n}", []) for n in range(len(WORK))),
    ]
    columns = {
        "topic_id": [v[0] for v in values],
        "partition": [v[1] for v in values],
        "value": [v[2] for v in values],
        "value_format": [v[3] for v in values],
        "key_format": [0] * len(values),
        "message_id": [v[4] for v in values],
        "headers": [v[5] for v in values],
        "timestamp": [STAMP + n for n in range(len(values))],
        "request": [str(n) for n in range(len(values))],
        "atomic": [False] * len(values),
        "bytes": [len(v[2] or b"") for v in values],
    }
    topics.delete("gone")
    shard = ShardWriter.create(root, "inbox", "node")
    shard.append(rows_of(INBOX, columns, without=("hour", "stamp", "row")), Stamp(STAMP))
    Orderer(root, 1).drain()
    facts = [
        Fact(
            Kind.COMMITTED, group, "orders", orders.topic_id, Partition(partition), 0, Epoch(1),
            Offset(offset), "m", at=STAMP,
        )
        for group, partition, offset in (("billing", 0, 1), ("billing", 1, 0), ("done", 0, 2))
    ] + [
        Fact(
            Kind.COMMITTED, "redrive.orders.dlq", "orders.dlq", letters.topic_id, Partition(0), 0,
            Epoch(1), Offset(1), "m", at=STAMP,
        )
    ]  # fmt: skip
    facts += _work_facts(work.topic_id)
    journal = ShardWriter.create(root, "journal", "consumer")
    journal.append(to_arrow(facts), Stamp(STAMP))
    writer = GroupOffsetsWriter(root)
    states, folded = writer.begin(Epoch(1))
    states = fold(states, facts)
    writer.commit(states, folded | {journal.name: Stamp(STAMP)})
    run_metrics(root, wall_micros() + 2 * HOUR)
    return root


def _work_facts(topic_id: TopicId) -> list[Fact]:
    def fact(kind: Kind, offset: int, attempt: int = 1, **more: Any) -> Fact:
        return Fact(
            kind, "workers", "work", topic_id, Partition(0), 0, Epoch(1), Offset(offset),
            mode="queue", at=STAMP + offset, attempt=attempt, **more,
        )  # fmt: skip

    return [
        fact(Kind.DEAD, 0, reason="max_attempts"),
        fact(Kind.DELIVERED, 1, until=LATER, member="m", first_at=STAMP),
        fact(Kind.DELIVERED, 2, until=STAMP, member="m", first_at=STAMP),
        fact(Kind.PARKED, 3, 0, until=LATER),
        fact(Kind.DEAD, 4, 3, reason="expired", dead_letter="work.dlq/0@7"),
        fact(Kind.EXPIRED, 5, 0),
        fact(Kind.ACKED, 6, 2, member="m"),
        fact(Kind.DYING, 7, 2, until=STAMP, reason="max_attempts: no: 2", first_at=STAMP),
        fact(Kind.PARKED, 9, 2, until=STAMP),
    ]


def _dead_headers(nack_reason: str | None = None) -> list[dict[str, Any]]:
    said = {
        Dead.TOPIC: "orders",
        Dead.PARTITION: "1",
        Dead.OFFSET: "1",
        Dead.GROUP: "billing",
        Dead.ATTEMPTS: "5",
        Dead.REASON: "max_attempts",
    }
    said |= {} if nack_reason is None else {Dead.NACK_REASON: nack_reason}
    return [{"key": key, "value": value.encode()} for key, value in said.items()]


def plain(value: Any) -> Any:
    """A value as text that is the same whichever engine it came from."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return aware.astimezone(dt.UTC).isoformat()
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value


def same_rows(rows: Iterable[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(plain(row), sort_keys=True) for row in rows)


def by_spark(spark: SparkSession, sql: str) -> list[str]:
    return same_rows(spark.sql(sql).toArrow().to_pylist())


def by_duckdb(connection: Any, sql: str) -> list[str]:
    found = connection.sql(sql).to_arrow_table()
    return same_rows(found.to_pylist())


def test_every_table_reads_the_same_in_spark_delta_rs_and_duckdb(
    spark: SparkSession, queue: QueueRoot
) -> None:
    connection = lakequeue.duck.connect(queue.uri)
    tables = {name: table for name, table in TABLES.items() if not table.when_needed}
    names = [name for name, table in tables.items() if not table.sharded]
    names += [f"{kind}/{s}" for kind in ("inbox", "journal") for s in queue.shards(kind)]
    assert len(names) == len(tables)
    for name in names:
        rows = dataset(queue.uri, name)
        wanted = same_rows(rows.to_table().to_pylist())
        assert wanted, f"{name} has rows"
        path = Path(str(queue.store.local_path)) / name
        assert by_spark(spark, f"SELECT * FROM delta.`{path}`") == wanted, name
        described = spark.sql(f"DESCRIBE delta.`{path}`").collect()
        told = {row["col_name"]: row["comment"] for row in described}
        meanings = TABLES[name.partition("/")[0]].meanings
        assert {column: told[column] for column in meanings} == meanings, name
        connection.register("one", rows)
        assert by_duckdb(connection, "SELECT * FROM one") == wanted, name


COLUMNS = dict.fromkeys(("records", "group_backlog", "dead_letters"), "* EXCEPT (value_json)")
"""JSON is another type in each engine."""


def test_every_view_answers_the_same_in_spark_and_duckdb(
    spark: SparkSession, queue: QueueRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEQUEUE_ROOT", queue.uri)
    assert lakequeue.spark.create_views(spark, schema="queue_views") == [*VIEWS, *FUNCTIONS]
    connection = lakequeue.duck.connect()
    for name in VIEWS:
        columns = COLUMNS.get(name, "*")
        in_spark = by_spark(spark, f"SELECT {columns} FROM queue_views.{name}")
        in_duckdb = by_duckdb(
            connection, f"SELECT {columns.replace('EXCEPT', 'EXCLUDE')} FROM {name}"
        )
        assert in_spark == in_duckdb, name
        assert in_spark, f"{name} has rows"
    for function, view in FUNCTIONS.items():
        columns = COLUMNS.get(view, "*")
        in_spark = by_spark(spark, f"SELECT {columns} FROM queue_views.{function}('billing')")
        columns = columns.replace("EXCEPT", "EXCLUDE")
        assert in_spark == by_duckdb(connection, f"SELECT {columns} FROM {function}('billing')")

    def ask(sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(sql).collect()]

    assert ask("SELECT topic FROM queue_views.topics ORDER BY 1") == [
        ("orders",),
        ("orders.dlq",),
        ("work",),
    ]
    assert ask("SELECT `group`, `partition`, lag FROM queue_views.lag ORDER BY 1, 2") == [
        ("billing", 0, 1),
        ("billing", 1, 2),
        ("done", 0, 0),
        ("redrive.orders.dlq", 0, 1),
        ("workers", 0, sum(status in UNDONE for status, _ in WORK)),
    ]
    assert ask(
        "SELECT `partition`, `offset` FROM queue_views.backlog('billing') ORDER BY 1, 2"
    ) == [
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    undone = [n for n, (status, _) in enumerate(WORK) if status in UNDONE]
    assert ask("SELECT `offset` FROM queue_views.backlog('workers') ORDER BY 1") == [
        (n,) for n in undone
    ]
    letters = "SELECT from_offset, attempts, reason, nack_reason, redriven FROM {}dead_letters"
    assert ask(f"{letters.format('queue_views.')} ORDER BY `offset`") == [
        (1, 5, "max_attempts", "card: declined", True),
        (1, 5, "max_attempts", None, False),
    ]
    assert ask(
        "SELECT status, `offset` FROM queue_views.message_status"
        " WHERE message_id IN ('m1', 'm4') ORDER BY 1"
    ) == [("duplicate", 0), ("ordered", 0), ("topic_gone", None)]
    payload = "SELECT CAST(value_json:n AS INT) FROM queue_views.records WHERE message_id = 'm1'"
    assert ask(payload) == [(1,)]
    assert connection.sql(f'{letters.format("")} ORDER BY "offset"').fetchall() == [
        (1, 5, "max_attempts", "card: declined", True),
        (1, 5, "max_attempts", None, False),
    ]
    in_duckdb_too = "SELECT CAST(value_json->>'n' AS INT) FROM records WHERE message_id = 'm1'"
    assert connection.sql(in_duckdb_too).fetchall() == [(1,)]
    for relation, n in (("dead_letters", [9, 8]), ("backlog('redrive.orders.dlq')", [8])):
        spark_sql = f"SELECT CAST(value_json:n AS INT) FROM queue_views.{relation} ORDER BY offset"
        assert ask(spark_sql) == [(each,) for each in n]
        duck_sql = f"SELECT CAST(value_json->>'n' AS INT) FROM {relation} ORDER BY \"offset\""
        assert connection.sql(duck_sql).fetchall() == [(each,) for each in n]


def test_the_status_of_a_record_is_the_one_that_a_service_answers_from_the_tables(
    spark: SparkSession, queue: QueueRoot
) -> None:
    lakequeue.spark.create_views(spark, queue.uri, "status_views")
    state = next(s for k, s in read_group_state(queue).states.items() if k.group == "workers")
    rows = spark.sql(
        "SELECT `offset`, status, attempt, member, CAST(unix_micros(until) AS BIGINT), reason, "
        "dead_letter FROM status_views.record_status WHERE `group` = 'workers' ORDER BY 1"
    ).collect()
    assert [(row[1], row[2]) for row in rows] == WORK
    for offset, *said in rows:
        assert Status(*said) == status_in(state, offset, wall_micros()), offset
    assert rows[4]["dead_letter"] == "work.dlq/0@7"
    streams = spark.sql(
        "SELECT `group`, `partition`, `offset`, status FROM status_views.record_status "
        "WHERE topic = 'orders' ORDER BY 1, 2, 3"
    )
    assert [tuple(row) for row in streams.collect()] == [
        ("billing", 0, 0, "acked"),
        ("billing", 0, 1, "pending"),
        ("billing", 1, 0, "pending"),
        ("billing", 1, 1, "pending"),
        ("done", 0, 0, "acked"),
        ("done", 0, 1, "acked"),
    ]
    acked = "SELECT from_offset, to_offset, member, attempt FROM status_views.who_acked_what"
    assert [tuple(r) for r in spark.sql(f"{acked} WHERE `group` = 'workers'").collect()] == [
        (6, 7, "m", 2)
    ]
    assert [tuple(r) for r in spark.sql(f"{acked} WHERE `group` = 'done'").collect()] == [
        (None, 2, "m", None)
    ]


def test_a_filter_on_any_column_finds_its_rows_in_an_arrow_dataset(queue: QueueRoot) -> None:
    """delta-rs makes a file without statistics on a column look empty to such a filter."""
    log = dataset(queue.uri, "log")
    rows = log.to_table()
    for name in rows.column_names:
        column = rows.column(name)
        if name == "headers" or column.null_count == len(column):
            continue
        value = column.drop_null()[0]
        wanted = pc.sum(pc.equal(column, value)).as_py()
        assert log.to_table(filter=ds.field(name) == value).num_rows == wanted > 0, name
    assert log.to_table(filter=ds.field("hour") == "1999-01-01T00").num_rows == 0


def test_duckdb_shows_what_is_new_after_a_refresh(queue: QueueRoot) -> None:
    connection = lakequeue.duck.connect(queue.uri)
    TopicStore(queue).create("later")
    count = "SELECT count(*) FROM topics"
    assert connection.sql(count).fetchall() == [(3,)]
    lakequeue.duck.refresh(connection, queue.uri)
    assert connection.sql(count).fetchall() == [(4,)]


def test_before_any_service_has_run_nobody_has_acked_anything(
    spark: SparkSession, root: QueueRoot
) -> None:
    lakequeue.spark.create_views(spark, root.uri, "no_journal")
    assert spark.sql("SELECT * FROM no_journal.who_acked_what").count() == 0
    connection = lakequeue.duck.connect(root.uri)
    assert connection.sql("SELECT count(*) FROM who_acked_what").fetchall() == [(0,)]
