"""The front alone: where a request ends, and what stands between and behind its parts."""

from __future__ import annotations

import pytest

from tests.support.services.fronts import Raw, Running, alive, posted, running
from tests.support.services.small_app import App
from tests.support.services.zookeeper import wait_for

CHUNKED = b"POST /%b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
TRAILER = CHUNKED % b"echo" + b"3\r\nabc\r\n0\r\nX-T: "
BEGUN = b"POST /headers HTTP/1.1\r\nX-Y: "


def behind_a_body(front: Running) -> Raw:
    """A connection at which a head has begun in the read that had the end of a body."""
    raw = front.connect()
    raw.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel")
    connections = front.front.connections
    wait_for(lambda: any(not one.idle for one in connections), "its body is read")
    raw.send(b"lo" + BEGUN)
    assert raw.read().body == b"hello"
    return raw


def test_a_head_that_begins_with_the_end_of_a_body_goes_on_with_what_comes_next(
    front: Running,
) -> None:
    known = posted("/echo", b"SMUGGLED")
    raw = front.connect()
    raw.send(known)
    assert raw.read().body == b"SMUGGLED", "the head is known from now on"
    raw.close()
    wait_for(lambda: not front.front.connections, "it has gone")
    raw = behind_a_body(front)
    raw.send(known)
    assert raw.read().json() == ["X-Y", "Host"], "not the request that stands in its header"


def test_a_head_is_not_learnt_from_what_stands_within_another(front: Running) -> None:
    raw, known = behind_a_body(front), posted("/echo", b"mine", "X-Who: b")
    raw.send(known)
    assert raw.read().json() == ["X-Y", "Host", "X-Who"]
    raw.close()
    wait_for(lambda: not front.front.connections, "it has gone")
    for _ in range(2):
        other = front.connect()
        other.send(known)
        assert other.read().body == b"mine", "a request of somebody else means what it says"


def test_a_head_that_begins_with_the_end_of_a_body_has_to_come_in_time(app: App) -> None:
    with running(app.flask, app.ways(), header_s=0.5) as front:
        answer = behind_a_body(front).read()
        assert (answer.status, answer.json()["code"]) == (408, "too_slow")


def test_a_head_behind_a_refused_body_has_to_come_in_time(app: App) -> None:
    with running(app.flask, app.ways(), header_s=0.5, body_grace_s=60.0) as front:
        raw = front.connect()
        raw.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
        assert raw.read().status == 413
        raw.send(b"x" * 100_000 + BEGUN)
        assert raw.read().status == 408


def test_a_connection_behind_a_refused_body_is_idle(app: App) -> None:
    with running(app.flask, app.ways(), idle_s=0.5, body_grace_s=60.0) as front:
        raw = front.connect()
        raw.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
        assert raw.read().status == 413
        raw.send(b"x" * 100_000)
        assert raw.closed()


def test_trailers_are_no_headers(front: Running) -> None:
    raw = front.connect()
    raw.send(CHUNKED % b"headers" + b"3\r\nabc\r\n0\r\nContent-Encoding: gzip\r\nce-id: 1\r\n\r\n")
    assert raw.read().json() == ["Host"]
    assert raw.get("/healthz").status == 200


@pytest.mark.parametrize(
    "begin",
    [TRAILER, CHUNKED % b"echo" + b"3\r\nabc\r\n0\r\n", CHUNKED % b"echo" + b"3\r\nabc\r\n3;a="],
    ids=["value", "name", "extension"],
)
def test_a_trailer_without_end_is_refused(front: Running, begin: bytes) -> None:
    raw = front.connect()
    raw.send(begin)
    for _ in range(100):
        try:
            raw.send(b"y" * 4_096)
        except ConnectionError:
            break
    answer = raw.read()
    assert (answer.status, answer.json()["code"]) == (431, "too_large")
    assert alive(front)
    assert front.front.heads_held.used == front.front.bodies.used == 0


def test_trailers_without_end_behind_a_refused_body_get_no_second_answer(front: Running) -> None:
    raw = front.connect()
    raw.send(CHUNKED % b"echo" + b"20000\r\n" + b"x" * 0x20000 + b"\r\n0\r\nX-T: ")
    assert raw.read().status == 413
    for _ in range(100):
        try:
            raw.send(b"y" * 4_096)
        except ConnectionError:
            break
    assert raw.closed()
    assert alive(front)


def test_a_long_trailer_is_counted_like_a_long_head(front: Running) -> None:
    raw, held = front.connect(), front.front.heads_held
    raw.send(TRAILER + b"x" * 20_000)
    wait_for(lambda: held.used > 20_000, "the parser keeps it")
    raw.send(b"\r\n\r\n")
    assert raw.read().body == b"abc"
    assert held.used == 0
    held.limit = 10_000
    raw.send(TRAILER + b"x" * 20_000)
    assert raw.read().status == 429


def test_a_body_of_small_chunks_has_no_long_trailer(front: Running) -> None:
    raw = front.connect()
    raw.send(CHUNKED % b"echo" + b"1;of=many\r\nx\r\n" * 30_000 + b"0\r\n\r\n")
    assert raw.read().body == b"x" * 30_000


@pytest.mark.parametrize("coding", ["gzip, chunked", "gzip\r\nTransfer-Encoding: chunked"])
def test_a_transfer_coding_other_than_chunks_is_refused(front: Running, coding: str) -> None:
    raw = front.connect()
    raw.send(CHUNKED.replace(b"chunked", coding.encode()) % b"echo" + b"3\r\nabc\r\n0\r\n\r\n")
    answer = raw.read()
    assert (answer.status, answer.json()["status"]) == (501, 501)
    assert raw.closed()


def test_what_is_refused_says_its_status_and_why(front: Running) -> None:
    raw = front.connect()
    raw.send(b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: 1\r\n" % n for n in range(200)) + b"\r\n")
    answer = raw.read()
    assert (answer.status, answer.json()["status"]) == (431, 431)
    raw = front.connect()
    raw.send(b"GET http:///healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    answer = raw.read()
    assert (answer.status, answer.json()["code"]) == (400, "malformed_body")
    assert "target" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("version", "connection"), [("1.1", "Upgrade, close"), ("1.0", "Upgrade, HTTP2-Settings")]
)
def test_an_upgrade_that_is_skipped_leaves_the_connection_what_it_was(
    front: Running, version: str, connection: str
) -> None:
    raw = front.connect()
    raw.send(
        f"POST /echo HTTP/{version}\r\nHost: a\r\nConnection: {connection}\r\nUpgrade: h2c\r\n"
        "Content-Length: 3\r\n\r\nabc".encode()
    )
    answer = raw.read()
    assert (answer.body, answer.headers["connection"]) == (b"abc", "close")
    assert raw.closed()
