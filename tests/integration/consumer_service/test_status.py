"""What became of a record in a group: at the owner, through another node, from the tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typer.testing import CliRunner

import lakequeue.duck
from coordination.embedded import EmbeddedZooKeeper
from lakequeue import Admin
from lakequeue.clock import wall_micros
from lakequeue.errors import UnknownGroup, UnknownRecord, UnknownTopic
from lakequeue.wire import DeadLetterHeader, RecordStatus
from lakequeue_cli.app import app
from queue_tables.topics import TopicStore
from tests.support.runs.fold_process import Folder
from tests.support.services.consumer_node import (
    HttpMember,
    NodeProcess,
    Queue,
    Records,
    describe,
    open_queue,
)
from tests.support.services.ingest_service import IngestService
from tests.support.services.order_thread import ordering
from tests.support.services.zookeeper import wait_for

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def queue(
    tmp_path_factory: pytest.TempPathFactory, zookeeper: EmbeddedZooKeeper
) -> Iterator[Queue]:
    """A queue of this module's own: its log has one committer, the order job."""
    yield from open_queue(tmp_path_factory.mktemp("status"), zookeeper)


@pytest.fixture(scope="module")
def node(queue: Queue) -> Iterator[NodeProcess]:
    """A node of it."""
    shared = NodeProcess(queue, "shared-status")
    yield shared
    shared.kill()


@pytest.fixture(scope="module")
def ingest(queue: Queue) -> Iterator[IngestService]:
    """An ingest node that consumer-service nodes find, and somebody who orders."""
    service = IngestService(Path(queue.root.uri), "--zookeeper", queue.zookeeper.hosts)
    with service, ordering(queue.root, epoch=9):
        yield service


@pytest.fixture(scope="module")
def folder(queue: Queue) -> Folder:
    """The offsets job, run by hand."""
    return Folder(queue.root, 1)


def send(ingest: IngestService, topic: str, *records: dict[str, Any]) -> None:
    answer = ingest.send(list(records), topic, "?wait=ordered&timeout_ms=30000")
    assert answer.status_code == 200, answer.text


def statuses(url: str, group: str, topic: str, count: int) -> list[RecordStatus]:
    """Of the records 0 to `count` - 1 of partition 0, as the node at `url` says."""
    with Admin(consumer_urls=url) as admin:
        return [admin.status(group, topic, 0, offset) for offset in range(count)]


def facts(found: list[RecordStatus]) -> list[dict[str, Any]]:
    """What they say, whoever said it."""
    return [one.model_dump(exclude={"source"}) for one in found]


def nack(member: HttpMember, record: dict[str, Any], delay_ms: int) -> None:
    body = [{"receipt": record["receipt"], "delay_ms": delay_ms}]
    assert member.post(nacks=body).status_code == 200


ACKED, IN_FLIGHT, NACKED, DEAD, DELAYED, EXPIRED, PENDING = range(7)
STATUSES = ["acked", "in_flight", "parked", "dead", "parked", "expired", "pending"]


def one_of_each(
    ingest: IngestService, queue: Queue, url: str, name: str
) -> tuple[HttpMember, Records]:
    """A queue group with a record of each status; its member, and what that holds."""
    ingest.create(name, partitions=1)
    send(ingest, name, *({"value": "v"} for _ in range(4)))
    topic = TopicStore(queue.root).get(name)
    options = {"mode": "queue", "max_attempts": 2, "visibility_timeout_ms": HOUR_MS}
    member = HttpMember(url, topic, options=options)
    member.join()
    first = {record["offset"]: record for record in member.poll_until(4)}
    assert member.ack([first[ACKED]]).status_code == 200
    nack(member, first[NACKED], HOUR_MS)
    nack(member, first[DEAD], 0)
    nack(member, member.poll_until(1)[0], 0)
    send(ingest, name, {"value": "later", "delay_ms": HOUR_MS}, {"value": "late", "ttl_ms": 1})
    wait_for(lambda: member.poll(wait_ms=50) == [] and dead(url, member), "it is dead")
    send(ingest, name, {"value": "new"})
    return member, [first[IN_FLIGHT]]


def dead(url: str, member: HttpMember) -> bool:
    row = describe(url, member.group)[0]
    return bool((row["dying"], row["parked"], row["in_flight"]) == (0, 2, 1))


def check(found: list[RecordStatus], member: HttpMember, owned: Records) -> None:
    """These are the statuses of `one_of_each`."""
    assert [one.status for one in found] == STATUSES
    assert [one.attempt for one in found] == [None, 1, 1, 2, 0, None, 0]
    out = found[IN_FLIGHT]
    assert (out.member, out.deadline) == (member.member_id, owned[0]["deadline"])
    for parked in (found[NACKED], found[DELAYED]):
        assert parked.due is not None
        assert 0 < parked.due - wall_micros() <= HOUR_MS * 1_000
        assert parked.deadline is None
    assert found[DEAD].reason == "max_attempts"
    for settled in (found[ACKED], found[EXPIRED]):
        assert (settled.member, settled.due, settled.deadline) == (None, None, None)


def in_sql(queue: Queue, group: str) -> list[dict[str, Any]]:
    """What the SQL view says of the group, in the words of the wire."""
    rows = lakequeue.duck.connect(queue.root.uri).sql(
        "SELECT status, attempt, member, CAST(epoch_us(until) AS BIGINT) AS until, reason, "
        f'dead_letter FROM record_status WHERE "group" = \'{group}\' ORDER BY "offset"'
    )
    return [dict(zip(rows.columns, row, strict=True)) for row in rows.fetchall()]


def as_in_sql(one: RecordStatus) -> dict[str, Any]:
    letter = one.dead_letter
    return {
        "status": one.status,
        "attempt": one.attempt,
        "member": one.member,
        "until": one.deadline or one.due,
        "reason": one.reason,
        "dead_letter": letter and f"{letter.topic}/{letter.partition}@{letter.offset}",
    }


def test_each_status_is_the_same_wherever_it_is_asked_and_survives_owner_and_fold(
    queue: Queue, node: NodeProcess, ingest: IngestService, start_node: Start, folder: Folder
) -> None:
    name = "each-status"
    owner = start_node(queue, "owns-them")
    member, owned = one_of_each(ingest, queue, owner.url, name)
    group = member.group
    found = statuses(owner.url, group, name, 7)
    check(found, member, owned)
    assert {one.source for one in found} == {"owner"}
    letter = found[DEAD].dead_letter
    assert letter is not None
    with Admin(consumer_urls=node.url) as admin:
        record = admin.record(letter.topic, letter.partition, letter.offset)
    assert record.header(DeadLetterHeader.OFFSET) == b"%d" % DEAD
    assert (letter.topic, record.value) == (f"{name}.dlq", "v")

    path = f"/v1/groups/{group}/topics/{name}/partitions/0/records/{DEAD}"
    sent_on = httpx2.get(node.url + path, timeout=30, follow_redirects=False)
    assert (sent_on.status_code, sent_on.headers["location"]) == (
        307,
        f"{owner.url}{path}?sent_on=true",
    )
    assert statuses(node.url, group, name, 7) == found, "the owner has answered"
    astray = httpx2.get(f"{node.url}{path}?sent_on=true", timeout=30).json()
    assert astray == found[DEAD].model_dump() | {"source": "tables"}

    by_command = group_status(node.url, group, f"{name}/0@{DEAD}", "--json")
    assert json.loads(by_command) == found[DEAD].model_dump()
    row = group_status(node.url, group, f"{name}/0@{IN_FLIGHT}").splitlines()[1].split()
    assert row[:5] == [group, f"{name}/0@{IN_FLIGHT}", "in_flight", "1", member.member_id]

    owner.kill()
    wait_for(lambda: nobody_owns(node.url, group), "its lease is over")
    from_facts = statuses(node.url, group, name, 7)
    assert {one.source for one in from_facts} == {"tables"}
    assert facts(from_facts) == facts(found)
    folder.drain()
    assert statuses(node.url, group, name, 7) == from_facts, "folded"
    assert in_sql(queue, group) == [as_in_sql(one) for one in found]

    # The same node comes back, and takes the partition over; the receipts are good there.
    again = start_node(queue, "owns-them")
    with HttpMember(again.url, member.topic, options={"mode": "queue"}) as heir:
        heir.wait_owned(1)
        taken_over = statuses(again.url, group, name, 7)
        assert taken_over == found
        assert heir.ack(owned).status_code == 200
        assert statuses(node.url, group, name, 7)[IN_FLIGHT].status == "acked"


def group_status(url: str, *args: str) -> str:
    """What the command prints."""
    done = CliRunner().invoke(app, ["group", "status", *args, "--consumer-url", url])
    assert done.exit_code == 0, done.output
    return done.stdout


def nobody_owns(url: str, group: str) -> bool:
    return bool(describe(url, group)[0]["node"] is None)


def test_a_record_that_is_back_is_pending_with_the_attempts_it_had(
    queue: Queue, node: NodeProcess, ingest: IngestService
) -> None:
    name = "comes-back"
    ingest.create(name, partitions=1)
    send(ingest, name, {"value": "a"}, {"value": "b"})
    topic = TopicStore(queue.root).get(name)
    options = {"mode": "queue", "visibility_timeout_ms": 300}
    with HttpMember(node.url, topic, options=options) as member:
        record = member.poll_until(2)[0]
        nack(member, record, 100)
        assert statuses(node.url, member.group, name, 1)[0].status == "parked"
        wait_for(
            lambda: (
                [s.status for s in statuses(node.url, member.group, name, 2)]
                == ["pending", "pending"]
            ),
            "due and timed out",
        )
        assert [s.attempt for s in statuses(node.url, member.group, name, 2)] == [1, 1]
        again = member.poll_until(2)
        found = statuses(node.url, member.group, name, 2)
        assert [(s.status, s.attempt) for s in found] == [("in_flight", 2)] * 2
        assert member.ack(again).status_code == 200
        member.leave()
        body = {"to": "earliest"}
        moved = httpx2.post(f"{node.url}/v1/groups/{member.group}/seek", json=body, timeout=30)
        assert moved.status_code == 200, moved.text
        found = statuses(node.url, member.group, name, 2)
        assert [(s.status, s.attempt) for s in found] == [("pending", 0)] * 2


def test_a_dead_letter_that_cannot_be_sent_is_dying(
    queue: Queue, node: NodeProcess, ingest: IngestService
) -> None:
    name, letters = "cannot-die", "too-small"
    ingest.create(name, partitions=1)
    ingest.create(letters, partitions=1, max_record_bytes=1)
    send(ingest, name, {"value": "too large"})
    topic = TopicStore(queue.root).get(name)
    options = {"mode": "queue", "max_attempts": 1, "dead_letter_topic": letters}
    with HttpMember(node.url, topic, options=options) as member:
        nack(member, member.poll_until(1)[0], 0)
        found = statuses(node.url, member.group, name, 1)[0]
        assert (found.status, found.attempt, found.reason) == ("dying", 1, "max_attempts")
        assert found.dead_letter is None
        ingest.http.patch(f"/v1/topics/{letters}", json={"max_record_bytes": 1_000})
        wait_for(
            lambda: statuses(node.url, member.group, name, 1)[0].dead_letter is not None, "dead"
        )


def test_of_a_stream_group_the_owner_knows_what_is_in_flight(
    queue: Queue, node: NodeProcess, ingest: IngestService, start_node: Start, folder: Folder
) -> None:
    name = "streamed"
    ingest.create(name, partitions=1)
    send(ingest, name, *({"value": str(n)} for n in range(4)))
    topic = TopicStore(queue.root).get(name)
    owner = start_node(queue, "streams-them")
    with HttpMember(owner.url, topic) as member:
        records = member.poll_until(2, max_records=2)
        assert member.ack(records[:1]).status_code == 200
        found = statuses(node.url, member.group, name, 4)
        assert [s.status for s in found] == ["acked", "in_flight", "pending", "pending"]
        assert found[1].member == member.member_id
        assert {s.source for s in found} == {"owner"}
        owner.kill()
    wait_for(lambda: nobody_owns(node.url, member.group), "its lease is over")
    for _ in range(2):
        found = statuses(node.url, member.group, name, 4)
        assert [s.status for s in found] == ["acked", "pending", "pending", "pending"]
        assert {s.source for s in found} == {"tables"}
        folder.drain()
    assert in_sql(queue, member.group) == [as_in_sql(one) for one in found]
    rows = lakequeue.duck.connect(queue.root.uri).sql(
        "SELECT member, from_offset, to_offset FROM who_acked_what "
        f"WHERE \"group\" = '{member.group}'"
    )
    assert rows.fetchall() == [(member.member_id, None, 1)]


def test_what_does_not_exist_is_said(
    queue: Queue, node: NodeProcess, ingest: IngestService
) -> None:
    ingest.create("known", partitions=2)
    ingest.create("other", partitions=1)
    send(ingest, "known", {"value": "a", "partition": 0})
    send(ingest, "other", {"value": "a"})
    topic = TopicStore(queue.root).get("known")
    with HttpMember(node.url, topic) as member, Admin(consumer_urls=node.url) as admin:
        member.poll_until(1)
        with pytest.raises(UnknownTopic):
            admin.status(member.group, "no-such-topic", 0, 0)
        with pytest.raises(UnknownRecord, match="partition 2 does not exist"):
            admin.status(member.group, "known", 2, 0)
        with pytest.raises(UnknownRecord, match="offsets 0 to 0, not 1") as error:
            admin.status(member.group, "known", 0, 1)
        assert (error.value.extra["first_offset"], error.value.extra["end_offset"]) == (0, 1)
        with pytest.raises(UnknownGroup, match="'nobody' does not exist"):
            admin.status("nobody", "known", 0, 0)
        with pytest.raises(UnknownGroup, match="does not consume topic other"):
            admin.status(member.group, "other", 0, 0)
        for bad in ("x", "-1", "1.5"):
            path = f"/v1/groups/{member.group}/topics/known/partitions/0/records/{bad}"
            answer = httpx2.get(node.url + path, timeout=30)
            assert answer.status_code in {404, 422}, bad
            assert answer.json()["code"] in {"unknown_record", "invalid_request"}, bad


def test_a_member_that_has_only_joined_makes_its_topics_records_pending(
    queue: Queue, node: NodeProcess, ingest: IngestService
) -> None:
    ingest.create("fresh", partitions=1)
    send(ingest, "fresh", {"value": "a"})
    topic = TopicStore(queue.root).get("fresh")
    with HttpMember(node.url, topic, options={"mode": "queue"}) as member:
        assert statuses(node.url, member.group, "fresh", 1)[0].status == "pending"
        member.wait_owned(1)
        found = statuses(node.url, member.group, "fresh", 1)[0]
        assert (found.status, found.attempt, found.source) == ("pending", 0, "owner")
