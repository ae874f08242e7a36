"""What a consumer hands out and acknowledges while partitions come and go."""

from typing import Any

import pytest

from lakequeue.client.consuming.holding import Holding
from lakequeue.client.message import Message
from lakequeue.errors import EpochSuperseded, SkippedRecords
from lakequeue.wire import Assigned, receipt_of


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


def ack(holding: Holding, message: Message, through: bool = False) -> None:
    holding.ack(message, through)


def holding(*epochs: int | None) -> Holding:
    made = Holding("billing")
    made.joined(1, owns(*epochs))
    return made


def drain(held: Holding) -> list[Message]:
    out = []
    while (message := held.next()) is not None:
        out.append(message)
    return out


def no_ack(message: Message, through: bool) -> None:
    raise AssertionError


def test_records_are_handed_out_in_the_order_received() -> None:
    held = holding(1, 1)
    held.received(raws(0, 5, 6) + raws(1, 0), no_ack)
    assert [(m.partition, m.offset) for m in drain(held)] == [(0, 5), (0, 6), (1, 0)]


def test_records_of_a_partition_that_is_not_held_are_dropped() -> None:
    held = holding(1)
    held.received(raws(1, 0), no_ack)
    assert held.ready == 0


def test_a_revoked_partition_takes_its_buffered_records_along() -> None:
    held = holding(1, 1)
    held.received(raws(0, 0) + raws(1, 0), no_ack)
    (lost,) = held.assigned(2, owns(None, 1))
    assert (lost.partition, lost.epoch, lost.reason) == (0, 1, "revoked")
    assert [m.partition for m in drain(held)] == [1]


def test_a_newer_epoch_is_a_loss_too() -> None:
    held = holding(1)
    held.received(raws(0, 0), no_ack)
    (lost,) = held.assigned(2, owns(4))
    assert (lost.epoch, lost.current_epoch) == (1, 4)
    assert held.ready == 0


def test_an_epoch_that_becomes_known_is_no_loss() -> None:
    held = Holding("billing")
    held.joined(1, [Assigned(topic="orders", partition=0)])
    assert held.assigned(1, owns(3)) == []


def test_old_news_are_ignored() -> None:
    held = holding(1)
    held.assigned(5, owns(1, 1))
    assert held.assigned(4, owns(1)) == []
    assert set(held.assignment) == {("orders", 0), ("orders", 1)}


def test_news_in_turn_count_whatever_their_version() -> None:
    held = holding(1)
    held.assigned(5, owns(1))
    held.assigned(1, owns(None, 2), in_turn=True)
    held.received(raws(1, 0), no_ack)
    assert held.ready == 1, "a rebuilt ensemble counts versions anew"


def test_a_refusal_of_an_earlier_membership_takes_nothing_from_this_one() -> None:
    held = holding(7)
    held.received(raws(0, 0), no_ack)
    message = held.next()
    assert message is not None
    ack(held, message)
    held.take_acks()
    held.lose_all("node gone")
    held.take_refusal()
    held.joined(1, owns(8))
    held.received(raws(0, 0, 1), no_ack)
    assert held.refused(("orders", 0), 8) == []
    assert held.ready == 2
    assert isinstance(held.take_refusal(), EpochSuperseded)


def test_an_acknowledgement_while_the_partition_is_taken_anew_is_refused() -> None:
    held = holding(7)
    held.received(raws(0, 0), no_ack)
    (message,) = drain(held)
    held.assigned(2, [Assigned(topic="orders", partition=0, epoch=None)])
    ack(held, message)
    assert isinstance(held.take_refusal(), EpochSuperseded)


def test_the_highest_acknowledged_record_of_each_partition_is_sent() -> None:
    held = holding(1, 1)
    held.received(raws(0, 0, 1, 2) + raws(1, 9), no_ack)
    for message in drain(held)[:2]:
        ack(held, message)
    marks, number = held.take_acks()
    assert ([(m.partition, m.offset) for m in marks], number) == ([(0, 1)], 2)
    assert not held.has_acks
    held.acks_settled(number)
    assert held.settled == 2


def test_an_acknowledgement_out_of_order_names_the_record_that_is_missing() -> None:
    held = holding(1)
    held.received(raws(0, 7, 8), no_ack)
    first, second = drain(held)
    with pytest.raises(SkippedRecords, match=r"offset 8 acknowledged, 7 is not yet"):
        ack(held, second)
    ack(held, second, through=True)
    ack(held, first)  # covered already
    assert [m.offset for m in held.take_acks()[0]] == [8]


def test_an_acknowledgement_twice_is_one() -> None:
    held = holding(1)
    held.received(raws(0, 0), no_ack)
    (message,) = drain(held)
    ack(held, message)
    ack(held, message)
    assert held.queued == 1


def test_acknowledging_a_lost_record_is_refused_with_both_epochs() -> None:
    held = holding(7)
    held.received(raws(0, 0), no_ack)
    (message,) = drain(held)
    held.assigned(2, owns(9))
    assert not held.holds(message)
    ack(held, message)
    assert not held.has_acks
    refusal = held.take_refusal()
    assert isinstance(refusal, EpochSuperseded)
    assert "epoch 7 presented, 9 current" in refusal.detail
    assert held.take_refusal() is None


def test_a_refused_acknowledgement_loses_the_partition() -> None:
    held = holding(7, 7)
    held.received(raws(0, 0, 1) + raws(1, 0), no_ack)
    message = held.next()
    assert message is not None
    ack(held, message)
    held.take_acks()
    (lost,) = held.refused(("orders", 0), 9)
    assert (lost.epoch, lost.current_epoch) == (7, 9)
    assert [m.partition for m in drain(held)] == [1]
    assert isinstance(held.take_refusal(), EpochSuperseded)


def test_a_new_membership_knows_nothing_of_the_old_one() -> None:
    held = holding(1)
    held.received(raws(0, 0, 1), no_ack)
    old = held.next()
    assert old is not None
    ack(held, old)
    (lost,) = held.lose_all("node gone")
    assert (lost.reason, held.ready, held.has_acks) == ("node gone", 0, False)
    assert held.settled == held.queued, "nobody waits for what cannot be sent any more"
    assert isinstance(held.take_refusal(), EpochSuperseded)
    held.joined(1, owns(1))
    assert not held.holds(old), "the same epoch in another membership is another delivery"


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


def stretches(held: Holding, most: int = 100) -> list[tuple[int, int, int, int]]:
    """(partition, records, from, next) of all that is ready."""
    out = []
    while (stretch := held.take_stretch(most)) is not None:
        out.append(
            (stretch.partition, len(stretch.messages), stretch.from_offset, stretch.next_offset)
        )
    return out


def began(*starts: int, epoch: int = 1) -> list[Assigned]:
    return [
        Assigned(topic="orders", partition=p, epoch=epoch, generation=4, start=s)
        for p, s in enumerate(starts)
    ]


def test_stretches_are_of_one_partition_and_follow_one_another() -> None:
    held = Holding("billing")
    held.joined(1, began(5, 0))
    held.received([*raws(0, 5, 6, 7), *raws(1, 0, 1), *raws(0, 8)], no_ack)
    assert stretches(held, 2) == [(0, 2, 5, 7), (0, 1, 7, 8), (1, 2, 0, 2), (0, 1, 8, 9)]


def test_a_stretch_begins_where_the_ownership_did_though_records_before_it_are_gone() -> None:
    held = Holding("billing")
    held.joined(1, began(5))
    held.received(raws(0, 50, 51), no_ack)
    stretch = held.take_stretch(10)
    assert stretch is not None
    said = stretch.consumed
    assert (said.group, said.topic, said.partition) == ("billing", "orders", 0)
    assert (said.from_offset, said.next_offset) == (5, 52)
    assert (said.epoch, said.generation, stretch.topic_id) == (1, 4, "id")
    # A gap within what is owned is consumed with what comes after it.
    held.received(raws(0, 60), no_ack)
    assert stretches(held) == [(0, 1, 52, 61)]


def test_after_a_new_ownership_stretches_begin_where_that_did() -> None:
    held = Holding("billing")
    held.joined(1, began(5))
    held.received(raws(0, 5, 6), no_ack)
    assert stretches(held) == [(0, 2, 5, 7)]
    held.assigned(2, began(6, epoch=2))
    held.received(raws(0, 6, 7), no_ack)
    assert stretches(held) == [(0, 2, 6, 8)]
    held.lose_all("a round failed")
    held.joined(1, began(8, epoch=3))
    held.received(raws(0, 8), no_ack)
    assert stretches(held) == [(0, 1, 8, 9)]


def test_a_service_that_does_not_say_where_it_began_is_believed_by_its_first_record() -> None:
    held = holding(1)
    held.received(raws(0, 3, 4), no_ack)
    assert stretches(held) == [(0, 2, 3, 5)]


def test_a_stretch_may_be_cut_short() -> None:
    held = Holding("billing")
    held.joined(1, began(5))
    held.received(raws(0, 6, 7, 9), no_ack)
    stretch = held.take_stretch(10)
    assert stretch is not None
    cut = {end: stretch.below(end) for end in (5, 6, 8, 9, 10, 99)}
    assert cut[5] is cut[6] is None
    ends = {e: (len(s.messages), s.from_offset, s.next_offset) for e, s in cut.items() if s}
    assert ends == {8: (2, 5, 8), 9: (2, 5, 9), 10: (3, 5, 10), 99: (3, 5, 10)}
