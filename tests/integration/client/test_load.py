"""Advice about load, and the list of nodes, as a running node tells them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from lakequeue import Admin
from tests.support.services.consumer_node import NodeProcess, Queue

pytestmark = pytest.mark.zookeeper


def test_a_group_that_nobody_consumes_with_is_told_of(queue: Queue, node: NodeProcess) -> None:
    topic = queue.log.topic()
    queue.log.append(topic, [str(n) for n in range(150)])
    group = f"idle-{topic.topic}"
    with Admin(consumer_urls=node.url, timeout_s=60) as admin:
        admin.seek(group, "earliest", topics=[topic.topic])
        told = admin.advice(over_s=0.6)
        assert told.over_s >= 0.6
        (advice,) = [a for a in told.advice if a.group == group]
        assert (advice.add, advice.topic, advice.to) == ("consumers", topic.topic, 1)
        assert "150 records wait and nobody consumes" in advice.detail
        (trend,) = [t for t in told.trends if t.group == group]
        assert (trend.course, trend.lag, trend.members) == ("stuck", 150, 0)
    command = [sys.executable, "-m", "lakequeue_cli.app", "doctor", "--load", "--over", "0.5"]
    said = subprocess.run(
        [*command, "--consumer-url", node.url],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    ).stdout
    assert f"{group} on {topic.topic}: stuck, lag 150" in said
    assert f"→ start the application that consumes as group {group}" in said
    assert "lakequeue consume" not in said


def test_a_node_tells_which_nodes_there_are(node: NodeProcess) -> None:
    told = httpx2.get(f"{node.url}/v1/nodes", timeout=30).json()
    assert node.url in [info["url"] for info in told["consumer"]]
