"""The job `stream_in` with real Delta tables and JSON files; Kafka: `test_kafka_drop_in.py`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from jobs.feeds.ended import said_of
from jobs.feeds.options import parse
from jobs.stream_in import stream_in
from queue_tables.root import QueueRoot
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore
from tests.support.data.topic_values import ordered
from tests.support.services.zookeeper import wait_for
from tests.support.spark.checkpoint import forget_the_last_batch

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def topic(root: QueueRoot) -> Topic:
    return TopicStore(root).create("orders", partitions=2)[0]


def run(spark: SparkSession, root: QueueRoot, folder: Path, *argv: str) -> dict[str, Any]:
    """One run in this process, of what there is."""
    common = ["--root", root.uri, "--topic", "orders", "--checkpoint", str(folder / "checkpoint")]
    options = parse("jobs.stream_in", [*argv, *common, "--available-now"])
    return stream_in(spark, options, threading.Event())


def ids_of(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(json.loads(row["value"])["id"] for row in rows)


def test_a_delta_table_is_streamed_in_and_a_batch_that_is_run_again_adds_nothing(
    spark: SparkSession, root: QueueRoot, topic: Topic, tmp_path: Path
) -> None:
    table = str(tmp_path / "table")
    job = ("delta", "--table", table, "--key", "concat('c', id % 3)")
    for start in (0, 40):
        frame = spark.range(start, start + 40).selectExpr("id", "id * 2 AS total")
        frame.write.format("delta").mode("append").save(table)
        report = run(spark, root, tmp_path, *job)
        assert (report["rows_read"], report["topic"]) == (40, "orders")
    forget_the_last_batch(tmp_path / "checkpoint")
    assert run(spark, root, tmp_path, *job)["rows_read"] == 40, "it was run again"
    assert run(spark, root, tmp_path, *job)["batches"] == 0
    rows = ordered(root, topic)
    assert ids_of(rows) == list(range(80))
    for row in rows:
        record = json.loads(row["value"])
        assert record == {"id": record["id"], "total": record["id"] * 2}
        assert row["key"] == f"c{record['id'] % 3}".encode()


def test_json_lines_come_as_they_stand_there_and_what_is_none_goes_to_its_topic(
    spark: SparkSession, root: QueueRoot, topic: Topic, tmp_path: Path
) -> None:
    bad = TopicStore(root).create("bad", partitions=1)[0]
    source = tmp_path / "in"
    source.mkdir()
    odd = ["{half", '{"id": 4} {"id": 5}', "1, 2", '1} {"a": 2', "1] [2", "'single'"]
    lines = ['{"id": 1,  "a": null}', '{"id": 2}', "", *odd, "\t", '{"id": 3}']
    (source / "1.json").write_text("\n".join(lines) + "\n")
    job = ("json", "--path", str(source), "--key", "get_json_object(value, '$.id')")
    report = run(spark, root, tmp_path, *job, "--bad-topic", "bad")
    assert report["refused"] == len(odd)
    rows = ordered(root, topic)
    assert Counter(row["value"] for row in rows) == dict.fromkeys(
        [b'{"id": 1,  "a": null}', b'{"id": 2}', b'{"id": 3}'], 1
    )
    assert {row["key"] for row in rows} == {b"1", b"2", b"3"}
    strays = ordered(root, bad, 2)
    assert {row["value"].decode() for row in strays} == set(odd)
    for row in strays:
        said = {header["key"]: header["value"] for header in row["headers"]}
        assert said["lakequeue-file"].endswith(b"/in/1.json")
        assert (said["lakequeue-refused"], said["lakequeue-wanted-topic"]) == (
            b"no JSON",
            b"orders",
        )


@pytest.mark.parametrize("whole", [False, True])
def test_a_record_that_the_topic_refuses_goes_to_the_topic_for_them_with_the_reason(
    spark: SparkSession, root: QueueRoot, tmp_path: Path, whole: bool
) -> None:
    topics = TopicStore(root)
    schema = '{"required": ["id"]}'
    topic = topics.create("orders", partitions=2, value_schema=schema, max_record_bytes=100)[0]
    bad = topics.create("bad", partitions=1)[0]
    source = tmp_path / "in"
    source.mkdir()
    lines = ['{"id": 1}', '{"name": "x"}', json.dumps({"id": "x" * 100}), '{"id": 2}', "{half"]
    if whole:
        for n, line in enumerate(lines):
            (source / f"{n}.json").write_text(line)
    else:
        (source / "lines.json").write_text("\n".join(lines))
    job = ("json", *(["--whole-files"] if whole else []), "--path")
    # Without a topic for it the job ends there, and says why. Of several faults any may come first.
    strict = tmp_path / "strict"
    (strict / "in").mkdir(parents=True)
    (strict / "in" / "wrong.json").write_text(lines[1] if whole else lines[-1])
    with pytest.raises(StreamingQueryException) as ended:
        run(spark, root, strict, *job, str(strict / "in"))
    told = said_of(str(ended.value)) or ""
    assert ("satisfy its schema" if whole else "no JSON") in told
    assert "--bad-topic" in told
    report = run(spark, root, tmp_path, *job, str(source), "--bad-topic", "bad")
    assert report["refused"] == 3
    assert ids_of(ordered(root, topic)) == [1, 2]
    reasons = []
    for row in ordered(root, bad, 2):
        said = {header["key"]: header["value"].decode() for header in row["headers"]}
        assert "/in/" in said["lakequeue-file"]
        reasons.append(said["lakequeue-refused"])
    assert len(reasons) == 3
    for why in ('"id" is a required property', "the limit is 100", "no JSON"):
        assert any(why in reason for reason in reasons), why


def test_without_a_topic_for_it_the_job_stops_at_what_is_no_json_and_names_the_file(
    spark: SparkSession, root: QueueRoot, topic: Topic, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "wrong.json").write_text('{"id": 1}\n{half\n')
    with pytest.raises(StreamingQueryException, match=r"no JSON in .*wrong\.json: \{half"):
        run(spark, root, tmp_path, "json", "--path", str(source))
    assert ordered(root, topic) == []
    (source / "wrong.json").write_text('{"id": 1}\n{"id": 2}\n')
    run(spark, root, tmp_path, "json", "--path", str(source))
    assert ids_of(ordered(root, topic, 2)) == [1, 2]


def test_whole_files_are_documents_or_arrays_of_them(
    spark: SparkSession, root: QueueRoot, topic: Topic, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "many.json").write_text(json.dumps([{"id": n} for n in range(5)], indent=2))
    (source / "one.json").write_text(json.dumps({"id": 5, "lines": [1, 2]}, indent=2))
    exact = '{"id": 6,  "price": 1.10, "far": 1e400}'
    (source / "exact.json").write_text(f"\ufeff\n[ {exact},\n null ]\n")
    (source / "none.json").write_text("[]\n")
    (source / "empty.json").write_text(" \n\n")
    run(spark, root, tmp_path, "json", "--path", str(source), "--whole-files")
    values = [row["value"] for row in ordered(root, topic)]
    assert len(values) == 8
    assert {b"null", exact.encode()} < set(values), "as it stands there, numbers too"
    assert sorted(json.loads(v)["id"] for v in values if v != b"null") == list(range(7))
    (one,) = (v for v in values if b"lines" in v)
    assert b"\n" in one, "over several lines"


def test_of_a_whole_file_that_is_broken_nothing_is_taken(
    spark: SparkSession, root: QueueRoot, topic: Topic, tmp_path: Path
) -> None:
    bad = TopicStore(root).create("bad", partitions=1)[0]
    source = tmp_path / "in"
    source.mkdir()
    broken = ['[{"id": 1}, {"id"', '[{"id": 1}] {"id": 2}', '{"id": 1}\n{"id": 2}\n', "[NaN]"]
    for n, text in enumerate(broken):
        (source / f"{n}.json").write_text(text)
    (source / "good.json").write_text('[{"id": 7}]')
    job = ("json", "--path", str(source), "--whole-files")
    with pytest.raises(StreamingQueryException, match=r"no JSON in .*/\d\.json: "):
        run(spark, root, tmp_path, *job)
    assert ordered(root, topic) == []
    run(spark, root, tmp_path, *job, "--bad-topic", "bad")
    assert ids_of(ordered(root, topic, 2)) == [7]
    found = {bytes(row["headers"][0]["value"])[-6:]: row["value"] for row in ordered(root, bad, 3)}
    assert found == {f"{n}.json".encode(): text.encode() for n, text in enumerate(broken)}


def test_a_dry_run_says_the_columns_and_writes_nothing(
    spark: SparkSession, root: QueueRoot, topic: Topic, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    report = run(spark, root, tmp_path, "json", "--path", str(tmp_path / "in"), "--dry-run")
    assert report["columns"] == {"value": "string"}
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.faults
def test_killed_in_the_middle_and_started_again_nothing_is_lost_or_doubled(
    java_home: str, root: QueueRoot, topic: Topic, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    for file in range(6):
        text = "".join(json.dumps({"id": file * 50 + n}) + "\n" for n in range(50))
        (source / f"{file}.json").write_text(text)
    command = [
        *(sys.executable, "-m", "jobs.stream_in", "json", "--path", str(source)),
        *("--root", root.uri, "--topic", "orders", "--checkpoint", str(checkpoint)),
        *("--option", "maxFilesPerTrigger=1", "--work-dir", str(tmp_path), "--json"),
    ]
    with (tmp_path / "job.err").open("wb") as err:
        job = subprocess.Popen(command, stderr=err, start_new_session=True)
    try:
        # Its second batch is planned: it may be anywhere between that and its end.
        wait_for(lambda: (checkpoint / "offsets" / "1").exists(), "a second batch", 120.0)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    done = subprocess.run(
        [*command, "--available-now"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["job"], report["source"]) == ("jobs.stream_in", "json")
    assert 0 < report["rows_read"] <= 250
    assert ids_of(ordered(root, topic)) == list(range(300))


@pytest.mark.parametrize(("wrong", "code"), [("topic", 1), ("root", 4)])
def test_a_topic_or_root_that_is_not_there_ends_it_before_spark_starts(
    root: QueueRoot, tmp_path: Path, wrong: str, code: int
) -> None:
    where = str(tmp_path / "nowhere") if wrong == "root" else root.uri
    command = [
        *(sys.executable, "-m", "jobs.stream_in", "delta", "--table", "/t"),
        *("--root", where, "--topic", "nowhere", "--checkpoint", str(tmp_path / "c")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr
