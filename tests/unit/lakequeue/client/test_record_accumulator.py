"""Batches of a producer: order, limits, message ids, lingering."""

from datetime import UTC, datetime
from typing import Any

import orjson
import pyarrow as pa
import pytest

from lakequeue.client.producing.outgoing import Outgoing
from lakequeue.client.producing.producer_batch import COLUMNS_FROM, ProducerBatch
from lakequeue.client.producing.record_accumulator import Ledger, Limits, RecordAccumulator
from lakequeue.client.producing.record_options import timing_of
from lakequeue.errors import InvalidRequest, Overloaded, TooLarge


def accumulator(**limits: float) -> RecordAccumulator:
    return RecordAccumulator("orders", "p1", Limits(**limits))  # type: ignore[arg-type]


def add(
    box: RecordAccumulator, value: object, now: float = 0.0, message_id: str | None = None
) -> Outgoing:
    record = Outgoing("orders", value)
    if message_id is not None:
        record.add_more(None, None, message_id, None, None)
    record.check()
    box.add(record, now)
    return record


def said(batch: ProducerBatch, after: int | None = None, epoch: int | None = None) -> Any:
    """The body in JSON."""
    body = batch.body("p1", after, epoch)
    assert (body.content_type, body.params) == ("application/json", {})
    return orjson.loads(body.data)


def test_a_batch_is_consecutive_and_names_its_first_sequence() -> None:
    box = accumulator(batch_size=2)
    for i in range(3):
        add(box, i)
    first, second = box.take(), box.take()
    assert [r.message_id for r in first.records] == ["p1:0", "p1:1"]
    assert said(first) == {
        "producer_id": "p1",
        "sequence": 0,
        "records": [{"value": 0}, {"value": 1}],
    }
    assert said(second, 99)["sequence"] == 2
    assert said(second, 99)["after"] == 99


def test_the_value_is_fixed_when_it_is_sent() -> None:
    box, value = accumulator(), {"n": 1}
    add(box, value)
    value["n"] = 2
    assert said(box.take())["records"] == [{"value": {"n": 1}}]


def test_an_own_message_id_is_sent_and_still_takes_a_sequence() -> None:
    box = accumulator()
    assert add(box, 1, message_id="mine").message_id == "mine"
    assert add(box, 2).message_id == "p1:1"
    assert said(box.take())["records"][0]["message_id"] == "mine"


def test_a_batch_lingers_until_it_is_full_or_due() -> None:
    box = accumulator(batch_size=2, linger_s=0.5)
    assert box.due_in(0.0) is None
    add(box, 1, now=10.0)
    assert box.due_in(10.2) == pytest.approx(0.3)
    assert box.due_in(10.5) == 0.0
    box.flushing = True
    assert box.due_in(10.0) == 0.0
    box.flushing = False
    add(box, 2, now=10.1)
    assert box.due_in(10.1) == 0.0


def test_a_batch_is_bounded_in_bytes_but_takes_one_record_at_least() -> None:
    box = accumulator(batch_bytes=50)
    for size in (100, 10, 10, 100):
        add(box, "x" * size)
    assert [len(box.take().records) for _ in range(3)] == [1, 2, 1]


def test_a_sender_is_woken_by_the_first_record_and_by_a_full_batch_only() -> None:
    box = accumulator(batch_size=3)
    woken = [box.add(Outgoing("orders", i), 0.0) for i in range(3)]
    assert woken == [True, False, True]
    # It looks as soon as it may, and takes them all: it need not be told again.
    assert [box.add(Outgoing("orders", i), 0.0) for i in range(7)][3:] == [False] * 2 + [
        True,
        False,
    ]


def test_a_record_at_fault_is_taken_out_and_the_others_keep_their_ids() -> None:
    box = accumulator()
    for i in range(4):
        add(box, i)
    before, after = box.take().without(1)
    assert [r.message_id for r in before.records] == ["p1:0"]
    assert [r.message_id for r in after.records] == ["p1:2", "p1:3"]
    assert said(after)["sequence"] == 2


def test_what_cannot_be_sent_is_refused_at_once() -> None:
    box = accumulator()
    with pytest.raises(InvalidRequest):
        add(box, object())
    with pytest.raises(InvalidRequest, match="header"):
        Outgoing("orders", 1).add_more({"n": 1}, None, None, None, None)  # type: ignore[dict-item]
    with pytest.raises(TooLarge):
        add(box, "x" * (17 << 20))
    assert len(box) == 0


def test_the_ledger_bounds_bytes_and_keeps_what_was_given_up() -> None:
    box = accumulator()
    ledger = Ledger(Limits(max_buffered_bytes=40))
    records = [add(box, "x" * 10) for _ in range(2)]
    assert ledger.has_room(10_000), "an empty ledger takes any one record"
    for record in records:
        ledger.open(record)
    assert not ledger.has_room(10)
    error = ledger.no_room()
    assert (type(error), error.stored) == (Overloaded, "no")
    ledger.settle(records[:1], error)
    assert [r.error for r in ledger.unacked()] == [error, None]
    ledger.settle(records[1:], None)
    assert ledger.unacked() == [records[0]]
    assert (ledger.bytes, ledger.first_error) == (0, error)


def test_a_fenceable_producer_goes_on_at_its_next_sequence_and_says_its_epoch() -> None:
    box = RecordAccumulator("orders", "p1", Limits(), next_sequence=42)
    add(box, "v")
    body = said(box.take(), None, 7)
    assert (body["sequence"], body["producer_epoch"]) == (42, 7)


def test_delays_and_times_to_live_become_whole_milliseconds() -> None:
    assert timing_of(None, None, None) is None
    assert timing_of(0.0004, None, 0.0011) == {"delay_ms": 1, "ttl_ms": 2}
    assert timing_of(0, None, None) == {"delay_ms": 0}
    at = datetime(2013, 1, 31, 7, tzinfo=UTC)
    assert timing_of(None, at, 60) == {"deliver_at": 1_359_615_600_000_000, "ttl_ms": 60_000}
    assert timing_of(None, 5, None) == {"deliver_at": 5}


@pytest.mark.parametrize(
    ("delay_s", "deliver_at", "ttl_s", "field"),
    [
        (-1, None, None, "delay_s"),
        (1e12, None, None, "delay_s"),
        (1, 5, None, "delay_s"),
        (None, datetime(2013, 1, 31), None, "deliver_at"),  # noqa: DTZ001 -- what is refused
        (None, None, 0, "ttl_s"),
        (None, None, 1e12, "ttl_s"),
    ],
)
def test_an_absurd_delay_or_time_to_live_is_refused_naming_the_field(
    delay_s: float | None, deliver_at: datetime | int | None, ttl_s: float | None, field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        timing_of(delay_s, deliver_at, ttl_s)
    assert refused.value.extra["field"] == field


# -- columns ------------------------------------------------------------------------------------


def many(
    value: Any, key: Any = None, *, count: int = COLUMNS_FROM, **more: Any
) -> RecordAccumulator:
    box = accumulator()
    for _ in range(count):
        box.add(Outgoing("orders", value, key, **more), 0.0)
    return box


def table_of(batch: ProducerBatch, after: int | None = None) -> tuple[pa.Table, dict[str, Any]]:
    body = batch.body("p1", after)
    assert body.content_type == "application/vnd.apache.arrow.stream"
    return pa.ipc.open_stream(pa.BufferReader(body.data)).read_all(), body.params


def test_many_records_of_bytes_or_text_go_as_columns() -> None:
    table, beside = table_of(many(b"\xff\x00", "k", partition=3).take(), after=9)
    assert beside == {"producer_id": "p1", "sequence": 0, "after": 9}
    assert set(table.column_names) == {"value", "key", "partition"}
    assert table.slice(1, 1).to_pylist() == [{"value": b"\xff\x00", "key": "k", "partition": 3}]
    table, _ = table_of(many("text", b"k").take())
    assert table.slice(1, 1).to_pylist() == [{"value": "text", "key": b"k"}]


def test_a_part_of_a_batch_names_its_ids_and_chosen_partitions_in_columns() -> None:
    whole = many(b"v", count=2 * COLUMNS_FROM).take()
    part = whole.part(whole.records[::2])
    for record in part.records:
        record.chosen = record.sequence % 5
    table, beside = table_of(part)
    assert beside == {"producer_id": "p1"}
    assert table["message_id"].to_pylist() == [f"p1:{r.sequence}" for r in part.records]
    assert table["partition"].to_pylist() == [r.sequence % 5 for r in part.records]


def test_ids_of_a_producer_whose_name_stays_are_in_a_column() -> None:
    box = RecordAccumulator("orders", "p1", Limits(), run="r")
    for _ in range(COLUMNS_FROM):
        box.add(Outgoing("orders", b"v"), 0.0)
    table, beside = table_of(box.take())
    assert beside["sequence"] == 0
    assert table["message_id"].to_pylist() == [f"p1:r:{n}" for n in range(COLUMNS_FROM)]


@pytest.mark.parametrize(
    ("value", "key", "more"),
    [
        ({"n": 1}, None, {}),
        (None, None, {}),
        (b"v", 5, {}),
        (b"v", None, {"partition": True}),
        (b"v", None, {"partition": -1}),
        (b"v", None, {"partition": 1 << 40}),
        (b"v", None, {"partition": "1"}),
    ],
)
def test_what_columns_do_not_have_goes_as_json(value: Any, key: Any, more: Any) -> None:
    record = said(many(value, key, **more).take())["records"][0]
    assert record.get("partition") == more.get("partition")
    assert type(record.get("partition")) is type(more.get("partition"))


def test_records_of_several_kinds_go_as_json() -> None:
    box = many(b"v")
    add(box, "text")
    records = said(box.take())["records"]
    assert (records[0], records[-1]) == ({"value_base64": "dg=="}, {"value": "text"})
    box = many(b"v")
    box.add(Outgoing("orders", b"v", "key"), 0.0)
    assert said(box.take())["records"][-1] == {"key": "key", "value_base64": "dg=="}
    box = many(b"v")
    traced = Outgoing("orders", b"v")
    traced.add_more({"traceparent": "00-1"}, None, None, None, None)
    box.add(traced, 0.0)
    assert "headers" in said(box.take())["records"][-1]


def test_a_node_that_takes_no_columns_gets_json() -> None:
    body = many(b"v").take().body("p1", None, columns=False)
    assert len(orjson.loads(body.data)["records"]) == COLUMNS_FROM


def test_all_that_may_be_said_of_a_record_stands_in_its_json() -> None:
    record = Outgoing("orders", b"\xff", {"id": 7}, 2)
    record.add_more(
        [("h", b"\xff"), ("g", "x")], 1_359_615_600_000_000, "mine", {"ttl_ms": 5}, None
    )
    assert orjson.loads(record.on_the_wire(False, with_topic=True)) == {
        "topic": "orders",
        "key": {"id": 7},
        "value_base64": "/w==",
        "headers": [{"key": "h", "value_base64": "/w=="}, {"key": "g", "value": "x"}],
        "timestamp": 1_359_615_600_000_000,
        "ttl_ms": 5,
        "partition": 2,
        "message_id": "mine",
    }


@pytest.mark.parametrize("value", [10**400, {"n": -(10**330)}, [10**2_000]])
def test_a_number_that_services_cannot_parse_spoils_no_request(value: object) -> None:
    assert list(orjson.loads(Outgoing("orders", value).on_the_wire(False))) == ["value_base64"]
    assert "key_base64" in orjson.loads(Outgoing("orders", 1, value).on_the_wire(False))
