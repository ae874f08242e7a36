"""The front alone: clients that are slow, silent, or many."""

from __future__ import annotations

import socket
import struct
import time

from tests.support.services.fronts import Running, alive, posted, running
from tests.support.services.small_app import BIG, App
from tests.support.services.zookeeper import wait_for


def test_a_slow_head_is_ended_and_a_silent_client_as_well(app: App) -> None:
    with running(app.flask, app.ways(), header_s=0.5) as front:
        slow, silent = front.connect(), front.connect()
        slow.send(b"G")
        answer = slow.read()
        assert (answer.status, answer.json()["code"]) == (408, "too_slow")
        assert silent.closed()
        assert alive(front)


def test_slow_clients_that_have_gone_meanwhile_are_no_trouble(app: App) -> None:
    """Nobody hears of a connection that was reset until something is written to it."""
    with running(app.flask, app.ways(), header_s=0.5) as front:
        for _ in range(50):
            raw = front.connect()
            raw.send(b"G")
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.close()
        slow = front.connect()
        slow.send(b"G")
        assert slow.read().status == 408
        wait_for(lambda: len(front.front.connections) <= 1, "nothing is left of them")
        assert alive(front)


def test_an_idle_connection_is_closed(app: App) -> None:
    with running(app.flask, app.ways(), idle_s=0.5) as front:
        raw = front.connect()
        assert raw.get("/healthz").status == 200
        assert raw.closed()


def test_a_body_that_comes_too_slowly_is_ended(app: App) -> None:
    with running(app.flask, app.ways(), body_grace_s=0.5) as front:
        raw = front.connect()
        raw.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx")
        assert raw.read().status == 408
        assert front.front.bodies.used == 0


def test_a_known_head_whose_body_does_not_come_is_ended(app: App) -> None:
    with running(app.flask, app.ways(), header_s=0.5, body_grace_s=0.5) as front:
        raw = front.connect()
        assert raw.post("/echo", b"x").status == 200
        raw.send(posted("/echo", b"x")[:-1])
        assert raw.read().status == 408
        assert front.front.bodies.used == 0


def test_slow_clients_take_nothing_from_others(front: Running) -> None:
    for _ in range(60):
        front.connect().send(b"G")
        front.connect().send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nx")
    began = time.monotonic()
    assert alive(front)
    assert front.connect().post("/echo", b"x").status == 200
    assert time.monotonic() - began < 3


def test_bodies_have_a_budget_together(app: App) -> None:
    with running(app.flask, app.ways(), bodies=50_000) as front:
        first = front.connect()
        first.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 45000\r\n\r\n")
        first.send(b"x" * 40_000)
        wait_for(lambda: front.front.bodies.used == 40_000, "it is counted as it comes")
        answer = front.connect().post("/echo", b"y" * 20_000)
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        first.send(b"x" * 5_000)
        assert first.read().status == 200
        assert front.connect().post("/echo", b"y" * 20_000).status == 200


def test_connections_beyond_the_limit_are_told_so(app: App) -> None:
    with running(app.flask, app.ways(), connections=10) as front:
        held = [front.connect() for _ in range(10)]
        for raw in held:
            raw.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
        share = front.front.shares["wait"]
        wait_for(lambda: share.parked == 10, "all wait")
        answer = front.connect().read()
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert answer.json()["code"] == "overloaded"


def test_an_address_beyond_its_limit_is_told_so_and_takes_no_place_of_others(app: App) -> None:
    with running(app.flask, app.ways(), connections=10, per_address=5) as front:
        for _ in range(5):
            front.connect().send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: front.front.shares["wait"].parked == 5, "all wait")
        answers = [front.connect() for _ in range(20)]
        first = answers[0].read()
        assert (first.status, first.headers["retry-after"]) == (429, "1")
        assert "127.0.0.1" in first.json()["detail"]
        wait_for(lambda: front.front.refused["address"] == 20, "each is refused")
        assert len(front.front.connections) == 5
        with socket.create_connection(front.front.server, 30, ("127.0.0.9", 0)) as other:
            other.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert other.recv(15) == b"HTTP/1.1 200 OK", "there are five places left"
        assert front.front.refused["connections"] == 0
        wait_for(lambda: not front.front.turned_away, "none of them stays")


def test_a_silent_connection_makes_room(app: App) -> None:
    with running(app.flask, app.ways(), connections=10, per_address=10) as front:
        silent = [front.connect() for _ in range(10)]
        assert len(silent) == 10

        def taken() -> bool:
            try:
                return front.connect().get("/healthz").status == 200
            except (EOFError, ConnectionError):
                return False

        wait_for(taken, "the oldest has gone for it")


def test_a_client_that_does_not_read_is_let_go(app: App) -> None:
    with running(app.flask, app.ways(), write_s=0.5, write_bytes_per_s=1e9) as front:
        raw = front.connect(receive_bytes=4_096)
        raw.send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: front.front.unread > 1_000_000, "what it has not read is counted")
        wait_for(lambda: app.ended == ["lost"], "whoever answered hears that it was lost")
        assert front.front.late["answer"] == 1
        wait_for(lambda: front.front.unread == 0, "and its memory is free")


def test_a_slow_reader_gets_all_of_it(app: App) -> None:
    with running(app.flask, app.ways(), write_s=0.5, write_bytes_per_s=1e6) as front:
        raw = front.connect(receive_bytes=65_536)
        raw.send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
        assert len(raw.read().body) == BIG
        wait_for(lambda: app.ended == ["sent"], "it was sent")


def test_answers_that_nobody_reads_take_no_more_than_their_share(app: App, front: Running) -> None:
    share = front.front.shares["big"]
    for _ in range(50):
        front.connect(receive_bytes=4_096).send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: share.overfull, "they do not read")
    wait_for(lambda: share.busy == 0, "each has its answer, or was told that there is no room")
    answers = [front.connect().get("/big").status]
    assert alive(front)
    assert front.connect().post("/echo", b"x").status == 200, "other kinds have their own"

    def served() -> bool:
        answers.append(front.connect().get("/big").status)
        return answers[-1] == 200

    wait_for(served, "who does not read makes room for who does")
    assert set(answers) <= {429, 200}
    wait_for(lambda: "lost" in app.ended, "whoever answered them hears so")
    both = 2 * BIG
    assert max(app.taken) <= (20 << 20) - both // 4 + both, "the two that are built count as well"


def test_an_answer_counts_until_it_is_read(app: App, front: Running) -> None:
    share = front.front.shares["big"]
    assert len(front.connect().get("/big").body) == BIG
    wait_for(lambda: share.answers.used == share.unread == 0, "nothing is left of it")
    raw = front.connect(receive_bytes=4_096)
    raw.send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: share.unread > 0 and share.busy == 0, "it is written")
    assert share.answers.used == share.unread <= BIG + 1_000, "once, not once more for its body"
    raw.close()
    wait_for(lambda: share.answers.used == 0, "who goes leaves nothing")
