"""Delay and time to live: what is refused, and which two times are stored."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from ingest.commit.inbox_table import to_table
from ingest.http.bodies import request_of
from lakequeue import wire
from lakequeue.errors import InvalidRequest
from queue_rules.produce.timing import Due, Timing, due_of
from queue_rules.produce.validation import Limits

_NOW = 1_700_000_000_000_000
_LATER = _NOW + 60_000_000
_LIMITS = Limits(partitions=4, partitioner="crc32", max_record_bytes=1 << 20, max_records=100)


@pytest.mark.parametrize(
    ("timing", "topic_ttl_ms", "due"),
    [
        (None, None, Due(None, None)),
        (None, 1_000, Due(None, _NOW + 1_000_000)),
        (Timing(ttl_ms=50), 1_000, Due(None, _NOW + 50_000)),
        (Timing(delay_ms=0), None, Due(_NOW, None)),
        (Timing(delay_ms=250), None, Due(_NOW + 250_000, None)),
        (Timing(deliver_at=_LATER), None, Due(_LATER, None)),
        # The time to live of a delayed record begins when it may be delivered.
        (Timing(deliver_at=_LATER, ttl_ms=50), None, Due(_LATER, _LATER + 50_000)),
        (Timing(delay_ms=60_000), 1_000, Due(_LATER, _LATER + 1_000_000)),
        (Timing(deliver_at=_NOW - 1, ttl_ms=50), None, Due(_NOW - 1, _NOW + 50_000)),
    ],
)
def test_times_stored(timing: Timing | None, topic_ttl_ms: int | None, due: Due) -> None:
    assert due_of(timing, _NOW, topic_ttl_ms) == due


_BAD: list[tuple[dict[str, Any], str]] = [
    ({"delay_ms": -1}, "delay_ms"),
    ({"delay_ms": 1.5}, "delay_ms"),
    ({"delay_ms": True}, "delay_ms"),
    ({"delay_ms": "5s"}, "delay_ms"),
    ({"delay_ms": wire.MAX_SPAN_MS + 1}, "delay_ms"),
    ({"ttl_ms": 0}, "ttl_ms"),
    ({"ttl_ms": -5}, "ttl_ms"),
    ({"ttl_ms": 1 << 70}, "ttl_ms"),
    ({"deliver_at": _NOW // 1_000}, "deliver_at"),
    ({"deliver_at": "tomorrow"}, "deliver_at"),
    ({"deliver_at": "2500-01-01T00:00:00Z"}, "deliver_at"),
    ({"deliver_at": _NOW, "delay_ms": 5}, "delay_ms"),
]


@pytest.mark.parametrize(("fields", "field"), _BAD)
@pytest.mark.parametrize("kind", ["json", "ndjson"])
def test_an_absurd_time_is_refused_naming_record_and_field(
    kind: str, fields: dict[str, Any], field: str
) -> None:
    records = [{"value": 1}, {"value": 2, **fields}]
    whole = {"records": records}
    body = json.dumps(whole) if kind == "json" else "\n".join(map(json.dumps, records))
    with pytest.raises(InvalidRequest) as refused:
        request_of(body.encode(), kind, {}, "t", _LIMITS)
    assert (refused.value.extra["record"], refused.value.extra["field"]) == (1, field)
    assert refused.value.stored == "no"


def _arrow(**columns: pa.Array) -> bytes:
    table = pa.table({"value": pa.array(["a", "b"]), **columns})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ({"delay_ms": pa.array([0, -1])}, "delay_ms"),
        ({"ttl_ms": pa.array([1, 0], pa.int32())}, "ttl_ms"),
        ({"deliver_at": pa.array([None, 5], pa.int64())}, "deliver_at"),
        ({"deliver_at": pa.array([None, _NOW]), "delay_ms": pa.array([1, 1])}, "delay_ms"),
    ],
)
def test_an_absurd_time_in_arrow_is_refused_naming_record_and_field(
    columns: dict[str, pa.Array], field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        request_of(_arrow(**columns), "arrow", {}, "t", _LIMITS)
    assert (refused.value.extra["record"], refused.value.extra["field"]) == (1, field)


def test_arrow_and_json_say_the_same() -> None:
    json_body = (
        b'{"records": [{"value": "a", "deliver_at": 1700000060000000, "ttl_ms": 50},'
        b' {"value": "b", "delay_ms": 250}]}'
    )
    arrow_body = _arrow(
        deliver_at=pa.array([_LATER, None], pa.timestamp("us", tz="UTC")),
        ttl_ms=pa.array([50, None], pa.int64()),
        delay_ms=pa.array([None, 250], pa.int32()),
    )
    said = [
        request_of(body, kind, {}, "t", _LIMITS).rows.timings
        for body, kind in ((json_body, "json"), (arrow_body, "arrow"))
    ]
    assert said[0] == said[1] == [Timing(_LATER, None, 50), Timing(None, 250, None)]


def test_records_that_say_nothing_get_no_times_beside_one_that_does() -> None:
    mixed = request_of(
        b'{"records": [{"value": 1}, {"value": 2, "ttl_ms": 9}, {"value": 3}]}',
        "json",
        {},
        "t",
        _LIMITS,
    )
    plain = request_of(b'{"records": [{"value": 4}]}', "json", {}, "t", _LIMITS)
    assert mixed.rows.timings == [None, Timing(ttl_ms=9), None]
    mixed.rows.dues = [due_of(t, _NOW, None) for t in mixed.rows.timings]
    rows = to_table([mixed, plain])
    assert rows["expires_at"].cast(pa.int64()).to_pylist() == [None, _NOW + 9_000, None, None]
    assert rows["deliver_at"].null_count == 4
