"""An SQS gateway among the processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from console.asking.patience import Patience
from console.asking.processes import Process, look
from console.asking.services import Addresses, Services

NOBODY = "http://127.0.0.1:9"


class Gateway(ThreadingHTTPServer):
    """Alive, and closed to whoever has no key of its own."""

    def __init__(self, metrics: int = 403) -> None:
        asked = self.asked = []

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response({"/readyz": 200, "/metrics": metrics}.get(self.path, 404))
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                return

        super().__init__(("127.0.0.1", 0), Answers)

    asked: list[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway() as gateway:
        serving = threading.Thread(target=gateway.serve_forever)
        serving.start()
        yield gateway
        gateway.shutdown()
        serving.join()


def seen(gateway: str) -> Process:
    services = Services(Addresses((NOBODY,), (NOBODY,), (), (gateway,)), None, None)
    try:
        found = look(services, Patience())
    finally:
        services.close()
    assert not found.locked, "its keys are not those of the queue"
    assert not found.may_read, "nor does it say whether the queue is open to everybody"
    return found.each[-1]


def test_it_is_shown_by_whether_it_is_ready(gateway: Gateway) -> None:
    found = seen(gateway.url)
    assert (found.role, found.name, found.state) == ("sqs", f"SQS {found.place}", "ready")
    assert gateway.asked == ["/readyz"]


def test_one_that_is_gone_is_named() -> None:
    assert seen(NOBODY).state == "silent"


@pytest.mark.parametrize(
    ("metrics", "locked", "may_read"),
    [(200, False, True), (401, True, False), (403, True, False), (503, False, False)],
)
def test_only_a_service_that_tells_its_figures_is_open(
    metrics: int, locked: bool, may_read: bool
) -> None:
    """The one that waits for a damaged table answers 503 to everything."""
    with Gateway(metrics) as service:
        serving = threading.Thread(target=service.serve_forever)
        serving.start()
        services = Services(Addresses((service.url,), (NOBODY,), (), ()), None, None)
        try:
            found = look(services, Patience())
        finally:
            services.close()
            service.shutdown()
            serving.join()
    assert (found.locked, found.may_read) == (locked, may_read)
