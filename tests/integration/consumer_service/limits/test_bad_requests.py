"""Every refusal says what to do, and leaves the node unharmed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from tests.support.services.consumer_node import HttpMember, NodeProcess, Queue, offsets

pytestmark = pytest.mark.zookeeper
Start = Callable[..., NodeProcess]

JOIN = "/v1/groups/g/members"


def problem(answer: httpx2.Response) -> tuple[int, str]:
    """Status and code, of an answer that is a whole problem."""
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["detail"]
    assert isinstance(body["retryable"], bool)
    return answer.status_code, body["code"]


def test_acks_that_are_refused_are_counted_by_whichever_call_they_come(node: NodeProcess) -> None:
    series = 'lakequeue_consumer_refused_acks_total{code="invalid_request"} '

    def counted() -> float:
        lines = httpx2.get(f"{node.url}/metrics", timeout=60).text.splitlines()
        return sum(float(line.removeprefix(series)) for line in lines if line.startswith(series))

    before = counted()
    for path in ("/v1/groups/g/members/m/acks", "/v1/groups/g/acks"):
        answer = httpx2.post(f"{node.url}{path}", json={"acks": 5}, timeout=60)
        assert problem(answer) == (422, "invalid_request")
        assert answer.json()["stored"] == "no"
    assert counted() == before + 2


def test_bad_requests_get_a_problem(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, ["a"])
    client = httpx2.Client(base_url=node.url, timeout=20)

    def join(**body: Any) -> tuple[int, str]:
        return problem(client.post(JOIN, json=body))

    assert join(topics=["nope"]) == (404, "unknown_topic")
    assert join(topics=[]) == (422, "invalid_request")
    assert join(topics=[topic.topic], mode="batch") == (422, "invalid_request")
    assert join(topics=[topic.topic], frm="latest") == (422, "invalid_request")
    assert problem(client.post("/v1/groups/a b/members", json={"topics": [topic.topic]})) == (
        422,
        "invalid_name",
    )
    nothing: dict[str, list[str]] = {"acks": []}
    assert problem(client.post("/v1/groups/a%C2%84/acks", json=nothing)) == (422, "invalid_name")
    assert problem(
        client.post(JOIN, content=b"{", headers={"Content-Type": "application/json"})
    ) == (
        400,
        "malformed_body",
    )
    assert problem(client.post(JOIN, content=b"x", headers={"Content-Type": "text/csv"})) == (
        415,
        "unsupported_media_type",
    )
    assert problem(client.get("/v1/groups/g/members/nobody/records")) == (404, "unknown_member")
    assert problem(client.get("/v1/groups/nothing")) == (404, "unknown_group")
    assert problem(client.delete("/v1/groups/nothing")) == (404, "unknown_group")
    assert problem(client.get("/v2/nothing")) == (404, "not_found")
    with HttpMember(node.url, topic) as member:
        assert problem(member.get(max_records=0)) == (422, "invalid_request")
        assert problem(member.post(acks=["garbage"])) == (422, "invalid_request")
        assert problem(member.post(nacks=[{"receipt": "x"}])) == (422, "invalid_request")
        records = member.poll_until(1)
        ahead = records[0]["receipt"].split(".")
        ahead[2] = "7"
        assert problem(member.post(acks=[".".join(ahead)])) == (422, "invalid_request")
        unknown = [{"topic": "nope", "partition": 0, "offset": 0}]
        assert problem(member.post(commit=unknown)) == (422, "invalid_request")
        assert member.ack(records).status_code == 200
        queue.log.append(topic, ["b"])
        assert offsets(member.poll_until(1)) == [1]


def test_state_pages(queue: Queue, node: NodeProcess) -> None:
    client = httpx2.Client(base_url=node.url, timeout=20)
    assert client.get("/healthz").json()["status"] == "alive"
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    paths = client.get("/openapi.json").json()["paths"]
    assert "/v1/groups/{group}/members/{member}/acks" in paths
    assert "lakequeue_consumer_leases" in client.get("/metrics").text


def test_a_port_in_use_ends_the_process_with_a_remedy(
    queue: Queue, node: NodeProcess, start_node: Start
) -> None:
    port = int(node.url.rsplit(":", 1)[1])
    with pytest.raises(RuntimeError, match="--port"):
        start_node(queue, "b", port=port)
