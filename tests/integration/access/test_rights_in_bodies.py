"""What a right over the path alone would let through: names in bodies, headers of records, time."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from deltalake import DeltaTable

from lakequeue.wire import DeadLetterHeader
from queue_access.quotas import Quota
from queue_tables.root import QueueRoot
from tests.support.access.locked import Locks, as_, wait_status
from tests.support.services.consumer_node import NodeProcess, Queue
from tests.support.services.ingest_service import IngestService
from tests.support.services.zookeeper import wait_for

pytestmark = [pytest.mark.zookeeper, pytest.mark.timeout(240)]
Start = Callable[..., NodeProcess]


@pytest.fixture
def locks(own_queue: Queue) -> Locks:
    made = Locks(own_queue.root).lock()
    made.may("worker", "consume", "topic", "orders")
    made.may("worker", "consume", "group", "mine*")
    made.may("eve", "manage", "topic", "eve*")
    made.may("eve", "produce", "topic", "eve*")
    made.may("eve", "manage", "group", "eve*")
    return made


@pytest.fixture
def http(own_queue: Queue, start_node: Start, locks: Locks) -> Iterator[httpx2.Client]:
    own_queue.log.topic("orders", partitions=1)
    node = start_node(own_queue, "a")
    with httpx2.Client(base_url=node.url, timeout=60) as opened:
        wait_status(opened, "/v1/groups", locks.keys["eve"], 200)
        yield opened


def audit(root: QueueRoot) -> list[dict[str, Any]]:
    if not root.is_table("audit"):
        return []
    rows: list[dict[str, Any]] = DeltaTable(f"{root.uri}/audit").to_pyarrow_table().to_pylist()
    return rows


def test_refusals_by_what_stands_in_a_body_are_in_the_audit(
    http: httpx2.Client, locks: Locks, own_queue: Queue
) -> None:
    own_queue.log.topic("secret", partitions=1)
    join = {"topics": ["orders", "secret"]}
    worker = as_(locks.keys["worker"])
    assert http.post("/v1/groups/mine/members", json=join, headers=worker).status_code == 403
    hook = {"url": "https://hooks.example.org/", "topics": ["orders"]}
    eve = as_(locks.keys["eve"])
    assert http.put("/v1/groups/eve/webhook", json=hook, headers=eve).status_code == 403

    def refusal(call: str) -> list[dict[str, Any]]:
        return [
            row
            for row in audit(own_queue.root)
            if row["call"] == call and row["outcome"] == "refused" and row["status"] == 403
        ]

    (row,) = wait_for(lambda: refusal("POST /v1/groups/{group}/members"), "the refusal")
    assert (row["principal"], row["name"], row["detail"]) == ("worker", "mine", "forbidden")
    assert row["how"].startswith("key lq_")
    (row,) = wait_for(lambda: refusal("PUT /v1/groups/{group}/webhook"), "a change: one line")
    assert row["principal"] == "eve"
    assert "hooks.example.org" in row["after"]


def test_the_audit_has_what_a_change_of_a_group_found(
    http: httpx2.Client, locks: Locks, own_queue: Queue
) -> None:
    eve = as_(locks.keys["eve"])
    for method, body in (("PUT", {"max_attempts": 7}), ("DELETE", None)):
        answer = http.request(method, "/v1/groups/eve", json=body, headers=eve)
        assert answer.status_code in {200, 204}, answer.text
    rows = {r["call"].split()[0]: r for r in audit(own_queue.root) if r["name"] == "eve"}
    assert rows["PUT"]["before"] is None
    assert rows["PUT"]["after"] == '{"max_attempts":7}'
    assert '"max_attempts":7' in rows["DELETE"]["before"]


def test_what_a_group_may_tell_of_topics_is_for_who_may_know_them(
    http: httpx2.Client, locks: Locks, own_queue: Queue
) -> None:
    own_queue.log.append(own_queue.log.topic("secret", partitions=1), ["a", "b"])
    eve = as_(locks.keys["eve"])
    for path, body in (
        ("/v1/groups/eve/seek", {"to": "latest", "topics": ["secret"], "dry_run": True}),
        ("/v1/groups/eve/purge", {"topics": ["secret"]}),
    ):
        assert http.post(path, json=body, headers=eve).status_code == 403, path
    status = "/v1/groups/eve/topics/secret/partitions/0/records/0"
    assert http.get(status, headers=eve).status_code == 403


def test_a_poll_ends_when_the_right_over_its_topic_is_taken(
    http: httpx2.Client, locks: Locks
) -> None:
    worker = as_(locks.keys["worker"])
    joined = http.post("/v1/groups/mine/members", json={"topics": ["orders"]}, headers=worker)
    assert joined.status_code == 201, joined.text
    member = f"/v1/groups/mine/members/{joined.json()['member_id']}"
    answers: list[int] = []

    def poll() -> None:
        answers.append(http.get(f"{member}/records?wait_ms=20000", headers=worker).status_code)

    wait_for(
        lambda: http.get(f"{member}/records?wait_ms=0", headers=worker).json()["assignment"],
        "owned",
    )
    waiting = threading.Thread(target=poll)
    waiting.start()
    admin = as_(locks.keys["admin"])
    wait_for(
        lambda: any(
            'kind="poll"} 1' in line
            for line in http.get("/metrics", headers=admin).text.splitlines()
            if "parked" in line or "wait" in line
        ),
        "the poll waits",
    )
    locks.take_back("worker", "consume", "topic", "orders")
    wait_for(
        lambda: http.get(f"{member}/records?wait_ms=0", headers=worker).status_code == 403,
        "it is taken",
    )
    waiting.join()
    assert answers == [403]


def test_a_principal_makes_no_more_groups_than_its_quota(http: httpx2.Client, locks: Locks) -> None:
    locks.limit("worker", Quota(groups=2))
    worker = as_(locks.keys["worker"])

    def join(group: str) -> httpx2.Response:
        path = f"/v1/groups/{group}/members"
        return http.post(path, json={"topics": ["orders"]}, headers=worker)

    # Nodes look at the table once a second: until then a join makes one more.
    made: list[int] = []

    def refused() -> bool:
        made.append(join(f"mine-{len(made)}").status_code)
        return made[-1] == 429

    wait_for(refused, "the quota", every_s=0.5)
    answer = join("mine-more")
    assert (answer.status_code, answer.json()["code"]) == (429, "over_quota")
    assert "Retry-After" in answer.headers
    received = {"topics": ["orders"]}
    again = http.post("/v1/groups/mine-other/receive", json=received, headers=worker)
    assert again.status_code == 429
    assert join("mine-0").status_code == 201, "one that is there is none more"


def test_a_forged_dead_letter_goes_where_its_sender_may_send(
    http: httpx2.Client, locks: Locks, own_queue: Queue
) -> None:
    """Whoever may send to a topic of dead letters writes into them where they came from."""
    letters = own_queue.log.topic("eve.dlq", partitions=1)
    headers = [(DeadLetterHeader.TOPIC, b"orders"), (DeadLetterHeader.PARTITION, b"0")]
    forged = [{"key": name, "value": value} for name, value in headers]
    own_queue.log.append(letters, ["forged"], headers=[forged])
    root = Path(own_queue.root.uri)
    with IngestService(root, "--zookeeper", own_queue.zookeeper.hosts):
        eve = as_(locks.keys["eve"])

        def redrive(timeout: float = 60) -> httpx2.Response:
            asked = {"wait_ms": 2_000}
            path = "/v1/topics/eve.dlq/redrive"
            return http.post(path, json=asked, headers=eve, timeout=timeout)

        def redriven() -> Any:
            answer = redrive()
            return answer.status_code == 200 and answer.json()

        done = wait_for(redriven, "the redrive", every_s=0.5)
        assert (done["redriven"], done["more"]) == (0, False)
        to_others = {"to": "orders", "wait_ms": 2_000}
        answer = http.post("/v1/topics/eve.dlq/redrive", json=to_others, headers=eve)
        assert answer.status_code == 403
        # Nor may somebody who cannot read them take them to where they could.
        to_own = {"to": "eve-own", "wait_ms": 2_000}
        answer = http.post("/v1/topics/eve.dlq/redrive", json=to_own, headers=eve)
        assert answer.status_code == 403
        assert "the right read over the topic 'eve.dlq'" in answer.json()["detail"]
        assert not sent(root)
        # With the right over that topic it goes there.
        locks.may("eve", "produce", "topic", "orders")

        def is_sent() -> int:
            # Nobody orders here, so it is not told that it has ended.
            with contextlib.suppress(httpx2.TimeoutException):
                redrive(timeout=5)
            return sent(root)

        wait_for(is_sent, "it is sent", every_s=0.5)


def sent(root: Path) -> int:
    """Records in the inbox."""
    shards = (root / "inbox").iterdir()
    return sum(DeltaTable(str(shard)).to_pyarrow_table().num_rows for shard in shards)


def test_a_header_that_stands_there_twice_is_refused(http: httpx2.Client, locks: Locks) -> None:
    shown = {
        "Authorization": f"Bearer {locks.keys['admin']}",
        "Host": "127.0.0.1",
        "Content-Type": "application/json",
    }
    lines = [f"{one}: {value}" for one, value in shown.items()]
    at = http.base_url
    for name, value in shown.items():
        head = "\r\n".join(["GET /v1/groups HTTP/1.1", *lines, f"{name}: {value}", "", ""])
        with socket.create_connection((at.host, at.port or 0), timeout=30) as link:
            link.sendall(head.encode())
            assert link.recv(4096).startswith(b"HTTP/1.1 400 "), name
