"""Batches of a producer: order, limits, message ids, lingering."""

from datetime import UTC, datetime

import orjson
import pytest

from lakequeue.client.producing.record_accumulator import (
    Ledger,
    Limits,
    Outgoing,
    RecordAccumulator,
)
from lakequeue.client.producing.record_options import timing_of
from lakequeue.errors import InvalidRequest, Overloaded, TooLarge


def accumulator(**limits: float) -> RecordAccumulator:
    return RecordAccumulator("orders", "p1", Limits(**limits))  # type: ignore[arg-type]


def add(
    box: RecordAccumulator, value: object, now: float = 0.0, message_id: str | None = None
) -> Outgoing:
    record = box.make(value, None, None, None, None, message_id)
    box.add(record, now)
    return record


def test_a_batch_is_consecutive_and_names_its_first_sequence() -> None:
    box = accumulator(batch_size=2)
    for i in range(3):
        add(box, i)
    first, second = box.take(), box.take()
    assert [r.message_id for r in first.records] == ["p1:0", "p1:1"]
    assert orjson.loads(first.body("p1", None)) == {
        "producer_id": "p1",
        "sequence": 0,
        "records": [{"value": 0}, {"value": 1}],
    }
    assert orjson.loads(second.body("p1", 99))["sequence"] == 2
    assert orjson.loads(second.body("p1", 99))["after"] == 99


def test_the_value_is_fixed_when_it_is_sent() -> None:
    box, value = accumulator(), {"n": 1}
    add(box, value)
    value["n"] = 2
    assert orjson.loads(box.take().body("p1", None))["records"] == [{"value": {"n": 1}}]


def test_an_own_message_id_is_sent_and_still_takes_a_sequence() -> None:
    box = accumulator()
    assert add(box, 1, message_id="mine").message_id == "mine"
    assert add(box, 2).message_id == "p1:1"
    assert orjson.loads(box.take().body("p1", None))["records"][0]["message_id"] == "mine"


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
    woken = [box.add(box.make(i, None, None, None, None, None), 0.0) for i in range(3)]
    assert woken == [True, False, True]


def test_a_record_at_fault_is_taken_out_and_the_others_keep_their_ids() -> None:
    box = accumulator()
    for i in range(4):
        add(box, i)
    before, after = box.take().without(1)
    assert [r.message_id for r in before.records] == ["p1:0"]
    assert [r.message_id for r in after.records] == ["p1:2", "p1:3"]
    assert orjson.loads(after.body("p1", None))["sequence"] == 2


def test_what_cannot_be_sent_is_refused_at_once() -> None:
    box = accumulator()
    with pytest.raises(InvalidRequest):
        add(box, object())
    with pytest.raises(InvalidRequest, match="header"):
        box.make(1, None, {"n": 1}, None, None, None)  # type: ignore[dict-item]
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
    ledger.settle(records[0], error)
    assert [r.error for r in ledger.unacked()] == [error, None]
    ledger.settle(records[1], None)
    assert ledger.unacked() == [records[0]]
    assert (ledger.bytes, ledger.first_error) == (0, error)


def test_a_fenceable_producer_goes_on_at_its_next_sequence_and_says_its_epoch() -> None:
    box = RecordAccumulator("orders", "p1", Limits(), next_sequence=42)
    add(box, "v")
    body = orjson.loads(box.take().body("p1", None, 7))
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
