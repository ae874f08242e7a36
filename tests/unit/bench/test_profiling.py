"""How `make profile` reads samples, the driver's log and the tables."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.profiling import counters, floors, timeline
from bench.profiling.page import render
from bench.profiling.stacks import OTHER, by_stage, stage_of

HEAD = "0" * 22
DISK = "fsync, requests to storage (also waits for the disk)"
ENDED = datetime(2026, 11, 30, 0, 0, 10, tzinfo=UTC).timestamp()


def test_a_sample_counts_for_the_innermost_function_of_a_stage() -> None:
    commit = "run (/q/ingest/commit/appender.py:4);sync (/q/queue_tables/delta/store.py:9)"
    assert stage_of(f"{commit};fsync (/usr/lib/python3.11/os.py:1)") == DISK
    assert stage_of("run (/q/ingest/commit/appender.py:4)") == "group wait and hand-over"
    assert stage_of("bootstrap (/usr/lib/python3.11/threading.py:1)") == OTHER


def test_samples_of_a_stage_are_added_up() -> None:
    lines = [
        "main (/q/ingest/http/bodies.py:1);loads (orjson) 3",
        "main (/q/ingest/http/app.py:1) 4",
        "kazoo (/v/kazoo/client.py:2) 5",
        "run (/q/serving/front/server.py:9);select (/usr/lib/python3.11/selectors.py:468) 99",
        "run (/v/py4j/clientserver.py:9);readinto (/usr/lib/python3.11/socket.py:706) 99",
        "run (/q/jobs/streaming/leader.py:9);wait (/usr/lib/python3.11/threading.py:327) 99",
    ]
    found = by_stage(lines)
    assert found == {"parse and judge requests": 7, "notifications, ZooKeeper": 5}


def _event(version: int) -> str:
    return json.dumps(
        {
            "event": "batch.ordered",
            "timestamp": "2026-11-30T00:00:10+00:00",
            "version": version,
            "numbering_ms": 5.0,
            "writing_ms": 20.0,
            "committing_ms": 10.0,
            "all_ms": 40.0,
        }
    )


def test_the_page_divides_the_cpu_of_a_process_by_its_samples() -> None:
    speed = {"loop_s": 0.25, "fdatasync_p50_ms": 0.2, "fdatasync_p99_ms": 1.0}
    speed |= {"copy_gb_per_s": 9.0, "load": 0.0}
    where = {"measured_at": "2026-11-30T00:00", "cores": 2, "memory_gib": 8.0, "kernel": "6"}
    where |= {"python": "3.11", "versions": {}, "speed": speed}
    stage = {"stage": "numbering", "holds": "offsets", "mean_ms": 2.0, "p50_ms": 1.0}
    shares = {"ingest-1": {"parse": 0.75, "other": 0.25}}
    counted: dict[str, Any] = {"process": "ingest-1", "metric": "m", "labels": "phase all"}
    counted |= {"per_1000": 2.0, "mean_ms": 0.5}
    page = render(
        {
            "machine": where,
            "records": 9,
            "of": 10,
            "stages": [stage | {"p99_ms": 3.0, "share": 1.0}],
            "triggers_ms": {"triggers": 6, "walCommit": 4.0},
            "counted": [counted],
            "cpu": {"paced": {"ingest-1": 40.0}, "fast": {"ingest-1": 20.0}},
            "fast_per_s": 1_000,
            "samples": {"paced": shares, "fast": shares},
            "floors": {"trigger_ms": {"addBatch": 9.0}, "bulk_us": {"read": 1.25, "made": 0.5}},
            "flames": {"ingest-1": "profile/ingest-1.svg"},
        }
    )
    for row in ("| parse | 30.0 | 30.0 |", "| parse | 15.0 | 15.0 |", "| ingest-1 | 40.0 | 20.0 |"):
        assert row in page
    assert "| ingest-1 | `m` | phase all | 2.0 | 0.50 |" in page
    assert "| numbering | offsets | 2.0 | 1.0 | 3.0 | 100% |" in page
    assert "| `addBatch` | 9.0 |" in page
    assert "| all | 1.75 |" in page


def test_each_step_of_the_libraries_is_measured() -> None:
    steps = floors.bulk_us(rounds=1, warm=0)
    assert len(steps) == 7
    assert all(us > 0 for us in steps.values())


def test_events_between_two_scrapes_have_their_mean_time() -> None:
    text = """# TYPE lakequeue_ingest_commit_seconds histogram
lakequeue_ingest_commit_seconds_bucket{{le="+Inf",phase="writing"}} {count}
lakequeue_ingest_commit_seconds_sum{{phase="writing"}} {total}
lakequeue_ingest_commit_seconds_count{{phase="writing"}} {count}
# TYPE other_seconds summary
other_seconds_sum 1
other_seconds_count 1
"""
    before = counters.samples(text.format(count=10, total=1.0))
    after = counters.samples(text.format(count=30, total=1.5))
    assert counters.between({"ingest-1": before}, {"ingest-1": after}, 2_000) == [
        {
            "process": "ingest-1",
            "metric": "lakequeue_ingest_commit_seconds",
            "labels": "phase writing",
            "per_1000": 10.0,
            "mean_ms": 25.0,
        }
    ]
    assert counters.between({"ingest-1": after}, {"ingest-1": after}, 2_000) == []


def test_a_batch_of_the_drivers_log_tells_when_its_phases_ended() -> None:
    batch = timeline.batches([_event(3), "no JSON", "{}"])[3]
    assert ENDED - batch.began == pytest.approx(0.040, abs=1e-5)
    assert batch.numbered - batch.began == pytest.approx(0.005, abs=1e-5)
    assert batch.written - batch.numbered == pytest.approx(0.020, abs=1e-5)


def test_phases_of_a_trigger_are_means_of_the_order_job() -> None:
    events = [
        {
            "event": "query.triggered",
            "job": "order",
            "triggers": 30,
            "addBatch": 40,
            "walCommit": 2,
        },
        {
            "event": "query.triggered",
            "job": "order",
            "triggers": 10,
            "addBatch": 60,
            "walCommit": 4,
        },
        {"event": "query.triggered", "job": "offsets", "triggers": 9, "addBatch": 900},
    ]
    found = timeline.triggers(map(json.dumps, events))
    assert found == {"triggers": 40, "addBatch": 45.0, "walCommit": 2.5}


def _commit(table: Path, version: int, *actions: dict[str, Any]) -> None:
    path = table / "_delta_log" / f"{version:020d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(action) for action in actions))


def test_the_stations_of_a_record_come_from_its_tables_and_add_up(tmp_path: Path) -> None:
    sealed = time.time()
    stamp = int(sealed * 1e6)
    values = [f"{HEAD}{number:012d}".encode() for number in (0, 1)]
    rows = pa.table({"value": values, "stamp": [stamp] * 2, "shard": ["s", "s"]})
    _commit(tmp_path / "inbox/s", 1, {"txn": {"appId": "stamp", "version": stamp}})
    durable = time.time()
    batch = timeline.Batch(durable + 0.030, durable + 0.040, durable + 0.060)
    _commit(tmp_path / "log", 2)
    before = (tmp_path / "log/_delta_log" / f"{2:020d}.json").stat().st_ctime
    pq.write_table(rows, tmp_path / "log/part.parquet")
    _commit(tmp_path / "log", 3, {"add": {"path": "part.parquet", "dataChange": True}})
    ordered = time.time()
    sent, received = {0: sealed - 0.010, 1: sealed - 0.030}, {0: ordered + 0.015}
    found = timeline.stations(tmp_path, {3: batch}, sent, received)
    assert len(found) == 1, "record 1 was not received"
    assert sealed - 0.01 <= found[0].durable <= durable + 0.01
    assert durable - 0.01 <= found[0].ordered <= ordered + 0.01
    assert found[0].free == before, "the batch before its own has ended"
    shares = timeline.shares(found)
    assert [one["mean_ms"] for one in shares][4:6] == pytest.approx([10, 20], abs=0.2)
    assert sum(one["mean_ms"] for one in shares) == pytest.approx(
        (ordered + 0.015 - sealed + 0.010) * 1e3, abs=1.0
    )
    assert sum(one["share"] for one in shares) == pytest.approx(1.0, abs=0.01)
