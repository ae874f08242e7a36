"""Stream groups over HTTP: delivery in order, positions, membership, refusals."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable

import httpx2
import pytest

from lakequeue.records import Format
from queue_tables.topics import TopicStore
from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue, describe, offsets
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]


def test_records_come_as_they_were_sent_in_offset_order(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["text", "täxt"])
    queue.log.append(topic, [b'{"a": [1, 2.5]}'], fmt=Format.JSON)
    queue.log.append(topic, [b"\xff\x00"], fmt=Format.BYTES)
    with HttpMember(node.url, topic) as member:
        records = member.poll_until(4)
    assert offsets(records) == [0, 1, 2, 3]
    assert [r.get("value") for r in records] == ["text", "täxt", {"a": [1, 2.5]}, None]
    assert records[3]["value_base64"] == "/wA="
    assert {r["key"] for r in records} == {"k"}
    assert records[0]["topic"] == topic.topic
    assert records[0]["message_id"] == "0-0"


def test_a_waiting_poll_is_answered_when_a_record_is_ordered(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    with HttpMember(node.url, topic) as member:
        member.wait_owned(1)
        found: list[int] = []
        poll = threading.Thread(target=lambda: found.extend(offsets(member.poll(500, 20_000))))
        poll.start()
        queue.log.append(topic, ["one"])
        poll.join(15)
        assert found == [0]


def test_a_poll_without_records_ends_empty_after_its_wait(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    with HttpMember(node.url, topic) as member:
        assert member.poll(wait_ms=50) == []


def test_acked_records_are_not_delivered_again_and_the_others_are(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [str(i) for i in range(10)])
    with HttpMember(node.url, topic) as first:
        records = first.poll_until(10)
        answer = first.ack(records[:4])
        assert answer.status_code == 200
        assert answer.json()["committed"] == [{"topic": topic.topic, "partition": 0, "offset": 4}]
        first.leave()
    with HttpMember(node.url, topic) as second:
        assert offsets(second.poll_until(6)) == [4, 5, 6, 7, 8, 9]


def test_skipping_an_unacked_record_is_refused_unless_committed_through(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b", "c"])
    with HttpMember(node.url, topic) as member:
        records = member.poll_until(3)
        refused = member.ack(records[2:])
        assert (refused.status_code, refused.json()["code"]) == (409, "skipped_records")
        assert refused.json()["stored"] == "no"
        assert describe(node.url, member.group)[0]["committed_offset"] is None
        assert member.ack(records[2:], commit_through=True).status_code == 200
        assert describe(node.url, member.group)[0]["committed_offset"] == 3


def test_positions_are_committed_and_bounded_by_the_end(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b", "c"])
    with HttpMember(node.url, topic) as member:
        member.poll_until(3)
        past = member.post(commit=[{"topic": topic.topic, "partition": 0, "offset": 9}])
        assert (past.status_code, past.json()["code"]) == (422, "offset_out_of_range")
        ok = member.post(commit=[{"topic": topic.topic, "partition": 0, "offset": 2}])
        assert ok.json()["committed"][0]["offset"] == 2
        again = member.post(commit=[{"topic": topic.topic, "partition": 0, "offset": 1}])
        assert again.json()["committed"][0]["offset"] == 2
    row = describe(node.url, member.group)[0]
    assert (row["committed_offset"], row["end_offset"], row["lag"]) == (2, 3, 1)


def test_partitions_move_when_members_join_and_leave(
    queue: Queue, node: NodeProcess, start_node: Start
) -> None:
    topic = queue.log.topic(partitions=4)
    one, two = node, start_node(queue, "second")
    with HttpMember(one.url, topic) as first, HttpMember(two.url, topic) as second:
        mine, theirs = first.wait_owned(2), second.wait_owned(2)
        assert sorted(mine + theirs) == [0, 1, 2, 3]
        with HttpMember(one.url, topic) as third:
            wait_for(
                lambda: sorted(len(m.owned()) for m in (first, second, third)) == [1, 1, 2],
                "spread over three",
            )
            third.leave()
        first.leave()
        assert second.wait_owned(4) == [0, 1, 2, 3]
        queue.log.append_many(topic, {p: ["x"] for p in range(4)})
        assert len(second.poll_until(4)) == 4


def test_a_receipt_of_an_earlier_epoch_is_refused_after_a_hand_over_on_one_node(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    with HttpMember(node.url, topic) as first, HttpMember(node.url, topic) as second:
        holder, other = first, second
        wait_for(lambda: first.owned() or second.owned(), "one of them has it")
        if not first.owned():
            holder, other = second, first
        records = holder.poll_until(2)
        epoch = describe(node.url, first.group)[0]["epoch"]
        holder.leave()
        other.wait_owned(1)
        assert describe(node.url, first.group)[0]["epoch"] > epoch
        stale = other.ack(records)
        assert (stale.status_code, stale.json()["code"]) == (409, "epoch_superseded")
        assert stale.json()["refused"][0]["epoch"] == epoch
        assert offsets(other.poll_until(2)) == [0, 1]


def test_a_silent_member_expires_and_is_told_so(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    silent = HttpMember(node.url, topic, options={"session_timeout_ms": 1_000})
    silent.join()
    silent.poll_until(1)
    with HttpMember(node.url, topic) as heir:
        assert offsets(heir.poll_until(1)) == [0]
        answer = silent.get()
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_member")
        assert "silent" in answer.json()["detail"]


def test_a_member_that_never_commits_loses_its_partitions(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    with HttpMember(node.url, topic, options={"max_poll_interval_ms": 1_000}) as stuck:
        stuck.poll_until(1)

        def detail() -> str:
            answer = stuck.client.post(f"{stuck.path}/heartbeat")
            return str(answer.json()["detail"]) if answer.status_code == 404 else ""

        assert "max_poll_interval_ms" in wait_for(detail, "it is removed")


def test_from_latest_is_durable_before_anything_is_acked(
    queue: Queue, node: NodeProcess, start_node: Start
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["old"])
    first = start_node(queue, "first")
    with HttpMember(first.url, topic, options={"from": "latest"}) as member:
        member.wait_owned(1)
        queue.log.append(topic, ["new"])
        assert offsets(member.poll_until(1)) == [1]
    first.kill()
    with HttpMember(node.url, topic, options={"from": "latest"}) as member:
        assert offsets(member.poll_until(1)) == [1]


def test_new_partitions_start_at_earliest_also_for_latest(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    with HttpMember(node.url, topic, options={"from": "latest"}) as member:
        member.wait_owned(1)
        grown = TopicStore(queue.root).alter(topic.topic, partitions=2)
        queue.log.append(grown, ["early"], partition=1)
        assert [(r["partition"], r["offset"]) for r in member.poll_until(1)] == [(1, 0)]
    assert topic.topic_id == grown.topic_id


def test_at_most_once_commits_before_the_records_leave(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    with HttpMember(node.url, topic, options={"delivery": "at_most_once"}) as member:
        assert len(member.poll_until(2)) == 2
        assert describe(node.url, member.group)[0]["committed_offset"] == 2


def test_groups_do_not_affect_each_other(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a", "b"])
    names = [f"{topic.topic}-{n}" for n in (1, 2)]
    with HttpMember(node.url, topic, names[0]) as one, HttpMember(node.url, topic, names[1]) as two:
        one.ack(one.poll_until(2))
        assert offsets(two.poll_until(2)) == [0, 1]
        assert describe(node.url, two.group)[0]["committed_offset"] is None
        listed = httpx2.get(f"{node.url}/v1/groups").json()["groups"]
        members = {g["group"]: g["members"] for g in listed}
        assert [members[name] for name in names] == [1, 1]


def test_a_long_backlog_is_read_from_files_without_gaps(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic(partitions=2)
    for _ in range(5):
        queue.log.append_many(topic, {0: ["x" * 100] * 700, 1: ["y" * 100] * 300})
    with HttpMember(node.url, topic) as member:
        records = member.poll_until(5_000, max_records=999)
    for partition, count in ((0, 3_500), (1, 1_500)):
        mine = [r["offset"] for r in records if r["partition"] == partition]
        assert mine == list(range(count))


def test_events_stream_records_and_resume_behind_the_last_one(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [str(i) for i in range(5)])

    def read(headers: dict[str, str], count: int) -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []
        with member.client.stream("GET", f"{member.path}/events", headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            receipt = ""
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    receipt = line[4:]
                elif line.startswith("data: "):
                    seen.append((receipt, json.loads(line[6:])["offset"]))
                if len(seen) == count:
                    return seen
        return seen

    with HttpMember(node.url, topic) as member:
        seen = read({}, 5)
        assert [offset for _, offset in seen] == [0, 1, 2, 3, 4]
        assert [o for _, o in read({"Last-Event-ID": seen[1][0]}, 3)] == [2, 3, 4]


def test_what_a_hung_up_client_did_not_get_is_delivered_again(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    with HttpMember(node.url, topic) as member:
        member.wait_owned(1)
        host, port = node.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as link:
            link.sendall(
                f"GET {member.path}/records?wait_ms=20000 HTTP/1.1\r\n"
                "Host: localhost\r\n\r\n".encode()
            )
            wait_for(lambda: _polling(node) == 1, "the poll is parked")
        queue.log.append(topic, ["a"])
        assert offsets(member.poll_until(1)) == [0]


def _polling(node: NodeProcess) -> int:
    text = httpx2.get(f"{node.url}/metrics").text
    return int(float(text.split("\nlakequeue_consumer_parked_polls ")[1].split()[0]))


def test_a_draining_node_answers_waiting_polls_and_gives_everything_back(
    queue: Queue, node: NodeProcess, start_node: Start
) -> None:
    topic = queue.log.topic(partitions=2)
    leaving, staying = start_node(queue, "leaving"), node
    with HttpMember(leaving.url, topic) as first, HttpMember(staying.url, topic) as second:
        first.wait_owned(1)
        answers: list[int] = []
        poll = threading.Thread(
            target=lambda: answers.append(first.get(wait_ms=30_000).status_code)
        )
        poll.start()
        wait_for(lambda: _polling(leaving) == 1, "the poll is parked")
        leaving.terminate()
        poll.join(10)
        assert answers == [404]
        assert second.wait_owned(2) == [0, 1]
    assert leaving.process.returncode == 0
