"""The front alone: what is a request, and what is none."""

from __future__ import annotations

import pytest

from serving.front.connection import Connection
from tests.support.services.fronts import Raw, Running, alive, posted
from tests.support.services.zookeeper import wait_for


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
    assert raw.get("/no%0Athing").status == 404, "a path may have any character"


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


def test_requests_with_the_same_head_are_told_apart_by_their_bodies(front: Running) -> None:
    raw, other = front.connect(), front.connect()
    for body in (b"one", b"two", b"six"):
        assert raw.post("/echo", body).body == body
        assert other.post("/echo", body[::-1]).body == body[::-1]
    whole = posted("/echo", b"ten")
    raw.send(whole + posted("/echo", b"11") + whole)
    assert [raw.read().body for _ in range(3)] == [b"ten", b"11", b"ten"]
    raw.send(whole[:-1])
    raw.send(whole[-1:] + whole)
    assert [raw.read().body for _ in range(2)] == [b"ten", b"ten"], "in whatever pieces they come"
    last = posted("/echo", b"end", "Connection: close")
    for _ in range(2):
        raw = front.connect()
        raw.send(last)
        assert raw.read().body == b"end"
        assert raw.closed()


def test_a_head_that_comes_without_its_body_is_known_the_next_time(front: Running) -> None:
    def head_is_read() -> bool:
        return any(one._reading.under_way for one in _connections(front))

    for body in (b"one", b"two", b"six"):
        raw = front.connect()
        head = posted("/echo", body)[: -len(body)]
        known = front.front.heads.awaits_body(head)
        assert known == (body != b"one")
        raw.send(head)
        wait_for(head_is_read, "the head is read")
        raw.send(body[:1] if body == b"six" else body)
        raw.send(body[1:] if body == b"six" else posted("/echo", b"next"))
        assert raw.read().body == body
        if body != b"six":
            assert raw.read().body == b"next"
        raw.close()
        wait_for(lambda: not front.front.connections, "it is closed")


def _connections(front: Running) -> list[Connection]:
    return [one for one in list(front.front.connections) if isinstance(one, Connection)]


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


def test_an_upgrade_is_skipped(front: Running) -> None:
    """Clients of Java and curl offer HTTP/2 with their first request."""
    raw = front.connect()
    answer = raw.post("/echo", b"x", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c")
    assert (answer.status, answer.body) == (200, b"x")


def test_a_tunnel_is_refused(front: Running) -> None:
    raw = front.connect()
    raw.send(b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n")
    assert raw.read().status == 501
    assert alive(front)


def test_a_fault_of_ours_is_a_problem_like_any_other(front: Running) -> None:
    answer = front.connect().get("/broken")
    assert (answer.status, answer.headers["content-type"]) == (500, "application/problem+json")
