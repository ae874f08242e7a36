"""The scripts of a consumer, run by hand."""

from __future__ import annotations

import contextlib

import orjson
import pytest

from lakequeue.calling.effects import Http, Now, Reply, Wait
from lakequeue.calling.nodes import FIND_EVERY_S, Nodes
from lakequeue.client.consuming.core import Consuming
from lakequeue.client.consuming.membership import ConsumeOptions, Membership
from lakequeue.client.consuming.queue_core import QueueConsuming
from lakequeue.errors import Broken, InvalidRequest, NotReady
from lakequeue.wire import MINIMAL, PREFER, Assigned, JoinRequest


def consuming(nodes: Nodes | None = None, now: Now = lambda: 100.0) -> Consuming:
    return Consuming(
        nodes or Nodes("http://a"),
        "billing",
        JoinRequest(topics=["orders"]),
        ConsumeOptions(),
        now,
        lambda: None,
        None,
        None,
    )


def joined(core: Consuming) -> None:
    core.member = Membership("m", Nodes("http://a"), 6.0, 100.0)
    core.buffer.joined(1, [Assigned(topic="orders", partition=0, epoch=1)])
    raw = {"topic": "orders", "partition": 0, "offset": 0, "receipt": "r"}
    core.buffer.received([raw], core.ack)


def test_the_keeper_sleeps_while_there_is_no_membership() -> None:
    core = consuming()
    effect = next(core.keep())
    assert isinstance(effect, Wait)
    assert (effect.until(), effect.timeout_s) == (False, None)
    joined(core)
    assert effect.until(), "and wakes when there is one"


def test_the_keeper_sleeps_until_the_next_heartbeat_and_wakes_for_acknowledgements() -> None:
    core = consuming()
    joined(core)
    script = core.keep()
    effect = next(script)
    assert isinstance(effect, Wait)
    assert (effect.until(), effect.timeout_s) == (False, 2.0)
    message = core.next()
    assert message is not None
    message.ack()
    assert effect.until()
    sent = script.send(True)
    assert isinstance(sent, Http)
    assert sent.url == "http://a/v1/groups/billing/members/m/acks"
    assert sent.request.body == b'{"acks":["r"],"commit_through":true}'


def told(*urls: str) -> Reply:
    """The nodes that there are."""
    infos = [{"url": url, "node": url} for url in urls]
    return Reply(200, {}, orjson.dumps({"ingest": [], "consumer": infos}))


def test_the_keeper_asks_the_node_of_its_member_for_others_when_it_is_time() -> None:
    times = [0.0]
    known = Nodes("http://gone", finds=True, now=lambda: times[0])
    known.found([], "http://gone")
    assert known.find_now()
    core = consuming(known)
    core.member = Membership("m", Nodes("http://a"), 60.0, 100.0)
    script = core.keep()
    effect = next(script)
    assert isinstance(effect, Wait)
    assert effect.timeout_s == FIND_EVERY_S, "before the next heartbeat"
    times[0] = FIND_EVERY_S
    asked = script.send(False)
    assert isinstance(asked, Http)
    assert asked.url == "http://a/v1/nodes"
    effect = script.send(told("http://a", "http://b"))
    assert known.candidates == ["http://a", "http://b"]
    assert isinstance(effect, Wait)


def test_a_join_that_is_refused_asks_for_other_nodes_and_goes_to_one_of_them() -> None:
    times = [0.0]
    known = Nodes("http://a", finds=True, now=lambda: times[0])
    core = consuming(known, lambda: times[0])
    there = ["http://a"]
    script = core.fetch()
    effect = next(script)
    joins: list[str] = []
    while not joins or joins[-1] != "http://b/v1/groups/billing/members":
        assert len(joins) < 50, "it never goes to the other one"
        if isinstance(effect, Wait):
            times[0] += effect.timeout_s or 0.0
            effect = script.send(False)
            continue
        assert isinstance(effect, Http)
        if effect.url.endswith("/v1/nodes"):
            effect = script.send(told(*there))
        else:
            joins.append(effect.url)
            there = ["http://a", "http://b"]
            problem = NotReady("starting", hint="wait").to_problem()
            effect = script.send(Reply(503, {}, orjson.dumps(problem)))


def test_the_keeper_ends_when_everything_is_sent() -> None:
    core = consuming()
    core.end()
    assert list(core.keep()) == []


def test_a_heartbeat_that_a_poll_has_overtaken_drops_no_records() -> None:
    core = consuming()
    core.member = Membership("m", Nodes("http://a"), 6.0, 0.0)
    core.buffer.joined(1, [Assigned(topic="orders", partition=0)])
    beat = core.keep()
    assert isinstance(next(beat), Http)
    polled = core._poll(core.member)
    assert isinstance(next(polled), Http)
    raw = {"topic": "orders", "partition": 0, "offset": 0, "receipt": "r"}
    owned = {"topic": "orders", "partition": 0, "epoch": 3}
    body = {"records": [raw], "poll": 1, "assignment": [owned], "assignment_version": 1}
    with contextlib.suppress(StopIteration):
        polled.send(Reply(200, {}, orjson.dumps(body)))
    stale = {"assignment": [owned | {"epoch": None}], "assignment_version": 1}
    beat.send(Reply(200, {}, orjson.dumps(stale)))
    assert core.buffer.ready == 1, "the service counts it as delivered"


RAW = {"topic": "orders", "partition": 0, "offset": 0, "receipt": "r"}
OWNED = {"topic": "orders", "partition": 0, "epoch": 3}


def polled(core: Consuming, **answer: object) -> Http:
    """One poll, answered so; what it had asked."""
    assert core.member is not None
    script = core._poll(core.member)
    asked = next(script)
    assert isinstance(asked, Http)
    body = {"records": [], "assignment_version": 1} | answer
    with contextlib.suppress(StopIteration):
        script.send(Reply(200, {}, orjson.dumps(body)))
    return asked


def test_a_poll_need_not_be_told_what_the_one_before_was_told() -> None:
    core = consuming()
    core.member = Membership("m", Nodes("http://a"), 6.0, 0.0)
    core.buffer.joined(1, [Assigned(topic="orders", partition=0)])
    first = polled(core, poll=1, assignment=[OWNED])
    assert PREFER not in first.request.headers, "nothing was told yet"
    second = polled(core, poll=2, records=[RAW], assignment=None)
    assert second.request.headers[PREFER] == MINIMAL
    assert (core.buffer.ready, core.buffer.assignment) == (1, {("orders", 0): 3})


@pytest.mark.parametrize("says", [[OWNED], [], [OWNED | {"epoch": None}]])
def test_what_a_heartbeat_says_while_a_poll_waits_drops_none_of_its_records(
    says: list[dict[str, object]],
) -> None:
    core = consuming()
    core.member = Membership("m", Nodes("http://a"), 6.0, 0.0)
    polled(core, poll=1, assignment=[OWNED])
    core.buffer.assigned(1, [Assigned.model_validate(one) for one in says])
    polled(core, poll=2, records=[RAW], assignment=None)
    assert (core.buffer.ready, core.buffer.assignment) == (1, {("orders", 0): 3})
    assert core.member.last_poll == 2


def test_what_was_told_by_an_answer_without_a_number_is_told_again() -> None:
    core = consuming()
    core.member = Membership("m", Nodes("http://a"), 6.0, 0.0)
    polled(core, poll=1, assignment=[OWNED])
    polled(core, poll=0, assignment=[])
    again = polled(core, poll=2, assignment=[OWNED])
    assert PREFER not in again.request.headers
    assert again.request.params["after"] == 1


def worker() -> QueueConsuming:
    return QueueConsuming(
        Nodes("http://a"),
        "mailer",
        JoinRequest(topics=["orders"], mode="queue"),
        ConsumeOptions(),
        lambda: 100.0,
        lambda: None,
        None,
        None,
        60.0,
    )


def test_what_a_waiting_poll_brings_after_a_stop_is_given_back() -> None:
    core = worker()
    parked = core.fetch()
    assert isinstance(next(parked), Http), "the join"
    joined = {"member_id": "m", "session_timeout_ms": 6000, "assignment": []}
    assert isinstance(parked.send(Reply(201, {}, orjson.dumps(joined))), Http), "the poll"
    keep = core.keep()
    asleep = next(keep)
    assert isinstance(asleep, Wait)
    core.stop()
    assert not asleep.until(), "nothing is held"
    raw = {"topic": "orders", "partition": 0, "offset": 0, "receipt": "r", "attempt": 1}
    body = {"records": [raw], "poll": 1, "assignment": [], "assignment_version": 1}
    with pytest.raises(StopIteration):
        parked.send(Reply(200, {}, orjson.dumps(body)))
    assert asleep.until()
    sent = keep.send(True)
    assert isinstance(sent, Http)
    said = orjson.loads(sent.request.body or b"")
    back = {"receipt": "r", "delay_ms": 0}
    assert said["nacks"] == [back | {"unopened": True}]
    assert (core.buffer.ready, core.buffer.next_renewal_in()) == (0, None)
    # A service of an earlier release does not know the field: it is told what it understands.
    assert core.member is not None
    problem = InvalidRequest("nacks.0.unopened: Extra inputs are not permitted", hint="see")
    again = keep.send(Reply(422, {}, orjson.dumps(problem.to_problem())))
    assert isinstance(again, Http)
    assert orjson.loads(again.request.body or b"")["nacks"] == [back]
    assert not core.is_given_back
    keep.send(Reply(200, {}, b"{}"))
    assert core.is_given_back


@pytest.mark.parametrize(("failed", "told"), [(False, {"after": 7}), (True, {})])
def test_a_worker_that_leaves_says_which_answer_it_got_last_if_it_could_read_all(
    failed: bool, told: dict[str, int]
) -> None:
    core = worker()
    core.member = Membership("m", Nodes("http://a"), 6.0, 0.0, last_poll=7)
    core.error = InvalidRequest("no record", hint="none") if failed else None
    leaving = next(core.leave())
    assert isinstance(leaving, Http)
    assert (leaving.request.method, leaving.request.params) == ("DELETE", told)


def test_what_comes_when_all_is_given_back_is_nobodys() -> None:
    core = worker()
    core.member = Membership("m", Nodes("http://a"), 6.0, 0.0, last_poll=1)
    core.stop()
    last = core.last_said(10.0)
    wait = next(last)
    assert isinstance(wait, Wait)
    assert wait.until()
    with pytest.raises(StopIteration):
        last.send(True)
    raw = {"topic": "orders", "partition": 0, "offset": 0, "receipt": "r", "attempt": 1}
    polled(core, poll=2, records=[raw], assignment=[])
    assert (core.buffer.ready, core.member.last_poll) == (0, 1)


def test_an_unreadable_answer_ends_consuming_loudly() -> None:
    core = consuming()
    fetch = core.fetch()
    assert isinstance(next(fetch), Http)
    joined = {"member_id": "m", "session_timeout_ms": 6000}
    assert isinstance(fetch.send(Reply(201, {}, orjson.dumps(joined))), Http)
    with contextlib.suppress(StopIteration):
        fetch.send(Reply(200, {}, b"<html>"))
    assert isinstance(core.error, Broken)


def test_one_that_was_dropped_joins_again_only_when_the_application_asks() -> None:
    core = consuming()
    joined(core)
    fetch = core.fetch()
    assert isinstance(next(fetch), Http), "the first join"
    answer = b'{"member_id": "m", "session_timeout_ms": 6000, "assignment": []}'
    assert isinstance(fetch.send(Reply(201, {}, answer)), Http), "a poll"
    gone = b'{"code": "unknown_member", "detail": "member m is not in the group"}'
    parked = fetch.send(Reply(404, {}, gone))
    assert isinstance(parked, Wait)
    assert (parked.until(), parked.timeout_s) == (False, None)
    waiting: list[bool] = [core.has_news]
    assert core.next() is None
    waiting.append(core.has_news)
    assert waiting == [True, False], "an application that waits is woken, and asks"
    assert parked.until()
    again = fetch.send(True)
    assert isinstance(again, Http)
    assert again.request.path.endswith("/members")


def test_a_transformer_joins_at_a_node_of_an_earlier_release() -> None:
    core = consuming()
    core.go_gapless()
    script = core.fetch()
    first = next(script)
    assert isinstance(first, Http)
    assert orjson.loads(first.request.body or b"")["gapless"] is True
    unknown = {
        "code": "invalid_request",
        "detail": "gapless: Extra inputs are not permitted",
        "field": "gapless",
        "retryable": False,
    }
    second = script.send(Reply(422, {}, orjson.dumps(unknown)))
    assert isinstance(second, Http)
    assert "gapless" not in orjson.loads(second.request.body or b"")
    answer = {"member_id": "m", "session_timeout_ms": 6000, "assignment": []}
    assert isinstance(script.send(Reply(201, {}, orjson.dumps(answer))), Http), "the poll"
