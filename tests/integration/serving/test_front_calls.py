"""The front alone: calls that wait, are held up, or end with the node."""

from __future__ import annotations

import sys
import threading

import pytest
from flask import request

from lakequeue.errors import LakequeueError, Unauthenticated
from serving.front.connection import MAX_AHEAD_BYTES, Connection
from serving.front.hub import Everybody
from serving.front.limits.turns import SOON_S
from serving.front.messages import Request
from serving.front.parking import BLOCKS, Steps, finish
from tests.support.services.fronts import Running, alive, posted
from tests.support.services.small_app import App
from tests.support.services.zookeeper import wait_for


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


def test_a_call_of_the_loop_goes_on_in_a_thread_before_it_does_what_may_block(
    app: App, front: Running
) -> None:
    loop = front.call(lambda: threading.current_thread().name)
    app.wake.set()
    at = front.connect().get("/works").json()
    assert at[:2] == [loop, loop]
    assert at[2].startswith("works-")
    assert finish(_blocks()) == "done", "a thread that runs it itself just goes on"


def _blocks() -> Steps[str]:
    yield BLOCKS
    return "done"


def test_what_comes_ahead_of_an_answer_is_left_to_the_system_and_not_lost(
    app: App, front: Running
) -> None:
    raw, body = front.connect(), bytes(range(256)) * 240
    raw.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
    share = front.front.shares["wait"]
    wait_for(lambda: share.parked == 1, "it waits")
    raw.send(posted("/echo", body) + posted("/echo", b"last"))
    (connection,) = front.front.connections
    assert isinstance(connection, Connection)
    wait_for(lambda: connection.ahead > 0, "some of it is there")
    assert alive(front)
    assert connection.ahead < 2 * MAX_AHEAD_BYTES
    app.wake.set()
    assert raw.read().status == 200
    assert raw.read().body == body
    assert raw.read().body == b"last"


@pytest.mark.parametrize(
    ("ahead", "status"),
    [
        (posted("/keep", b"x") + b"hello\r\n\r\n", 400),
        (b"".join(posted("/keep", b"%d" % n) for n in range(18)), 431),
    ],
    ids=["no_http", "too_many"],
)
def test_what_is_refused_behind_a_call_that_waits_is_not_done(
    app: App, front: Running, ahead: bytes, status: int
) -> None:
    kept: list[bytes] = []

    @app.flask.post("/keep")
    def keep() -> str:
        kept.append(request.get_data())
        return ""

    raw = front.connect()
    raw.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: front.front.shares["wait"].parked == 1, "it waits")
    raw.send(ahead)
    (connection,) = front.front.connections
    assert isinstance(connection, Connection)
    wait_for(lambda: connection.ahead == len(ahead), "all of it is there")
    app.wake.set()
    assert raw.read().status == 200
    answer = raw.read()
    assert (answer.status, answer.json()["stored"]) == (status, "no")
    assert raw.closed()
    wait_for(lambda: front.front.calls == 0, "whatever was begun is over")
    assert kept == []


def test_what_comes_behind_the_last_answer_is_not_done(app: App, front: Running) -> None:
    kept: list[bytes] = []

    @app.flask.post("/keep")
    def keep() -> str:
        kept.append(request.get_data())
        return ""

    raw = front.connect()
    raw.send(b"GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: front.front.shares["wait"].parked == 1, "it waits")
    raw.send(posted("/keep", b"x"))
    (connection,) = front.front.connections
    assert isinstance(connection, Connection)
    wait_for(lambda: connection.ahead > 0, "it is there")
    front.call(front.front.drain)
    app.wake.set()
    assert raw.read().body == b"one two"
    assert raw.closed()
    wait_for(lambda: front.front.calls == 0, "whatever was begun is over")
    assert kept == []


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


class Revoked(Everybody):
    """Nobody may go on."""

    def still(self, request: Request) -> LakequeueError:
        return Unauthenticated("the key was revoked meanwhile", stored="no")


def test_whose_key_is_revoked_polls_no_more_and_hears_how_a_write_ended(
    app: App, front: Running
) -> None:
    poll, write = front.connect(), front.connect()
    poll.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
    write.send(b"GET /write HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: front.front.shares["wait"].parked == 2, "both wait")
    front.front.gate = Revoked()
    app.wake.set()
    assert poll.read().status == 401
    assert write.read().json() == {"written": True}


def test_a_write_tells_how_it_ended_though_others_do_not_read_their_answers(
    app: App, front: Running
) -> None:
    polls, writes = front.connect(), front.connect()
    polls.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n")
    writes.send(b"GET /write HTTP/1.1\r\nHost: a\r\n\r\n")
    share = front.front.shares["wait"]
    wait_for(lambda: share.parked == 2, "both wait")
    share.answers.count(share.answers.limit)
    app.wake.set()
    assert polls.read().status == 429, "there is no room for one more answer"
    answer = writes.read()
    assert (answer.status, answer.json()) == (200, {"written": True})
    share.answers.give(share.answers.limit)
    assert share.answers.used == 0


def test_a_stream_that_never_waits_ends_with_the_key_that_began_it(
    app: App, front: Running
) -> None:
    raw = front.connect()
    raw.send(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: app.streamed > 3, "it streams")
    front.front.gate = Revoked()
    with pytest.raises((EOFError, ConnectionError)):
        raw.read()
    wait_for(lambda: app.ended == ["streamed"], "it has given back what it held")


def test_head_of_a_stream_has_no_pieces(front: Running) -> None:
    raw = front.connect()
    raw.send(b"HEAD /endless HTTP/1.1\r\nHost: a\r\n\r\n")
    assert raw.read(head=True).status == 200
    assert raw.get("/healthz").json() == {"status": "alive"}


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


def test_a_state_that_is_not_known_in_time_is_told_as_such(app: App, front: Running) -> None:
    @app.flask.get("/slow-state")
    def slow() -> str:
        app.held.wait(20)
        return ""

    answer = front.connect().get("/slow-state")
    assert (answer.status, answer.json()["code"]) == (503, "not_ready")
    assert alive(front)


def test_what_hangs_behind_its_answer_keeps_its_place_until_it_is_done(
    app: App, front: Running
) -> None:
    @app.flask.get("/slow-state")
    def slow() -> str:
        app.held.wait(20)
        return ""

    share = front.front.shares["slow"]
    most = share.kind.threads + share.kind.queued
    for raw in [front.connect() for _ in range(most)]:
        raw.send(b"GET /slow-state HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: share.busy == most, "all are asked")
    wait_for(lambda: front.front.calls == 0, "all are answered")
    assert share.busy == most
    assert [front.connect().get("/slow-state").status for _ in range(5)] == [429] * 5
    assert alive(front)
    app.held.set()
    wait_for(lambda: share.busy == 0, "they are done")
    assert front.connect().get("/slow-state").status == 200


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


def test_the_loop_has_its_turn_soon_while_threads_compute(app: App, front: Running) -> None:
    usual = sys.getswitchinterval()
    held = [front.connect() for _ in range(2)]
    for raw in held:
        raw.send(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: sys.getswitchinterval() == pytest.approx(SOON_S), "a thread has begun")
    app.held.set()
    assert [raw.read().status for raw in held] == [200, 200]
    wait_for(lambda: sys.getswitchinterval() == usual, "both have ended")


def test_a_call_that_is_refused_while_it_waits_says_what_it_has_written(
    app: App, front: Running
) -> None:
    raw, share = front.connect(), front.front.shares["wait"]
    raw.send(b"GET /written HTTP/1.1\r\nHost: a\r\n\r\n")
    wait_for(lambda: share.parked == 1, "it waits")
    share.answers.count(share.answers.limit)  # answers that nobody reads
    app.wake.set()
    answer = raw.read()
    share.answers.give(share.answers.limit)
    assert (answer.status, answer.json()["stored"]) == (429, "yes")
    assert share.parked == share.busy == 0
