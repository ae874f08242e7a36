"""Queue groups over HTTP: each record to one worker, acked one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from lakequeue.clock import wall_micros
from queue_tables.schema.topic_rules import Topic
from queue_tables.topics import TopicStore
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
    Records,
    describe,
    group_of,
    offsets,
)
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]
MS = 1_000


def worker(node: NodeProcess, topic: Topic, **options: Any) -> HttpMember:
    """A member of the topic's queue group."""
    return HttpMember(node.url, topic, options={"mode": "queue", **options})


def test_many_workers_share_a_partition_and_each_record_goes_to_one(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [str(i) for i in range(20)])
    with worker(node, topic, max_in_flight=8) as a, worker(node, topic, max_in_flight=8) as b:
        mine, theirs = a.poll_until(8), b.poll_until(8)
        assert not set(offsets(mine)) & set(offsets(theirs))
        assert a.poll(wait_ms=50) == [], "max_in_flight is reached"
        assert {r["attempt"] for r in mine + theirs} == {1}
        assert a.ack(mine).status_code == 200
        rest = a.poll_until(4)
        assert sorted(offsets(mine + theirs + rest)) == list(range(20))
        assert b.ack(theirs).status_code == 200
        assert a.ack(rest).status_code == 200
        row = describe(node.url, a.group)[0]
        assert (row["lag"], row["in_flight"], row["parked"]) == (0, 0, 0)


def test_any_record_may_be_acked_first_and_what_a_worker_leaves_comes_again_at_once(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b", "c"])
    # It is the last worker: its node gives the partition back, so the tables have to say it.
    with worker(node, topic, visibility_timeout_ms=600_000) as first:
        records = first.poll_until(3)
        assert first.ack(records[1:2]).status_code == 200
        first.leave()
    with worker(node, topic) as second:
        again = second.poll_until(2)
        assert offsets(again) == [0, 2]
        assert [r["attempt"] for r in again] == [2, 2]


def test_an_unacked_record_goes_to_another_after_its_timeout_and_not_before(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    options = {"visibility_timeout_ms": 700}
    with worker(node, topic, **options) as slow, worker(node, topic, **options) as other:
        late = slow.poll_until(1)
        again = other.poll_until(1)
        assert wall_micros() >= late[0]["deadline"]
        assert again[0]["attempt"] == 2
        refused = slow.ack(late)
        assert (refused.status_code, refused.json()["code"]) == (409, "attempt_superseded")
        said = refused.json()["refused"][0]
        assert (said["why"], said["attempt"], said["current_attempt"]) == ("superseded", 1, 2)
        assert "attempt 1" in refused.json()["detail"]
        assert "2 current" in refused.json()["detail"]
        assert other.ack(again).status_code == 200


def test_after_the_timeout_a_receipt_is_refused_with_the_deadline(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    with worker(node, topic, visibility_timeout_ms=300, max_in_flight=1) as slow:
        late = slow.poll_until(1)
        wait_for(lambda: wall_micros() > late[0]["deadline"], "the deadline passes")
        said = slow.ack(late).json()["refused"][0]
        assert (said["why"], said["deadline"]) == ("timed_out", late[0]["deadline"])


def test_an_extension_keeps_a_record(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    options = {"visibility_timeout_ms": 500}
    with worker(node, topic, **options) as slow, worker(node, topic, **options) as other:
        kept = slow.poll_until(1)
        extended = slow.post(
            extend=[{"receipt": kept[0]["receipt"], "visibility_timeout_ms": 60_000}]
        )
        assert extended.status_code == 200
        assert extended.json()["settled"][0]["deadline"] > kept[0]["deadline"] + 50_000 * MS
        wait_for(lambda: wall_micros() > kept[0]["deadline"] + 200 * MS, "the first deadline")
        assert other.poll(wait_ms=50) == []
        assert slow.ack(kept).status_code == 200


def test_a_nacked_record_rests_and_comes_again_with_the_next_attempt(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    with worker(node, topic, backoff_ms=400, backoff_jitter_percent=0) as member:
        first, second = member.poll_until(2)
        nacked = member.post(
            nacks=[{"receipt": first["receipt"]}, {"receipt": second["receipt"], "delay_ms": 900}]
        )
        due = {s["receipt"]: s["due"] for s in nacked.json()["settled"]}
        assert due[second["receipt"]] - due[first["receipt"]] == 500 * MS
        assert describe(node.url, member.group)[0]["parked"] == 2
        again = member.poll_until(1, max_records=1)
        arrived = wall_micros()
        assert (again[0]["offset"], again[0]["attempt"]) == (0, 2)
        assert 0 <= arrived - due[first["receipt"]] < 500 * MS
        other = member.poll_until(1)
        assert 0 <= wall_micros() - due[second["receipt"]] < 500 * MS
        assert other[0]["offset"] == 1


def test_a_key_waits_for_its_record_and_other_keys_go_on(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    for value, key in zip("abcde", "xxyxy", strict=True):
        queue.log.append(topic, [value], key=key)
    with worker(node, topic, ordering="key") as one, worker(node, topic) as two:
        first = one.poll_until(2)
        assert offsets(first) == [0, 2]
        assert two.poll(wait_ms=100) == []
        assert describe(node.url, one.group)[0]["lag"] == 5, "each record counts once"
        assert one.ack(first[:1]).status_code == 200
        assert offsets(two.poll_until(1)) == [1]
        assert one.post(nacks=[{"receipt": first[1]["receipt"], "delay_ms": 0}]).status_code == 200
        assert offsets(one.poll_until(1)) == [2]


def test_thousands_of_one_key_in_front_do_not_keep_others_back(
    queue: Queue, node: NodeProcess
) -> None:
    topic, hot = queue.log.topic(), 13_500
    queue.log.append(topic, ["v"] * hot, key="hot")
    queue.log.append(topic, ["v"], key="other")
    with worker(node, topic, ordering="key") as member:
        records = member.poll_until(2)
        assert offsets(records) == [0, hot]
        assert member.ack(records).status_code == 200
        assert offsets(member.poll_until(1)) == [1]


def test_delayed_records_come_when_they_are_due_and_survive_a_restart(
    queue: Queue, start_node: Start
) -> None:
    topic = queue.log.topic()
    before = start_node(queue, "delaying-1")
    due = wall_micros() + 3_000 * MS
    queue.log.append(topic, ["now", "later"], deliver_at=[None, due])
    with worker(before, topic) as member:
        assert offsets(member.poll_until(1)) == [0]
        assert member.poll(wait_ms=50) == []
        assert describe(before.url, member.group)[0]["parked"] == 1
    before.kill()
    after = start_node(queue, "delaying-2")
    with worker(after, topic) as member:
        member.wait_owned(1)
        records = member.poll_until(1)
        assert (offsets(records), records[0]["attempt"]) == ([1], 1)
        assert wall_micros() >= due


def test_expired_records_are_recorded_and_not_delivered(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    past = wall_micros() - 1
    queue.log.append(topic, ["old", "new"], expires_at=[past, None])
    with worker(node, topic) as member:
        assert offsets(member.poll_until(1)) == [1]
        row = describe(node.url, member.group)[0]
        assert (row["in_flight"], row["committed_offset"]) == (1, 2)


def test_a_group_keeps_its_mode_and_options_and_says_what_differs(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    path = f"{node.url}/v1/groups/{group_of(topic)}/members"

    def join(**options: Any) -> httpx2.Response:
        return httpx2.post(path, json={"topics": [topic.topic], **options}, timeout=30)

    assert join(mode="queue", max_attempts=3).status_code == 201
    assert join(mode="queue").status_code == 201
    other = join(mode="queue", max_attempts=4)
    assert (other.status_code, other.json()["code"]) == (409, "group_mismatch")
    assert "max_attempts 3, 4 was asked for" in other.json()["detail"]
    assert join(mode="queue", visibility_timeout_ms=1_000).status_code == 409
    stream = join()
    assert (stream.status_code, stream.json()["field"]) == (409, "mode")
    described = httpx2.get(f"{node.url}/v1/groups/{group_of(topic)}", timeout=30).json()
    assert (described["mode"], described["options"]) == ("queue", {"max_attempts": 3})


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"mode": "queue", "visibility_timeout_ms": 0}, "visibility_timeout_ms"),
        ({"mode": "queue", "max_attempts": 0}, "max_attempts"),
        ({"mode": "queue", "ordering": "none of these"}, "ordering"),
        ({"mode": "queue", "max_in_flight": 0}, "max_in_flight"),
        ({"mode": "queue", "backoff_ms": 9, "backoff_max_ms": 3}, "backoff_max_ms"),
        ({"mode": "stream", "max_attempts": 3}, "max_attempts"),
    ],
)
def test_options_that_are_not_valid_are_refused_and_named(
    queue: Queue, node: NodeProcess, options: dict[str, Any], field: str
) -> None:
    topic = queue.log.topic()
    answer = httpx2.post(
        f"{node.url}/v1/groups/{group_of(topic)}/members",
        json={"topics": [topic.topic], **options},
        timeout=30,
    )
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_dead_letters_that_would_come_back_are_refused(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    path = f"{node.url}/v1/groups/{group_of(topic)}/members"
    body = {"topics": [topic.topic], "mode": "queue", "dead_letter_topic": topic.topic}
    own = httpx2.post(path, json=body, timeout=30)
    assert (own.status_code, own.json()["field"]) == (422, "dead_letter_topic")
    TopicStore(queue.root).create(f"{topic.topic}-b", dead_letter_topic=topic.topic)
    cycle = httpx2.post(path, json=body | {"dead_letter_topic": f"{topic.topic}-b"}, timeout=30)
    assert cycle.status_code == 422
    assert "→" in cycle.json()["detail"]


def test_bad_receipts_and_delays_are_refused_and_nothing_is_lost(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    with worker(node, topic) as member, worker(node, topic) as other:
        other.leave()
        other.group += "-2"
        other.join()
        mine, theirs = member.poll_until(1), other.poll_until(1)
        receipt = mine[0]["receipt"]
        foreign = member.ack(theirs)
        assert (foreign.status_code, foreign.json()["refused"][0]["why"]) == (409, "other_group")
        for delay in (-1, 1 << 60, "soon"):
            bad = member.post(nacks=[{"receipt": receipt, "delay_ms": delay}])
            assert bad.status_code == 422, bad.text
        assert member.post(acks=[receipt], nacks=[{"receipt": receipt}]).status_code == 422
        assert member.post(acks=["nonsense"]).status_code == 422
        assert member.post(acks=[receipt.replace(".1.", ".9.")]).status_code in {409, 422}
        assert (
            member.post(commit=[{"topic": topic.topic, "partition": 0, "offset": 1}]).json()[
                "field"
            ]
            == "commit"
        )
        assert member.ack(mine).status_code == 200
        repeated = member.ack(mine)
        assert repeated.status_code == 200, "a repeated ack is answered as the first one was"


def test_a_waiting_poll_is_answered_by_a_new_record_and_one_record_wakes_one(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    with worker(node, topic) as a, worker(node, topic) as b:
        a.wait_owned(1)
        found: list[Records] = []
        polls = [
            threading.Thread(target=lambda m=m: found.append(m.poll(500, 3_000))) for m in (a, b)
        ]
        for poll in polls:
            poll.start()
        queue.log.append(topic, ["one"])
        for poll in polls:
            poll.join(20)
        assert sorted(len(records) for records in found) == [0, 1]


def test_at_most_once_is_settled_before_it_leaves(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    with worker(node, topic, delivery="at_most_once") as member:
        assert offsets(member.poll_until(2)) == [0, 1]
        assert describe(node.url, member.group)[0]["lag"] == 0


def test_an_answer_that_was_lost_goes_to_another_at_once(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    with worker(node, topic) as member:
        member.wait_owned(1)
        lost = member.get(after=0).json()
        again = member.get(after=0).json()
        assert offsets(lost["records"]) == offsets(again["records"]) == [0]
        assert again["records"][0]["attempt"] == 2


def test_a_seek_starts_a_new_generation_and_old_receipts_are_refused(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    with worker(node, topic) as before:
        old = before.poll_until(2)
        assert before.ack(old[:1]).status_code == 200
        before.leave()
        wait_for(
            lambda: (
                httpx2.post(
                    f"{node.url}/v1/groups/{before.group}/seek", json={"to": "earliest"}, timeout=30
                ).status_code
                == 200
            ),
            "the group is idle",
        )
    with worker(node, topic) as after:
        again = after.poll_until(2)
        assert [(r["offset"], r["attempt"]) for r in again] == [(0, 1), (1, 1)]
        refused = after.ack(old)
        assert refused.status_code == 409
        assert after.ack(again).status_code == 200
