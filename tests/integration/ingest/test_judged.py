"""Producer epochs and `consumed` through two real ingest nodes and the order job's own parts."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from lakequeue.steps import Step
from queue_tables.root import QueueRoot
from tests.support.data.order_truth import judge, log_rows, reject_rows
from tests.support.forking.forked import run
from tests.support.kinds import one_now
from tests.support.runs.order_process import Orderer
from tests.support.services.ingest_service import IngestService, inbox_rows
from tests.support.services.order_thread import ordering

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[IngestService]]:
    path = tmp_path_factory.mktemp("judged") / "root"
    with IngestService(path, node="n1") as one, IngestService(path, node="n2") as two:
        one.create("in", partitions=2)
        one.create("out", partitions=2)
        fill(one)
        Orderer(QueueRoot.open(str(path)), next(_TERMS)).drain()
        yield [one, two]


@pytest.fixture
def root(nodes: list[IngestService]) -> QueueRoot:
    return QueueRoot.open(str(nodes[0].root))


_TERMS = iter(range(1, 1000))


def begin(node: IngestService, producer: str) -> dict[str, Any]:
    answer = node.http.post(f"/v1/producers/{producer}/epochs")
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


FILLED = 40


def fill(node: IngestService) -> None:
    """Records that the tests can say to have consumed."""
    answer = node.send([{"value": n, "partition": 1} for n in range(FILLED)], "in")
    assert answer.is_success


def send(node: IngestService, values: list[str], **envelope: Any) -> httpx2.Response:
    return node.send([{"value": v} for v in values], "out", **envelope)


def values(root: QueueRoot, producer: str) -> list[str]:
    return [r["value"].decode() for r in log_rows(root) if r["producer_id"] == producer]


def consumed(group: str, start: int, end: int) -> dict[str, Any]:
    place = {"group": group, "topic": "in", "partition": 1}
    return place | {"from_offset": start, "next_offset": end, "epoch": 3}


def test_a_zombie_at_another_node_is_refused_and_its_records_stand_in_rejects(
    nodes: list[IngestService], root: QueueRoot
) -> None:
    producer = f"p-{uuid4().hex[:6]}"
    with ordering(root, next(_TERMS)):
        first = begin(nodes[0], producer)
        assert (first["epoch"], first["next_sequences"]) == (1, {})
        old = {"producer_id": producer, "producer_epoch": 1}
        stored = send(nodes[0], ["a", "b"], sequence=0, **old)
        assert [r["offset"] is not None for r in stored.json()["records"]] == [True, True]

        second = begin(nodes[1], producer)
        assert (second["epoch"], second["next_sequences"]) == (2, {"out": 2})
        refused = send(nodes[0], ["zombie"], sequence=2, **old)
        assert refused.status_code == 409
        problem = refused.json()
        assert (problem["code"], problem["stored"]) == ("producer_fenced", "no")
        assert (problem["epoch"], problem["current"]) == (1, 2)

        new = {"producer_id": producer, "producer_epoch": 2}
        assert send(nodes[1], ["c"], sequence=2, **new).status_code == 200
    assert values(root, producer) == ["a", "b", "c"]
    judge(root)
    rows = [r for r in reject_rows(root) if r["producer_id"] == producer]
    assert sorted((r["reason"], r["producer_epoch"], r["value"]) for r in rows) == [
        ("no_record", 1, None),
        ("no_record", 2, None),
        ("producer_fenced", 1, b"zombie"),
    ]


def test_epochs_begun_at_once_at_two_nodes_are_all_different(
    nodes: list[IngestService], root: QueueRoot
) -> None:
    producer = f"p-{uuid4().hex[:6]}"
    with ordering(root, next(_TERMS)), ThreadPoolExecutor(6) as pool:
        begun = list(pool.map(lambda n: begin(nodes[n % 2], producer)["epoch"], range(12)))
    assert len(set(begun)) == 12
    judge(root)


def test_of_transforms_of_the_same_records_one_counts_whole(
    nodes: list[IngestService], root: QueueRoot
) -> None:
    group = f"g-{uuid4().hex[:6]}"

    def transform(n: int) -> httpx2.Response:
        mine = consumed(group, 0, 10 + n)
        return send(nodes[n % 2], [f"{n}-{i}" for i in range(3)], producer_id=group, consumed=mine)

    with ordering(root, next(_TERMS)), ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(transform, range(6)))
        won = [n for n, answer in enumerate(answers) if answer.status_code == 200]
        assert len(won) == 1
        for answer in answers:
            if answer.status_code != 200:
                problem = answer.json()
                assert (answer.status_code, problem["code"]) == (409, "consumed_elsewhere")
                assert problem["current"] == 10 + won[0]
        nothing = nodes[0].send([], "out", consumed=consumed(group, 10 + won[0], 30))
        assert nothing.json()["records"] == []
        assert send(nodes[1], ["z"], producer_id=group, consumed=consumed(group, 30, 31)).is_success
    expected = [f"{won[0]}-{i}" for i in range(3)]
    assert sorted(values(root, group)) == [*expected, "z"]
    judge(root)


def test_records_of_several_topics_count_together(
    nodes: list[IngestService], root: QueueRoot
) -> None:
    group = f"g-{uuid4().hex[:6]}"
    nodes[0].create(f"{group}.gone", partitions=1)
    topics = ["out", "in", f"{group}.gone", "out"]

    def transform(start: int, end: int, records: list[dict[str, Any]]) -> dict[str, Any]:
        said = {"consumed": consumed(group, start, end), "producer_id": group}
        answer = nodes[0].http.post("/v1/records", json={"records": records, **said})
        body: dict[str, Any] = answer.json()
        return body | {"status": answer.status_code}

    records = [{"topic": t, "value": f"{n}", "partition": 0} for n, t in enumerate(topics)]
    with ordering(root, next(_TERMS)):
        done = transform(0, 3, records)
        assert done["status"] == 200
        by_offset = {(t, r["offset"]) for t, r in zip(topics, done["records"], strict=True)}
        rows = {(r["topic"], r["offset"]): r for r in log_rows(root) if r["producer_id"] == group}
        assert by_offset == set(rows)
        assert len({r["ordered_at"] for r in rows.values()}) == 1
        assert transform(0, 3, records)["code"] == "consumed_elsewhere"
        assert transform(3, 4, [])["records"] == []
    # One of the topics goes before it is ordered: nothing of the request counts.
    with ThreadPoolExecutor(1) as pool:
        before = inbox_rows(nodes[0].root).num_rows
        waiting = pool.submit(transform, 4, 5, records)
        wait_for_requests(root, before + 4)
        nodes[0].http.delete(f"/v1/topics/{group}.gone")
        with ordering(root, next(_TERMS)):
            reasons = [r["reason"] for r in waiting.result(60)["records"]]
            assert reasons == [
                "request_refused",
                "request_refused",
                "topic_gone",
                "request_refused",
            ]
            assert transform(4, 5, records[:2])["status"] == 200
    judge(root)


def test_a_bad_consumed_is_refused_naming_the_field(nodes: list[IngestService]) -> None:
    for change, code in (
        ({"partition": 2}, "invalid_request"),
        ({"topic": "nowhere"}, "unknown_topic"),
        ({"group": "a b"}, "invalid_name"),
        ({"next_offset": 0}, "invalid_request"),
        ({"next_offset": FILLED + 1_000}, "invalid_request"),
        ({"topic_id": "another"}, "consumed_elsewhere"),
    ):
        answer = send(nodes[0], ["x"], consumed={**consumed("g", 0, 1), **change})
        assert answer.json()["code"] == code
        assert answer.json()["stored"] == "no"


@pytest.mark.parametrize("step", one_now(step for step in Step if step.startswith("order.")))
def test_killed_at_a_step_a_transform_and_an_epoch_count_once(tmp_path: Path, step: Step) -> None:
    """Sent before, judged by a leader that dies at each step, and by the one after it."""
    with IngestService(tmp_path / "root") as node:
        node.create("in", partitions=2)
        node.create("out", partitions=2)
        root = QueueRoot.open(str(node.root))
        fill(node)
        Orderer(root, 1).drain()
        with ThreadPoolExecutor(8) as pool:
            # Their answers wait for the order job, which does not run yet.
            sent = [
                pool.submit(send, node, [f"{n}-{i}" for i in range(3)], consumed=said)
                for n, said in enumerate([consumed("g", 0, 5), consumed("g", 0, 9)])
            ]
            wait_for_requests(root, FILLED + 6)
            sent += [pool.submit(send, node, ["e2"], producer_id="p", producer_epoch=2)]
            wait_for_requests(root, FILLED + 7)
            sent += [pool.submit(send, node, ["e1"], producer_id="p", producer_epoch=1)]
            wait_for_requests(root, FILLED + 8)
            order = [sys.executable, "-m", "tests.support.runs.order_process", "--root", root.uri]
            order += ["--epoch", "2", "--max-bytes", "10", "--crash-at", step.value]
            assert run(order) == -9
            judge(root, complete=False)
            Orderer(root, 3, max_bytes=10).drain()
            judge(root)
            codes = [f.result(60).status_code for f in sent]
    assert sorted(codes[:2]) == [200, 409]
    assert codes[2:] == [200, 409]
    won = codes.index(200)
    rows = sorted(r["value"].decode() for r in log_rows(root) if r["topic"] == "out")
    assert rows == [*(f"{won}-{i}" for i in range(3)), "e2"]
    reasons = sorted(r["reason"] for r in reject_rows(root))
    assert reasons == ["consumed_overlap"] * 3 + ["producer_fenced"]


def wait_for_requests(root: QueueRoot, rows: int) -> None:
    """Until the inbox holds so many rows."""
    pause = threading.Event()
    deadline = time.monotonic() + 60
    while inbox_rows(Path(root.uri.removeprefix("file://"))).num_rows < rows:
        assert time.monotonic() < deadline
        pause.wait(0.01)


def test_a_transform_of_a_topic_that_was_created_anew_moves_nothing_in_the_new_one(
    nodes: list[IngestService], root: QueueRoot
) -> None:
    topic, group = f"again-{uuid4().hex[:6]}", f"g-{uuid4().hex[:6]}"

    def records(count: int) -> str:
        nodes[0].create(topic, partitions=1)
        assert nodes[0].send([{"value": n} for n in range(count)], topic).is_success
        Orderer(root, next(_TERMS)).drain()
        topic_id: str = nodes[0].http.get(f"/v1/topics/{topic}").json()["topic_id"]
        return topic_id

    def transform(start: int, end: int, topic_id: str | None) -> httpx2.Response:
        said = consumed(group, start, end) | {"topic": topic, "partition": 0, "topic_id": topic_id}
        return send(nodes[1], ["x"], consumed=said)

    old = records(5)
    assert nodes[0].http.delete(f"/v1/topics/{topic}").is_success
    new = records(3)
    late = transform(0, 2, old).json()
    assert (late["code"], late["stored"]) == ("consumed_elsewhere", "no")
    assert "current" not in late
    # Without the id it is told by what there is.
    beyond = transform(0, 5, None).json()
    assert (beyond["code"], beyond["field"]) == ("invalid_request", "consumed.next_offset")
    with ordering(root, next(_TERMS)):
        assert transform(0, 3, new).is_success
