"""What large heads take, and that they take it from a budget of their own."""

from __future__ import annotations

from tests.support.services.fronts import alive, running
from tests.support.services.small_app import App
from tests.support.services.zookeeper import wait_for

LARGE = b"GET %s HTTP/1.1\r\nHost: a\r\nX-Large: " + b"x" * 20_000


def test_large_heads_are_counted_until_they_are_answered(app: App) -> None:
    with running(app.flask, app.ways()) as front:
        held = front.front.heads_held
        begun, waits = front.connect(), front.connect()
        begun.send(LARGE % b"/healthz")
        wait_for(lambda: held.used > 20_000, "an incomplete head is counted")
        waits.send(LARGE % b"/wait" + b"\r\n\r\n")
        wait_for(lambda: front.front.shares["wait"].parked == 1, "it waits")
        assert held.used > 40_000
        begun.send(b"\r\n\r\n")
        assert begun.read().status == 200
        wait_for(lambda: held.used < 21_000, "what is answered is given back")
        app.wake.set()
        assert waits.read().status == 200
        wait_for(lambda: held.used == 0, "so is this")
        assert begun.get("/none").status == 404
        gone = front.connect()
        gone.send(LARGE % b"/healthz")
        wait_for(lambda: held.used > 0, "it is counted")
        gone.close()
        wait_for(lambda: held.used == 0, "what a client leaves behind is given back")


def test_too_many_large_heads_are_refused_and_others_go_on(app: App) -> None:
    with running(app.flask, app.ways()) as front:
        held = front.front.heads_held
        held.limit = 50_000
        waits = [front.connect() for _ in range(2)]
        for raw in waits:
            raw.send(LARGE % b"/wait" + b"\r\n\r\n")
        wait_for(lambda: front.front.shares["wait"].parked == 2, "both wait")
        third, begun, small = (front.connect() for _ in range(3))
        third.send(LARGE % b"/healthz" + b"\r\n\r\n")
        answer = third.read()
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        begun.send(LARGE % b"/healthz")
        assert begun.read().status == 429
        assert begun.closed()
        assert small.post("/echo", b"hello").body == b"hello"
        assert held.refused == 2
        app.wake.set()
        assert [raw.read().status for raw in waits] == [200, 200]
        assert alive(front)
