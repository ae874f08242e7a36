"""What a consumer hands out and acknowledges while partitions come and go."""

from typing import Any

import pytest

from lakequeue.client.consuming.fetch_buffer import FetchBuffer
from lakequeue.client.message import Message
from lakequeue.errors import EpochSuperseded, SkippedRecords
from lakequeue.wire import Assigned, receipt_of
from queue_rules.groups.member_states import Cause, unknown_member


def owns(*epochs: int | None) -> list[Assigned]:
    """Partition i of `orders` under the i-th epoch; None: not owned."""
    return [
        Assigned(topic="orders", partition=p, epoch=e)
        for p, e in enumerate(epochs)
        if e is not None
    ]


def raws(partition: int, *offsets: int) -> list[dict[str, Any]]:
    return [
        {
            "topic": "orders",
            "partition": partition,
            "offset": o,
            "key": "k",
            "value": o,
            "headers": [],
            "timestamp": 1_000_000,
            "receipt": receipt_of("id", partition, o, 1),
        }
        for o in offsets
    ]


def ack(fetch_buffer: FetchBuffer, message: Message, through: bool = False) -> None:
    fetch_buffer.ack(message, through)


def fetch_buffer(*epochs: int | None) -> FetchBuffer:
    made = FetchBuffer("billing")
    made.joined(1, owns(*epochs))
    return made


def drain(buffer: FetchBuffer) -> list[Message]:
    out = []
    while (message := buffer.next()) is not None:
        out.append(message)
    return out


def no_ack(message: Message, through: bool) -> None:
    raise AssertionError


def test_records_are_handed_out_in_the_order_received() -> None:
    buffer = fetch_buffer(1, 1)
    buffer.received(raws(0, 5, 6) + raws(1, 0), no_ack)
    assert [(m.partition, m.offset) for m in drain(buffer)] == [(0, 5), (0, 6), (1, 0)]


def test_records_of_a_partition_that_is_not_held_are_dropped() -> None:
    buffer = fetch_buffer(1)
    buffer.received(raws(1, 0), no_ack)
    assert buffer.ready == 0


def test_a_revoked_partition_takes_its_buffered_records_along() -> None:
    buffer = fetch_buffer(1, 1)
    buffer.received(raws(0, 0) + raws(1, 0), no_ack)
    (lost,) = buffer.assigned(2, owns(None, 1))
    assert (lost.partition, lost.epoch, lost.reason) == (0, 1, "revoked")
    assert [m.partition for m in drain(buffer)] == [1]


def test_a_newer_epoch_is_a_loss_too() -> None:
    buffer = fetch_buffer(1)
    buffer.received(raws(0, 0), no_ack)
    (lost,) = buffer.assigned(2, owns(4))
    assert (lost.epoch, lost.current_epoch) == (1, 4)
    assert buffer.ready == 0


def test_an_epoch_that_becomes_known_is_no_loss() -> None:
    buffer = FetchBuffer("billing")
    buffer.joined(1, [Assigned(topic="orders", partition=0)])
    assert buffer.assigned(1, owns(3)) == []


def test_old_news_are_ignored() -> None:
    buffer = fetch_buffer(1)
    buffer.assigned(5, owns(1, 1))
    assert buffer.assigned(4, owns(1)) == []
    assert set(buffer.assignment) == {("orders", 0), ("orders", 1)}


def test_news_in_turn_count_whatever_their_version() -> None:
    buffer = fetch_buffer(1)
    buffer.assigned(5, owns(1))
    buffer.assigned(1, owns(None, 2), in_turn=True)
    buffer.received(raws(1, 0), no_ack)
    assert buffer.ready == 1, "a rebuilt ensemble counts versions anew"


def test_a_refusal_of_an_earlier_membership_takes_nothing_from_this_one() -> None:
    buffer = fetch_buffer(7)
    buffer.received(raws(0, 0), no_ack)
    message = buffer.next()
    assert message is not None
    ack(buffer, message)
    buffer.take_acks()
    buffer.lose_all("node gone")
    buffer.take_refusal()
    buffer.joined(1, owns(8))
    buffer.received(raws(0, 0, 1), no_ack)
    assert buffer.refused(("orders", 0), 8) == []
    assert buffer.ready == 2
    assert isinstance(buffer.take_refusal(), EpochSuperseded)


def test_an_acknowledgement_while_the_partition_is_taken_anew_is_refused() -> None:
    buffer = fetch_buffer(7)
    buffer.received(raws(0, 0), no_ack)
    (message,) = drain(buffer)
    buffer.assigned(2, [Assigned(topic="orders", partition=0, epoch=None)])
    ack(buffer, message)
    assert isinstance(buffer.take_refusal(), EpochSuperseded)


def test_the_highest_acknowledged_record_of_each_partition_is_sent() -> None:
    buffer = fetch_buffer(1, 1)
    buffer.received(raws(0, 0, 1, 2) + raws(1, 9), no_ack)
    for message in drain(buffer)[:2]:
        ack(buffer, message)
    marks, number = buffer.take_acks()
    assert ([(m.partition, m.offset) for m in marks], number) == ([(0, 1)], 2)
    assert not buffer.has_acks
    buffer.acks_settled(number)
    assert buffer.settled == 2


def test_an_acknowledgement_out_of_order_names_the_record_that_is_missing() -> None:
    buffer = fetch_buffer(1)
    buffer.received(raws(0, 7, 8), no_ack)
    first, second = drain(buffer)
    with pytest.raises(SkippedRecords, match=r"offset 8 acknowledged, 7 is not yet"):
        ack(buffer, second)
    ack(buffer, second, through=True)
    ack(buffer, first)  # covered already
    assert [m.offset for m in buffer.take_acks()[0]] == [8]


def test_an_acknowledgement_twice_is_one() -> None:
    buffer = fetch_buffer(1)
    buffer.received(raws(0, 0), no_ack)
    (message,) = drain(buffer)
    ack(buffer, message)
    ack(buffer, message)
    assert buffer.queued == 1


def test_acknowledging_a_lost_record_is_refused_with_both_epochs() -> None:
    buffer = fetch_buffer(7)
    buffer.received(raws(0, 0), no_ack)
    (message,) = drain(buffer)
    buffer.assigned(2, owns(9))
    assert not buffer.holds(message)
    ack(buffer, message)
    assert not buffer.has_acks
    refusal = buffer.take_refusal()
    assert isinstance(refusal, EpochSuperseded)
    assert "epoch 7 presented, 9 current" in refusal.detail
    assert buffer.take_refusal() is None


def test_a_refused_acknowledgement_loses_the_partition() -> None:
    buffer = fetch_buffer(7, 7)
    buffer.received(raws(0, 0, 1) + raws(1, 0), no_ack)
    message = buffer.next()
    assert message is not None
    ack(buffer, message)
    buffer.take_acks()
    (lost,) = buffer.refused(("orders", 0), 9)
    assert (lost.epoch, lost.current_epoch) == (7, 9)
    assert [m.partition for m in drain(buffer)] == [1]
    assert isinstance(buffer.take_refusal(), EpochSuperseded)


def test_a_new_membership_knows_nothing_of_the_old_one() -> None:
    buffer = fetch_buffer(1)
    buffer.received(raws(0, 0, 1), no_ack)
    old = buffer.next()
    assert old is not None
    ack(buffer, old)
    (lost,) = buffer.lose_all("node gone")
    assert (lost.reason, buffer.ready, buffer.has_acks) == ("node gone", 0, False)
    assert buffer.settled == buffer.queued, "nobody waits for what cannot be sent any more"
    assert isinstance(buffer.take_refusal(), EpochSuperseded)
    buffer.joined(1, owns(1))
    assert not buffer.holds(old), "the same epoch in another membership is another delivery"


def test_a_message_reads_as_it_was_sent() -> None:
    raw = raws(0, 3)[0] | {
        "key_base64": "AP8=",
        "value": '{"a": 1}',
        "headers": [{"key": "h", "value": "1"}, {"key": "h", "value_base64": "/w=="}],
    }
    message = Message(raw, 1, 1, no_ack)
    assert (message.key, message.value, message.json()) == (b"\x00\xff", '{"a": 1}', {"a": 1})
    assert message.headers == [("h", b"1"), ("h", b"\xff")]
    assert message.header("h") == b"\xff"
    assert message.time.isoformat() == "1970-01-01T00:00:01+00:00"


def spans(buffer: FetchBuffer, most: int = 100) -> list[tuple[int, int, int, int]]:
    """(partition, records, from, next) of all that is ready."""
    out = []
    while (span := buffer.take_range(most)) is not None:
        out.append((span.partition, len(span.messages), span.from_offset, span.next_offset))
    return out


def began(*starts: int, epoch: int = 1) -> list[Assigned]:
    return [
        Assigned(topic="orders", partition=p, epoch=epoch, generation=4, start=s)
        for p, s in enumerate(starts)
    ]


def test_ranges_are_of_one_partition_and_follow_one_another() -> None:
    buffer = FetchBuffer("billing")
    buffer.joined(1, began(5, 0))
    buffer.received([*raws(0, 5, 6, 7), *raws(1, 0, 1), *raws(0, 8)], no_ack)
    assert spans(buffer, 2) == [(0, 2, 5, 7), (0, 1, 7, 8), (1, 2, 0, 2), (0, 1, 8, 9)]


def test_a_range_begins_where_the_ownership_did_though_records_before_it_are_gone() -> None:
    buffer = FetchBuffer("billing")
    buffer.joined(1, began(5))
    buffer.received(raws(0, 50, 51), no_ack)
    span = buffer.take_range(10)
    assert span is not None
    said = span.consumed
    assert (said.group, said.topic, said.partition) == ("billing", "orders", 0)
    assert (said.from_offset, said.next_offset) == (5, 52)
    assert (said.epoch, said.generation, span.topic_id) == (1, 4, "id")
    # A gap within what is owned is consumed with what comes after it.
    buffer.received(raws(0, 60), no_ack)
    assert spans(buffer) == [(0, 1, 52, 61)]


def test_after_a_new_ownership_ranges_begin_where_that_did() -> None:
    buffer = FetchBuffer("billing")
    buffer.joined(1, began(5))
    buffer.received(raws(0, 5, 6), no_ack)
    assert spans(buffer) == [(0, 2, 5, 7)]
    buffer.assigned(2, began(6, epoch=2))
    buffer.received(raws(0, 6, 7), no_ack)
    assert spans(buffer) == [(0, 2, 6, 8)]
    buffer.lose_all("a round failed")
    buffer.joined(1, began(8, epoch=3))
    buffer.received(raws(0, 8), no_ack)
    assert spans(buffer) == [(0, 1, 8, 9)]


def test_a_service_that_does_not_say_where_it_began_is_believed_by_its_first_record() -> None:
    buffer = fetch_buffer(1)
    buffer.received(raws(0, 3, 4), no_ack)
    assert spans(buffer) == [(0, 2, 3, 5)]


def test_a_range_may_be_cut_short() -> None:
    buffer = FetchBuffer("billing")
    buffer.joined(1, began(5))
    buffer.received(raws(0, 6, 7, 9), no_ack)
    span = buffer.take_range(10)
    assert span is not None
    cut = {end: span.below(end) for end in (5, 6, 8, 9, 10, 99)}
    assert cut[5] is cut[6] is None
    ends = {e: (len(s.messages), s.from_offset, s.next_offset) for e, s in cut.items() if s}
    assert ends == {8: (2, 5, 8), 9: (2, 5, 9), 10: (3, 5, 10), 99: (3, 5, 10)}


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [(Cause.STUCK, "larger max_poll_interval_ms"), (Cause.SILENT, "no action is needed")],
)
def test_an_acknowledgement_after_a_standstill_names_the_setting(cause: Cause, remedy: str) -> None:
    buffer = fetch_buffer(7)
    buffer.received(raws(0, 0), no_ack)
    (message,) = drain(buffer)
    ack(buffer, message)
    buffer.lose_all(unknown_member("billing", "m", cause).detail)
    refusal = buffer.take_refusal()
    assert isinstance(refusal, EpochSuperseded)
    assert remedy in refusal.hint
