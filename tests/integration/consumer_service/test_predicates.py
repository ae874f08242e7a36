"""Groups whose backlog is a predicate over the history."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pyarrow.parquet as pq
import pytest

from coordination.groups import membership
from lakequeue import Admin, Consumer
from lakequeue.errors import GroupMismatch, InvalidRequest
from lakequeue.records import Format
from queue_tables.schema.topic_rules import Topic
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
    describe,
    group_of,
    offsets,
)
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]
DAY = 86_400_000_000


def reader(node: NodeProcess, topic: Topic, predicate: str, **options: Any) -> HttpMember:
    return HttpMember(node.url, topic, options={"predicate": predicate, **options})


def test_only_what_matches_comes_and_the_position_passes_the_rest(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    for n in range(30):
        kind = [{"key": "kind", "value": b"refund" if n % 3 == 0 else b"sale"}]
        queue.log.append(
            *(topic, [json.dumps({"n": n})]),
            fmt=Format.JSON,
            key="x" if n % 2 == 0 else "y",
            headers=[kind],
        )
    where = "key = 'x' AND headers['kind'] = 'refund' AND json_value(value, '$.n') > 3"
    with reader(node, topic, where) as member:
        found = member.poll_until(4, max_records=2)
        assert offsets(found) == [6, 12, 18, 24]
        assert [r["value"] for r in found] == [{"n": n} for n in (6, 12, 18, 24)]
        assert describe(node.url, member.group)[0]["lag"] == 30, "nothing is acked"
        assert member.ack(found[:1]).status_code == 200
        assert member.ack(found[2:]).json()["code"] == "skipped_records"
        assert member.ack(found[1:]).status_code == 200

        def passed() -> bool:
            assert member.poll(wait_ms=0) == []
            return bool(describe(node.url, member.group)[0]["committed_offset"] == 30)

        wait_for(passed, "the position is at the end")
        queue.log.append(topic, [json.dumps({"n": 99})], fmt=Format.JSON, key="x")
        assert member.poll(wait_ms=300) == [], "no header"


def test_a_lost_answer_comes_again_and_nothing_is_skipped_meanwhile(
    queue: Queue, node: NodeProcess
) -> None:
    topic = queue.log.topic()
    for n in range(12):
        queue.log.append(topic, [str(n)], key=str(n % 4))
    with reader(node, topic, "key = '1'") as member:
        first = member.get(max_records=1, after=0).json()
        assert offsets(first["records"]) == [1]
        for _ in range(3):
            # Each says that the answer before it has not come.
            again = member.get(max_records=2, after=0).json()
            assert offsets(again["records"]) == [1, 5]
        rest = member.get(max_records=9, after=again["poll"]).json()
        assert offsets(rest["records"]) == [9]
        assert member.ack(again["records"] + rest["records"]).status_code == 200


def test_it_goes_on_where_it_was_after_a_kill_also_when_nothing_matched(
    queue: Queue, start_node: Start
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [str(n) for n in range(1_000)], key="no")
    first = start_node(queue, "passing")
    with reader(first, topic, "key = 'yes'") as member:

        def passed() -> bool:
            assert member.poll(wait_ms=0) == []
            return bool(describe(first.url, member.group)[0]["committed_offset"] == 1_000)

        wait_for(passed, "all is passed")
    first.kill()
    second = start_node(queue, "passing-on")
    queue.log.append(topic, ["it"], key="yes")
    with HttpMember(second.url, topic) as member:
        assert offsets(member.poll_until(1)) == [1_000], "the group has its predicate still"
        assert member.join()["assignment"] is not None


def test_files_that_cannot_match_are_not_decoded(queue: Queue, start_node: Start) -> None:
    topic = queue.log.topic()
    before = log_files(queue)
    for day in range(6):
        queue.log.append(topic, [f"day {day}"] * 50, timestamp=day * DAY)
    # Whoever decodes a column of these fails: only their footers are left whole.
    days = sorted(log_files(queue) - before, key=first_offset)
    assert len(days) == 6
    kept = {path: path.read_bytes() for path in days}
    for path in (*days[:3], days[5]):
        spoil(path)
    try:
        node = start_node(queue, "skipping")
        where = "timestamp BETWEEN '1970-01-04' AND '1970-01-05' AND value LIKE 'day%'"
        with reader(node, topic, where) as member:
            found = member.poll_until(100)
            assert offsets(found) == list(range(150, 250))
            assert member.ack(found).status_code == 200
            assert member.poll(wait_ms=500) == []
        with HttpMember(node.url, topic, "all") as unfiltered:
            # A group that is not yet assigned is answered with no records.
            wait_for(lambda: unfiltered.get(wait_ms=500).status_code >= 500, "they are spoilt")
    finally:
        for path, data in kept.items():
            path.write_bytes(data)


def log_files(queue: Queue) -> set[Path]:
    return set((Path(queue.root.uri) / "log").rglob("*.parquet"))


def first_offset(path: Path) -> int:
    return int(pq.read_table(path, columns=["offset"])["offset"][0].as_py())


def spoil(path: Path) -> None:
    data = bytearray(path.read_bytes())
    footer = int.from_bytes(data[-8:-4], "little") + 8
    data[4:-footer] = b"\xff" * (len(data) - footer - 4)
    path.write_bytes(data)


def test_all_members_have_one_predicate_and_it_outlives_the_ensemble(
    own_queue: Queue, start_node: Start
) -> None:
    queue = own_queue
    node = start_node(queue, "one")
    topic = queue.log.topic()
    with reader(node, topic, "key = 'x'") as member:
        member.wait_owned(1)
        for options in ({"predicate": "key = 'y'"}, {"mode": "queue"}):
            answer = join(node, topic, **options)
            assert (answer.status_code, answer.json()["code"]) == (409, "group_mismatch")
        assert join(node, topic).status_code == 201, "it may be left out"
        shown = httpx2.get(f"{node.url}/v1/groups/{member.group}").json()
        assert shown["options"] == {"predicate": "key = 'x'"}
    node.kill()
    wait_for(lambda: not membership.members(queue.session, member.group), "all are gone")
    membership.delete_group(queue.session, member.group)
    again = start_node(queue, "two")
    assert join(again, topic, predicate="key = 'y'").status_code == 409, "the tables know"


def join(node: NodeProcess, topic: Topic, **options: Any) -> httpx2.Response:
    path = f"{node.url}/v1/groups/{group_of(topic)}/members"
    return httpx2.post(path, json={"topics": [topic.topic], **options}, timeout=30)


def test_a_wrong_predicate_is_refused_and_makes_no_group(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    for predicate, at in (("key = ", 4), ("colour = 'red'", 0), ("key IN (SELECT 1)", 0)):
        answer = join(node, topic, predicate=predicate)
        problem = answer.json()
        assert (answer.status_code, problem["field"]) == (422, "predicate"), answer.text
        assert problem["position"] == at
        assert "message_id" in problem["columns"]
        assert join(node, topic, predicate=predicate, mode="queue").status_code == 422
        made = httpx2.put(f"{node.url}/v1/groups/{group_of(topic)}", json={"predicate": predicate})
        assert made.status_code == 422, made.text
    assert join(node, topic, predicate="").status_code == 422
    assert httpx2.get(f"{node.url}/v1/groups/{group_of(topic)}").status_code == 404


def test_workers_get_what_matches_and_a_taker_knows_what_was_skipped(
    queue: Queue, start_node: Start
) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [str(n) for n in range(3_000)], key="no")
    for n in range(6):
        queue.log.append(topic, [f"yes {n}", "not this"], key=["yes", "no"][n % 2])
    where = "key = 'yes' AND value LIKE 'yes%'"
    matching = [3_000, 3_004, 3_008]
    options = {"mode": "queue", "predicate": where}
    group = group_of(topic)
    first = start_node(queue, "taking")
    with HttpMember(first.url, topic, options=options) as worker:
        found = worker.poll_until(3)
        assert offsets(found) == matching
        assert worker.ack(found[:1]).status_code == 200
        nacks = [{"receipt": record["receipt"], "delay_ms": 0} for record in found[1:]]
        assert worker.post(nacks=nacks).status_code == 200
        assert describe(first.url, group)[0]["lag"] == 2, "nothing of the rest is open"

    def status(node: NodeProcess, offset: int) -> tuple[str, str]:
        path = f"/v1/groups/{group}/topics/{topic.topic}/partitions/0/records/{offset}"
        said = httpx2.get(f"{node.url}{path}", params={"sent_on": "true"}, timeout=30).json()
        return said["status"], said["source"]

    assert status(first, 7) == ("acked", "owner")
    first.kill()
    second = start_node(queue, "taking-on")
    assert status(second, 7) == ("acked", "tables")
    assert [status(second, n)[0] for n in (0, 2_999, 3_000, 3_001, 3_011)] == ["acked"] * 5
    assert join(second, topic, mode="queue", predicate="TRUE").status_code == 409
    with HttpMember(second.url, topic, options={"mode": "queue"}) as worker:
        worker.wait_owned(1)  # before that it would be sent on, to the node that was killed
        again = worker.poll_until(2)
        assert [(r["offset"], r["attempt"]) for r in again] == [(3_004, 2), (3_008, 2)]
        queue.log.append(topic, ["no", "yes, more"], key="yes")
        assert offsets(worker.poll_until(1)) == [3_013]
        wait_for(lambda: status(second, 3_012) == ("acked", "owner"), "it was passed over")


def test_many_workers_share_what_matches(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic(partitions=2)
    for n in range(400):
        queue.log.append(topic, [str(n)], n % 2, key=str(n % 7))
    options = {"mode": "queue", "predicate": "key = '3'", "ordering": "key"}
    with (
        HttpMember(node.url, topic, options=options) as one,
        HttpMember(node.url, topic, options=options) as two,
    ):
        seen: list[int] = []

        def all_came() -> bool:
            for worker in (one, two):
                records = worker.poll(5, 100)
                if records:
                    assert worker.ack(records).status_code == 200
                seen.extend(int(r["value"]) for r in records)
            return len(seen) >= len(range(3, 400, 7))

        wait_for(all_came, "what matches")
        assert sorted(seen) == list(range(3, 400, 7))
        for partition in range(2):
            mine = [n for n in seen if n % 2 == partition]
            assert mine == sorted(mine), "of a key one after the other"

        def settled() -> bool:
            assert one.poll(wait_ms=0) == []
            return all(row["lag"] == 0 for row in describe(node.url, one.group).values())

        wait_for(settled, "the rest is settled as well")


def test_events_and_the_sdk_have_it_too(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic(partitions=2)
    for n in range(20):
        queue.log.append(topic, [str(n)], n % 2, key=str(n % 5))
    with reader(node, topic, "key = '3'") as member:
        with member.client.stream("GET", f"{member.path}/events") as answer:
            lines = (line for line in answer.iter_lines() if line.startswith("data: {"))
            came = [json.loads(line.removeprefix("data: ")) for line in itertools.islice(lines, 4)]
        assert sorted(int(r["value"]) for r in came) == [3, 8, 13, 18]
    with Consumer(topic.topic, "sdk", urls=node.url, predicate="key = '4'") as consumer:
        got = list(itertools.islice(consumer, 4))
        assert sorted(int(m.value) for m in got) == [4, 9, 14, 19]
        for message in got:
            message.ack()
        consumer.commit()
        with pytest.raises(InvalidRequest, match="has a predicate"):
            consumer.take()
    with (
        pytest.raises(GroupMismatch),
        Consumer(topic.topic, "sdk", urls=node.url, predicate="key = '5'") as other,
    ):
        other.poll(20)
    with Admin(consumer_urls=node.url) as admin, pytest.raises(InvalidRequest):
        admin.seek("made", "earliest", topics=[topic.topic], predicate="nothing = 1")
