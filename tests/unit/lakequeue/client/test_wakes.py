"""What ends a wait without a timeout: anything that makes a timeout necessary."""

from __future__ import annotations

from lakequeue.calling.effects import Http, Reply, Wait
from lakequeue.calling.nodes import Nodes
from lakequeue.client.consuming.core import Consuming
from lakequeue.client.consuming.membership import ConsumeOptions, Membership
from lakequeue.client.producing.record_accumulator import Limits
from lakequeue.client.producing.sender import Sender
from lakequeue.wire import Assigned, JoinRequest, receipt_of


def no_notice() -> None:
    return


def test_a_record_sent_after_a_pause_goes_when_its_linger_is_over() -> None:
    now = 100.0
    core = Sender(
        Nodes("http://node"), "p", "committed", Limits(500, 1 << 20, 0.005, 1 << 20), 120.0,
        lambda: now, no_notice, None, None,
    )  # fmt: skip

    def send() -> None:
        core.queue(core.prepare("t", "v", None))

    accumulator = core.queue(core.prepare("t", "v", None))
    assert accumulator is not None
    script = core.deliver(accumulator)
    assert isinstance(next(script), Wait)
    now += 1.0
    request = script.send(True)
    assert isinstance(request, Http)
    answer = b'{"records": [{"partition": 0, "message_id": "p:0"}], "stamp": 1}'
    idle = script.send(Reply(200, {}, answer))
    assert isinstance(idle, Wait)
    assert (idle.until(), idle.timeout_s) == (False, None)
    send()
    assert idle.until(), "nobody rings when the linger is over"
    lingering = script.send(True)
    assert isinstance(lingering, Wait)
    assert lingering.timeout_s is not None
    assert lingering.timeout_s <= 0.005


def test_an_ack_made_just_after_another_was_sent_does_not_wait_for_a_heartbeat() -> None:
    now = 100.0
    core = Consuming(
        Nodes("http://node"), "g", JoinRequest(topics=["t"]), ConsumeOptions(), lambda: now,
        no_notice, None, None,
    )  # fmt: skip
    core.member = Membership("m", Nodes("http://node"), 30.0, now)
    core.buffer.joined(1, [Assigned(topic="t", partition=0, epoch=1)])
    raws = [
        {"topic": "t", "partition": 0, "offset": o, "receipt": receipt_of("id", 0, o, 1)}
        for o in range(2)
    ]
    core.buffer.received(raws, core.ack)
    first, second = core.next(), core.next()
    assert first is not None
    assert second is not None
    script = core.keep()
    first.ack()
    assert isinstance(next(script), Http)
    idle = script.send(Reply(200, {}, b"{}"))
    assert isinstance(idle, Wait)
    assert not idle.until()
    second.ack()
    assert idle.until(), "nobody rings when the ack interval is over"
    pause = script.send(True)
    assert isinstance(pause, Wait)
    assert pause.timeout_s is not None
    assert pause.timeout_s <= 0.05
