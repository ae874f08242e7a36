"""Rows of a frame become rows of the inbox."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakequeue.errors import InvalidRequest, TooLarge, UnknownTopic
from lakequeue.partitioner import partition_of
from lakequeue.wire import MAX_MESSAGE_ID_CHARS
from pyspark_lakequeue.sink.inbox_rows import STICKY_BYTES, Shaper
from pyspark_lakequeue.sink.targets import Target
from pyspark_lakequeue.sink.writer import WriteBatch
from queue_tables.delta.columns import HEADERS
from tests.support.data.hostile_rows import NOT_UTF8

ARRIVAL = 1_700_000_000_000_000
ORDERS = Target("id-orders", 4, "crc32", None, None)
PAYMENTS = Target("id-payments", 3, "murmur2", 1_000, 10)
TARGETS = {"orders": ORDERS, "payments": PAYMENTS}


def shaper(topic: str | None = "orders", id_prefix: str | None = None) -> Shaper:
    return Shaper(TARGETS, topic, ARRIVAL, id_prefix)


def frame(**columns: Any) -> pa.Table:
    kinds = {
        "partition": pa.int32(),
        "headers": HEADERS,
        "key": pa.binary(),
        "topic": pa.string(),
        "message_id": pa.string(),
        "timestamp": pa.timestamp("us", tz="Europe/Berlin"),
    }
    return pa.table({n: pa.array(v, kinds.get(n, pa.binary())) for n, v in columns.items()})


def test_a_key_goes_where_every_other_producer_puts_it() -> None:
    keys = [f"k{n % 7}".encode() for n in range(50)]
    for topic, target in TARGETS.items():
        rows = shaper(topic).shape(frame(value=[b"v"] * 50, key=keys))
        assert rows["partition"].to_pylist() == [
            partition_of(key, target.partitions, target.partitioner) for key in keys
        ]


def test_records_without_a_key_stay_on_a_partition_for_a_while() -> None:
    one = shaper()
    size = STICKY_BYTES // 4
    rows = [one.shape(frame(value=[b"v" * size])) for _ in range(20)]
    chosen = [row["partition"][0].as_py() for row in rows]
    assert chosen == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4 + [0] * 4


def test_small_batches_of_a_writer_and_small_writes_take_turns() -> None:
    stream = [WriteBatch("checkpoint", "run", number) for number in range(8)]
    writes = [WriteBatch(f"write-{number}", "run", 0) for number in range(8)]
    for batches in (stream, writes):
        shapers = [Shaper(TARGETS, "orders", ARRIVAL, None, batch.begin(0)) for batch in batches]
        chosen = {one.shape(frame(value=[b"v"]))["partition"][0].as_py() for one in shapers}
        assert len(chosen) > 2


def test_a_given_partition_goes_before_the_key_and_null_leaves_it() -> None:
    rows = shaper().shape(frame(value=[b"a", b"b"], key=[b"k", b"k"], partition=[3, None]))
    assert rows["partition"].to_pylist() == [3, partition_of(b"k", 4)]


@pytest.mark.parametrize("partition", [-1, 4])
def test_a_partition_that_does_not_exist_is_refused(partition: int) -> None:
    with pytest.raises(InvalidRequest, match=f"partition {partition} of topic 'orders'"):
        shaper().shape(frame(value=[b"a"], partition=[partition]))


def test_the_topic_comes_from_the_option_or_else_from_the_column() -> None:
    given = frame(value=[b"a", b"b"], topic=["payments", "orders"])
    assert shaper(None).shape(given)["topic_id"].to_pylist() == ["id-payments", "id-orders"]
    assert shaper("orders").shape(given)["topic_id"].to_pylist() == ["id-orders"] * 2


def test_a_record_without_a_topic_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="null topic present in the data"):
        shaper(None).shape(frame(value=[b"a"], topic=[None]))
    with pytest.raises(UnknownTopic, match="nowhere"):
        shaper(None).shape(frame(value=[b"a"], topic=["nowhere"]))


def test_text_stays_text_bytes_stay_bytes_and_null_is_a_tombstone() -> None:
    text = pa.table({"value": pa.array(["ä", None])})
    assert shaper().shape(text)["value"].to_pylist() == ["ä".encode(), None]
    assert shaper().shape(text)["value_format"].to_pylist() == [1, 1]
    assert shaper().shape(frame(value=[b"x"]))["value_format"].to_pylist() == [0]


def test_headers_are_kept_and_counted() -> None:
    headers = [[{"key": "a", "value": b"xy"}, {"key": "b", "value": None}], None, []]
    rows = shaper().shape(frame(value=[b"v"] * 3, key=[b"kk", None, None], headers=headers))
    assert rows["headers"].to_pylist() == [headers[0], [], []]
    assert rows["bytes"].to_pylist() == [1 + 2 + 1 + 2 + 1, 1, 1]


def test_ids_are_given_or_the_place_in_the_write_or_none() -> None:
    given = frame(value=[b"a", b"b"], message_id=["m", None])
    assert shaper().shape(given)["message_id"].to_pylist() == ["m", None]
    assert shaper().shape(frame(value=[b"a"]))["message_id"].to_pylist() == [None]
    derived = shaper(id_prefix="q/7/3/")
    assert derived.shape(given)["message_id"].to_pylist() == ["m", "q/7/3/1"]
    assert derived.shape(frame(value=[b"c"]))["message_id"].to_pylist() == ["q/7/3/2"]


def test_times_and_times_to_live_are_filled_in() -> None:
    rows = shaper("payments").shape(frame(value=[b"a", b"b"], timestamp=[5, None]))
    assert rows["timestamp"].cast(pa.int64()).to_pylist() == [5, ARRIVAL]
    assert rows["expires_at"].cast(pa.int64()).to_pylist() == [ARRIVAL + 1_000_000] * 2
    assert shaper().shape(frame(value=[b"a"]))["expires_at"].to_pylist() == [None]


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(TooLarge, match="11 bytes for topic 'payments', the limit is 10"):
        shaper("payments").shape(frame(value=[b"v" * 10], key=[b"k"]))
    with pytest.raises(InvalidRequest, match="message_id"):
        shaper().shape(frame(value=[b"v"], message_id=["x" * (MAX_MESSAGE_ID_CHARS + 1)]))


def test_no_rows_are_no_rows() -> None:
    assert shaper().shape(frame(value=[], key=[])).num_rows == 0
    assert shaper(None).shape(frame(value=[], topic=[])).num_rows == 0


def test_values_satisfy_the_schema_of_their_topic_and_of_no_other() -> None:
    checked = Target("id-checked", 1, "crc32", None, None, '{"required": ["id"]}')
    both = Shaper({"orders": ORDERS, "checked": checked}, None, ARRIVAL, None)
    good = pa.table({"topic": ["checked", "orders", "checked"], "value": ['{"id":1}', "{}", None]})
    assert both.shape(good).num_rows == 3
    bad = pa.table({"topic": ["orders", "checked"], "value": ["{}", "{}"]})
    with pytest.raises(InvalidRequest, match="topic 'checked' does not satisfy its schema"):
        both.shape(bad)


def text(value: bytes) -> pa.Array:
    """What Spark hands over of a string column: nobody has looked whether it is UTF-8."""
    return pa.array([b"good", value], pa.binary()).view(pa.string())


@pytest.mark.parametrize("value", NOT_UTF8.values(), ids=NOT_UTF8)
@pytest.mark.parametrize("column", ["value", "key", "message_id", "topic"])
def test_text_that_is_not_utf8_is_refused_with_row_and_column(column: str, value: bytes) -> None:
    columns = {"value": pa.array([b"v", b"v"], pa.binary()), column: text(value)}
    sent = Shaper({**TARGETS, "good": ORDERS}, None if column == "topic" else "orders", 0, None)
    sent.shape(frame(value=[b"v"] * 7, topic=["orders"] * 7))
    with pytest.raises(InvalidRequest, match=f"row 8 of task 0: {column} is not UTF-8") as refused:
        sent.shape(pa.table(columns))
    assert refused.value.extra["field"] == column
    if column in {"key", "value"}:
        assert "AS BINARY" in refused.value.hint


@pytest.mark.parametrize("value", NOT_UTF8.values(), ids=NOT_UTF8)
def test_a_header_name_that_is_not_utf8_is_refused(value: bytes) -> None:
    raw = pa.list_(pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())]))
    headers = pa.array([[], [{"key": value, "value": value}]], raw).view(HEADERS)
    with pytest.raises(InvalidRequest, match="row 1 of task 0: headers has a name that is not"):
        shaper().shape(pa.table({"value": pa.array([b"a", b"b"]), "headers": headers}))


def test_what_the_order_job_would_put_aside_is_refused() -> None:
    for column, value in {"message_id": "", "timestamp": 253_402_300_800_000_000}.items():
        with pytest.raises(InvalidRequest, match=f"row 0 of task 0: {column}"):
            shaper().shape(frame(value=[b"v"], **{column: [value]}))
    with pytest.raises(InvalidRequest, match="no name"):
        shaper().shape(frame(value=[b"v"], headers=[[{"key": None, "value": b"v"}]]))


def test_bytes_are_bytes() -> None:
    rows = shaper().shape(frame(value=[b"\xff\xfe", b""], key=[b"\xff", None]))
    assert rows["value"].to_pylist() == [b"\xff\xfe", b""]
    assert rows["value_format"].to_pylist() == [0, 0]
