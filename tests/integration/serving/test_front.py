"""The front alone, over a small application: what clients do wrong, and what it does then."""

# longer than 400 lines: one front, and everything that a client may do to it

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
from flask import Flask, Response, request

from serving.answers import answer_errors, in_pieces, waiting
from serving.front import wsgi
from serving.front.call import Call
from serving.front.front import Way
from serving.front.messages import Answer, json_of
from serving.front.parking import Pieces, Steps, Until, Wake
from serving.front.shares import Kind
from tests.support.services.fronts import Raw, Running, posted, running
from tests.support.services.zookeeper import wait_for

BIG = 8 << 20


class App:
    """What the tests ask for."""

    def __init__(self) -> None:
        self.wake = Wake()
        self.held = threading.Event()
        self.ended: list[str] = []
        self.flask = flask = Flask("small")
        answer_errors(flask)

        @flask.post("/echo")
        def echo() -> Response:
            return Response(request.get_data(), content_type="text/plain")

        @flask.get("/big")
        def big() -> Response:
            def steps() -> Steps[Answer]:
                yield from ()
                return Answer(
                    200,
                    b"x" * BIG,
                    sent=lambda: self.ended.append("sent"),
                    lost=lambda: self.ended.append("lost"),
                )

            return waiting(steps())

        @flask.get("/wait")
        def wait() -> Response:
            call: Call = request.environ[wsgi.CALL]

            def steps() -> Steps[Answer]:
                while not self.wake.is_set() and not call.gone():
                    yield Until(self.wake, 20.0)
                self.ended.append("gone" if call.gone() else "woken")
                return json_of({"woken": True})

            return waiting(steps())

        @flask.get("/pieces")
        def pieces() -> Response:
            def steps() -> Pieces:
                yield b"one "
                yield Until(self.wake, 20.0)
                yield b"two"

            return in_pieces(steps(), "text/plain", {"X-Kind": "pieces"})

        self._in_threads()

    def _in_threads(self) -> None:
        @self.flask.get("/hold")
        def hold() -> str:
            self.held.wait(20.0)
            return "held"

        @self.flask.get("/broken")
        def broken() -> str:
            raise ZeroDivisionError

    def ways(self) -> list[Way]:
        """A kind for each thing that may go wrong."""
        state = Kind("state", 1, 4)

        def healthz(call: Call) -> None:
            call.done(json_of({"status": "alive"}))

        return [
            Way("GET", "/healthz", state, 0, healthz),
            Way("GET", "/slow-state", state, 0, within_s=0.3),
            Way("GET", "/(wait|pieces)", Kind("wait", 2, 100, 50), 0),
            Way("GET", "/hold", Kind("hold", 1, 1), 0),
            Way("GET", "/big", Kind("big", 2, 100, unread_bytes=20 << 20), 0),
            Way("", ".*", Kind("other", 2, 100), 64 << 10),
        ]


@pytest.fixture
def app() -> App:
    return App()


@pytest.fixture
def front(app: App) -> Iterator[Running]:
    with running(app.flask, app.ways()) as served:
        yield served
        app.held.set()


def alive(front: Running) -> bool:
    return front.connect().get("/healthz").status == 200


def test_requests_follow_each_other_on_one_connection(front: Running) -> None:
    raw = front.connect()
    assert raw.get("/healthz").json() == {"status": "alive"}
    answer = raw.post("/echo", b"hello")
    assert (answer.status, answer.body, answer.headers["content-type"]) == (
        200,
        b"hello",
        "text/plain",
    )
    assert raw.get("/nothing").status == 404


def test_requests_sent_ahead_are_answered_in_order(front: Running) -> None:
    raw = front.connect()
    raw.send(b"".join(posted("/echo", b"%d" % n) for n in range(8)))
    assert [raw.read().body for _ in range(8)] == [b"%d" % n for n in range(8)]


def refused(raw: Raw) -> bool:
    """The connection ends before all is answered."""
    try:
        for _ in range(40):
            raw.read()
    except (EOFError, ConnectionError):
        return True
    return False


def test_too_many_requests_ahead_are_refused(front: Running) -> None:
    raw = front.connect()
    raw.send(b"".join(posted("/echo", b"%d" % n) for n in range(40)))
    assert refused(raw)
    assert alive(front)


def test_head_has_the_length_and_no_body(front: Running) -> None:
    raw = front.connect()
    raw.send(b"HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    answer = raw.read(head=True)
    assert answer.status == 200
    assert int(answer.headers["content-length"]) > 0
    assert raw.get("/healthz").status == 200, "the connection is in step"


def test_an_old_client_is_answered_and_let_go(front: Running) -> None:
    raw = front.connect()
    raw.send(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert raw.read().headers["connection"] == "close"
    assert raw.closed()


def test_a_body_in_chunks_is_put_together(front: Running) -> None:
    raw = front.connect()
    raw.send(
        b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    )
    assert raw.read().body == b"abcde"


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: a\r\n"
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
    ],
    ids=["chunk size", "length", "length of 2^64", "two lengths", "TLS", "words"],
)
def test_what_is_no_request_gets_a_problem_and_the_end(front: Running, sent: bytes) -> None:
    raw = front.connect()
    raw.send(sent)
    answer = raw.read()
    assert answer.status == 400
    assert answer.json()["code"] == "malformed_body"
    assert raw.closed()
    assert alive(front)


def test_a_head_without_end_is_refused(front: Running) -> None:
    raw = front.connect()
    raw.send(b"GET / HTTP/1.1\r\nHost: a\r\nX: ")
    for _ in range(100):
        try:
            raw.send(b"y" * 4_096)
        except ConnectionError:
            break
    assert raw.read().status == 431
    many = front.connect()
    many.send(b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(200)) + b"\r\n")
    assert many.read().status == 431


def test_a_body_beyond_the_limit_is_refused_before_it_is_sent(front: Running) -> None:
    raw = front.connect()
    raw.send(
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n"
    )
    assert raw.read().status == 413


def test_a_body_in_chunks_is_counted(front: Running) -> None:
    """It has no length to be judged by."""
    raw = front.connect()
    raw.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(20):
        raw.send(b"2000\r\n" + b"x" * 0x2000 + b"\r\n")
    raw.send(b"0\r\n\r\n")
    assert raw.read().status == 413
    assert raw.get("/healthz").status == 200, "what was left of the body is passed over"
    assert front.front.bodies.used == 0


def test_a_client_that_asks_first_is_told_to_go_on(front: Running) -> None:
    raw = front.connect()
    raw.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    assert raw.read().status == 100
    raw.send(b"ok")
    assert raw.read().body == b"ok"


def test_an_upgrade_is_passed_over(front: Running) -> None:
    """Clients of Java and curl offer HTTP/2 with their first request."""
    raw = front.connect()
    answer = raw.post("/echo", b"x", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c")
    assert (answer.status, answer.body) == (200, b"x")


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


def test_waiting_takes_no_thread(app: App, front: Running) -> None:
    waits = [front.connect() for _ in range(40)]
    for raw in waits:
        raw.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
    share = front.front.shares["wait"]
    wait_for(lambda: share.parked == 40, "with two threads of its kind")
    assert alive(front)
    app.wake.set()
    assert [raw.read().status for raw in waits] == [200] * 40
    assert share.parked == share.busy == 0
    assert front.front.calls == 0


def test_more_than_may_wait_are_told_so(app: App, front: Running) -> None:
    waits = [front.connect() for _ in range(50)]
    for raw in waits:
        raw.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
    share = front.front.shares["wait"]
    wait_for(lambda: share.parked == 50, "all wait")
    answer = front.connect().get("/wait")
    assert (answer.status, answer.json()["code"]) == (429, "overloaded")
    assert "'wait'" in answer.json()["detail"]
    app.wake.set()


def test_who_hangs_up_while_waiting_is_noticed_at_once(app: App, front: Running) -> None:
    raw = front.connect()
    raw.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: front.front.shares["wait"].parked == 1, "it waits")
    raw.close()
    wait_for(lambda: app.ended == ["gone"], "no wake-up was needed")


def test_an_answer_in_pieces_waits_in_between(app: App, front: Running) -> None:
    raw = front.connect()
    raw.send(b"GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: front.front.shares["wait"].parked == 1, "it waits")
    app.wake.set()
    answer = raw.read()
    assert (answer.body, answer.headers["x-kind"]) == (b"one two", "pieces")
    assert raw.get("/healthz").status == 200


def test_one_kind_of_call_starves_no_other(app: App, front: Running) -> None:
    held = [front.connect() for _ in range(2)]
    for raw in held:
        raw.send(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: front.front.shares["hold"].busy == 2, "one is run, one waits for the thread")
    answer = front.connect().get("/hold")
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    assert front.connect().post("/echo", b"x").status == 200
    assert alive(front)
    app.held.set()
    assert [raw.read().body for raw in held] == [b"held"] * 2


def test_a_client_that_does_not_read_is_let_go(app: App) -> None:
    with running(app.flask, app.ways(), write_s=0.5, write_bytes_per_s=1e9) as front:
        raw = front.connect(receive_bytes=4_096)
        raw.send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_for(lambda: front.front.unread > 1_000_000, "what it has not read is counted")
        wait_for(lambda: app.ended == ["lost"], "whoever answered hears that it was lost")
        assert front.front.let_go == 1
        wait_for(lambda: front.front.unread == 0, "and its memory is free")


def test_a_slow_reader_gets_all_of_it(app: App) -> None:
    with running(app.flask, app.ways(), write_s=0.5, write_bytes_per_s=1e6) as front:
        raw = front.connect(receive_bytes=65_536)
        raw.send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
        assert len(raw.read().body) == BIG
        wait_for(lambda: app.ended == ["sent"], "it was sent")


def test_answers_that_nobody_reads_take_no_more_than_their_share(app: App, front: Running) -> None:
    for _ in range(3):
        front.connect(receive_bytes=4_096).send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: front.front.shares["big"].unread > 20 << 20, "they do not read")
    answers = [front.connect().get("/big").status]
    assert alive(front)
    assert front.connect().post("/echo", b"x").status == 200, "other kinds have their own"

    def served() -> bool:
        answers.append(front.connect().get("/big").status)
        return answers[-1] == 200

    wait_for(served, "who does not read makes room for who does")
    assert set(answers) <= {429, 200}
    assert "lost" in app.ended


def test_a_state_that_is_not_known_in_time_is_told_as_such(app: App, front: Running) -> None:
    @app.flask.get("/slow-state")
    def slow() -> str:
        app.held.wait(20)
        return ""

    answer = front.connect().get("/slow-state")
    assert (answer.status, answer.json()["code"]) == (503, "not_ready")
    assert alive(front)


def test_a_fault_of_ours_is_a_problem_like_any_other(front: Running) -> None:
    answer = front.connect().get("/broken")
    assert (answer.status, answer.headers["content-type"]) == (500, "application/problem+json")


def test_a_front_that_ends_answers_what_it_has_begun(app: App, front: Running) -> None:
    busy, idle = front.connect(), front.connect()
    assert idle.get("/healthz").status == 200
    busy.send(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: front.front.shares["hold"].busy == 1, "it is run")
    rested = threading.Event()
    front.front.rested = rested.set
    front.call(front.front.drain)
    assert idle.closed()
    assert not rested.is_set()
    app.held.set()
    answer = busy.read()
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert rested.wait(10)


def test_the_same_application_waits_in_its_thread_under_another_server(app: App) -> None:
    client = app.flask.test_client()
    app.wake.set()
    assert client.get("/pieces").data == b"one two"


def test_a_tunnel_is_refused(front: Running) -> None:
    raw = front.connect()
    raw.send(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n")
    assert raw.read().status == 431
    assert alive(front)
