"""The endpoint beside a process that serves nothing else."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx2
import pytest

from serving.monitor import Monitor

WHY: list[str] = []


@pytest.fixture
def monitor() -> Iterator[Monitor]:
    monitor = Monitor("driver-1", lambda: list(WHY), lambda: b"# nothing\n")
    yield monitor
    monitor.close()


def test_it_says_whether_the_process_is_ready_and_why_not(monitor: Monitor) -> None:
    url = monitor.start("127.0.0.1", 0)
    assert url is not None
    assert httpx2.get(f"{url}/readyz").json() == {
        "status": "ready",
        "reasons": [],
        "warnings": [],
        "node": "driver-1",
    }
    WHY.append("order: warming up")
    try:
        answer = httpx2.get(f"{url}/readyz")
    finally:
        WHY.clear()
    assert answer.status_code == 503
    assert answer.json()["reasons"] == [{"code": "not_ready", "detail": "order: warming up"}]
    assert httpx2.get(f"{url}/healthz").json()["status"] == "alive"
    assert httpx2.get(f"{url}/metrics?x=1").text == "# nothing\n"
    assert httpx2.get(f"{url}/other").status_code == 404


def test_a_port_that_is_taken_is_no_reason_to_end(monitor: Monitor) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert monitor.start("127.0.0.1", taken.getsockname()[1]) is None
    assert monitor.start("127.0.0.1", 0) is not None
