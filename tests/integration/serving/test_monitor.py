"""The endpoint beside a process that serves nothing else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from lakequeue.settings import AccessSettings
from queue_access.keys import new_key
from queue_access.registry import LOCKED, Entry, Registry, entry_of_grant, entry_of_key
from queue_access.rights import checked_grant
from serving.doors.gate import ServiceGate
from serving.monitor import MOST_CONNECTIONS, Monitor
from tests.support.services.zookeeper import wait_for

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


def test_metrics_need_a_key_when_doors_are_locked() -> None:
    text, key = new_key("prometheus")
    grant = entry_of_grant("prometheus", checked_grant("read", "queue", "*"))
    gate = ServiceGate("driver", AccessSettings(), ["queue-1"])
    gate.replace(Registry([Entry(LOCKED, LOCKED), entry_of_key(key), grant]))
    monitor = Monitor("driver-1", list, lambda: b"# nothing\n", gate=gate)
    url = monitor.start("127.0.0.1", 0)
    assert url is not None
    try:
        shown = {"Authorization": f"Bearer {text}"}
        assert httpx2.get(f"{url}/metrics", headers=shown).text == "# nothing\n"
        for path in ("/metrics", "/metrics/", "/", "/other", "//metrics", "/healthz/../metrics"):
            refused = httpx2.get(f"{url}{path}")
            assert refused.status_code == 401, path
            assert refused.headers["www-authenticate"].startswith("Bearer")
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PROPFIND"):
            for path in ("/metrics", "/healthz"):
                refused = httpx2.request(method, f"{url}{path}")
                assert refused.status_code == 401, (method, path)
                assert "Python" not in f"{refused.headers}{refused.text}"
        assert httpx2.post(f"{url}/metrics", headers=shown).status_code == 403
        assert httpx2.head(f"{url}/metrics").status_code == 401
        assert httpx2.head(f"{url}/metrics", headers=shown).headers["content-length"] == "10"
        assert httpx2.get(f"{url}/healthz").status_code == 200
        assert httpx2.get(f"{url}/readyz").status_code == 200
    finally:
        monitor.close()


def test_what_is_no_request_gets_a_problem_without_a_word_of_python(monitor: Monitor) -> None:
    url = monitor.start("127.0.0.1", 0)
    assert url is not None
    at = httpx2.URL(url)
    for said in (b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1 x\r\n\r\n"):
        with socket.create_connection((at.host, at.port or 0), timeout=30) as link:
            link.sendall(said)
            answer = b""
            while piece := link.recv(4_096):
                answer += piece
        assert b" 400 " in answer or b" 505 " in answer, said
        assert b"Python" not in answer
        assert b"html" not in answer
    assert httpx2.post(f"{url}/metrics").status_code == 405


def test_pages_are_kept_out_of_a_driver_too() -> None:
    monitor = Monitor(
        "driver-1", list, lambda: b"", gate=ServiceGate("driver", AccessSettings(), [])
    )
    url = monitor.start("127.0.0.1", 0)
    assert url is not None
    try:
        foreign = {"Origin": "https://evil.example.org"}
        assert httpx2.get(f"{url}/metrics", headers=foreign).status_code == 403
        rebound = {"Host": "evil.example.org"}
        assert httpx2.get(f"{url}/metrics", headers=rebound).status_code == 421
    finally:
        monitor.close()


@contextmanager
def all_taken(head_s: float = 60.0, young_s: float = 60.0) -> Iterator[str]:
    """A monitor, at which clients that say nothing have all places; its URL."""
    monitor = Monitor("driver-1", list, lambda: b"", head_s=head_s, young_s=young_s)
    url = monitor.start("127.0.0.1", 0)
    assert url is not None
    opened = [connected(url) for _ in range(MOST_CONNECTIONS)]
    try:
        yield url
    finally:
        for one in opened:
            one.close()
        monitor.close()


def connected(url: str) -> socket.socket:
    at = httpx2.URL(url)
    return socket.create_connection((at.host, at.port or 0), timeout=30)


def test_whoever_opens_thousands_of_connections_gets_no_more_than_some() -> None:
    with all_taken() as url:
        answer = httpx2.get(f"{url}/healthz")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["code"] == "overloaded"


def test_clients_that_say_nothing_make_room_for_who_asks() -> None:
    with all_taken(young_s=0.0) as url:
        assert [httpx2.get(f"{url}/healthz").status_code for _ in range(3)] == [200] * 3


def test_a_client_that_sends_a_byte_now_and_then_is_let_go() -> None:
    with all_taken(head_s=0.5) as url:
        wait_for(lambda: httpx2.get(f"{url}/healthz").status_code == 200, "they are let go")
        with connected(url) as slow, pytest.raises(ConnectionError):  # noqa: PT012 -- in a loop
            while True:
                slow.sendall(b"G")
                threading.Event().wait(0.05)


def test_there_is_room_again_when_clients_have_gone(monitor: Monitor) -> None:
    url = monitor.start("127.0.0.1", 0)
    assert url is not None
    opened = [connected(url) for _ in range(MOST_CONNECTIONS)]
    for one in opened:
        one.close()

    def answers() -> bool:
        try:
            return httpx2.get(f"{url}/healthz").status_code == 200
        except httpx2.HTTPError:
            return False

    wait_for(answers, "there is room again")
