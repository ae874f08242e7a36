"""What was put aside can be seen: by the command line, by the doctor, in SQL."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from ingest.http.bodies import request_of
from jobs.measuring.order_health import look_at_order, put_aside
from jobs.measuring.stuck_shards import stuck_shards
from lakequeue_cli.app import app
from queue_rules.produce.validation import Limits
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import INBOX
from queue_tables.topics import TopicStore
from tests.support.data.foreign_shard import ForeignShard, records
from tests.support.data.log_builder import LogBuilder
from tests.support.faults.foreign import as_of_earlier_release
from tests.support.runs.order_process import Orderer

BASE = 1_700_000_000_000_000


@pytest.fixture
def filled(root: QueueRoot) -> QueueRoot:
    """Two records put aside, a copy, one of a partition that is not there, one ordered."""
    topic_id = str(TopicStore(root).create("orders", partitions=1)[0].topic_id)
    shard = ForeignShard(root)
    rows = records(topic_id, BASE, [b"good", b"text", b"\xff", b"good", b"far"])
    ids = pa.array([b"a", b"\xfe", b"\xfd", b"a", b"e"], pa.binary()).view(pa.string())
    formats = pa.array([0, 1, 1, 0, 0], pa.int32())
    partitions = pa.array([0, 0, 0, 0, 7], pa.int32())
    columns = {"message_id": ids, "value_format": formats, "partition": partitions}
    for name, column in columns.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, INBOX.arrow.field(at), column)
    shard.commit(BASE, rows)
    Orderer(root, 1).drain()
    return root


def run(root: QueueRoot, *args: str) -> str:
    done = CliRunner().invoke(app, ["rejects", *args, "--root", root.uri])
    assert done.exit_code == 0, done.output
    return done.stdout


def listed(root: QueueRoot, *args: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(root, "list", "--json", *args))
    return found


def test_they_are_listed_by_topic_reason_and_time(filled: QueueRoot) -> None:
    assert [(r["row"], r["reason"]) for r in listed(filled)] == [
        (1, "malformed"),
        (2, "malformed"),
        (4, "partition_gone"),
    ]
    assert [r["row"] for r in listed(filled, "--reason", "duplicate")] == [3]
    assert [r["row"] for r in listed(filled, "--topic", "orders", "-n", "1")] == [1]
    assert listed(filled, "--topic", "other") == []
    assert listed(filled, "--until", "2020-01-01T00:00:00Z") == []
    assert len(listed(filled, "--since", "1h")) == 3
    first = listed(filled)[0]
    assert first["message_id"] == "\\xfe"
    assert first["detail"] == "message_id is not UTF-8 (byte 0)"
    text = run(filled, "list")
    assert text.splitlines()[0].split()[:4] == ["REJECTED-AT", "TOPIC", "PARTITION", "REASON"]
    assert "message_id is not UTF-8" in text


def test_they_are_exported_as_they_can_be_sent_again(filled: QueueRoot) -> None:
    lines = [json.loads(line) for line in run(filled, "export").splitlines()]
    assert [line["record"].get("value") for line in lines] == ["text", None, None]
    assert [line["record"].get("value_base64") for line in lines] == [None, "/w==", "ZmFy"]
    assert lines[0]["reason"] == "malformed"
    for line in lines:
        line["record"].pop("partition")
    body = b"\n".join(orjson.dumps(line["record"]) for line in lines)
    again = request_of(body, "ndjson", {}, "t", Limits(1, "crc32", 1 << 20, 10))
    assert again.rows.values == [b"text", b"\xff", b"far"]


def test_a_reason_that_is_not_known_is_wrong_usage(filled: QueueRoot) -> None:
    args = ["rejects", "list", "--reason", "malformd", "--root", filled.uri]
    assert CliRunner().invoke(app, args).exit_code != 0


def test_the_doctor_says_it_in_a_sentence(filled: QueueRoot) -> None:
    assert list(look_at_order(filled.uri)) == [
        (
            True,
            "2 records of orders could not be ordered within the last day and are kept in rejects "
            "(2 malformed)",
            "lakequeue rejects list --since 24h",
        )
    ]
    assert not put_aside({}).warns


def test_the_doctor_names_records_that_another_engine_deleted(root: QueueRoot) -> None:
    log = LogBuilder(root)
    topic = log.topic("orders", partitions=2)
    log.append_many(topic, {0: ["v"] * 20, 1: ["v"]})
    as_of_earlier_release(root.store, "log")
    assert [said.warns for said in look_at_order(root.uri)] == [False]
    DeltaTable(f"{root.uri}/log").delete('"partition" = 0 AND "offset" IN (3, 7, 8)')
    QueueRoot.open(root.uri)  # it is guarded now
    [_, said] = look_at_order(root.uri)
    assert said.warns
    assert said.detail == (
        "orders/0 has no record at 3 offsets (3, 7 to 8): another engine deleted them before the"
        " table was guarded; groups pass them"
    )
    assert "lakequeue erase" in said.fix


def test_the_doctor_names_a_shard_that_waits(root: QueueRoot) -> None:
    topic_id = str(TopicStore(root).create("orders", partitions=1)[0].topic_id)
    shard, other = ForeignShard(root), ForeignShard(root, "other")
    shard.commit(BASE, records(topic_id, BASE, [b"a"]))
    add = shard.commit(BASE + 1, records(topic_id, BASE + 1, [b"b"]))
    other.commit(BASE, records(topic_id, BASE, [b"c"]))
    Orderer(root, 1).drain()
    assert stuck_shards(root) == {}
    more = shard.commit(BASE + 2, records(topic_id, BASE + 2, [b"d"]))
    root.store.delete(shard.file_of(add))
    assert stuck_shards(root) == {}, "what is ordered is not looked at"
    root.store.delete(shard.file_of(more))
    assert list(stuck_shards(root)) == [shard.name]
    said = list(look_at_order(root.uri))
    assert said[1].detail.startswith(f"inbox/{shard.name} waits: {shard.file_of(more)} is gone")
