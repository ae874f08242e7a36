"""A small application for a front: what may wait, be held up, be large, or break."""

from __future__ import annotations

import threading

from flask import Flask, Response, request

from lakequeue.errors import LakequeueError
from serving.answers import answer_errors, in_pieces, waiting
from serving.front import wsgi
from serving.front.call import Call
from serving.front.limits.shares import Kind
from serving.front.messages import Answer, json_of
from serving.front.parking import BLOCKS, Pieces, Steps, Until, Wake
from serving.front.routes import Way

BIG = 8 << 20


class App:
    """What the tests ask for."""

    def __init__(self) -> None:
        self.wake = Wake()
        self.held = threading.Event()
        self.ended: list[str] = []
        self.streamed = 0
        """Pieces of `/endless`."""
        self.taken: list[int] = [0]
        """Bytes that all answers of `/big` took whenever one was built."""
        self.flask = flask = Flask("small")
        answer_errors(flask)

        @flask.post("/echo")
        def echo() -> Response:
            return Response(request.get_data(), content_type="text/plain")

        @flask.post("/headers")
        def headers() -> list[str]:
            return [name for name, _ in request.headers if name != "Content-Length"]

        @flask.get("/big")
        def big() -> Response:
            call: Call = request.environ[wsgi.CALL]
            self.taken.append(call.route.share.answers.used)

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

        self._streaming()
        self._writing()
        self._in_threads()

    def _streaming(self) -> None:
        @self.flask.get("/endless")
        def endless() -> Response:
            def steps() -> Pieces:
                try:
                    while True:
                        self.streamed += 1
                        yield b"more "
                finally:
                    self.ended.append("streamed")

            return in_pieces(steps(), "text/plain", {})

    def _writing(self) -> None:
        @self.flask.get("/write")
        def write() -> Response:
            def steps() -> Steps[Answer]:
                yield Until(self.wake, 20.0, minds=False)
                return json_of({"written": True})

            return waiting(steps())

        @self.flask.get("/written")
        def written() -> Response:
            """It waits for more when it has written something already."""

            def steps() -> Steps[Answer]:
                try:
                    yield Until(self.wake, 20.0)
                except LakequeueError as error:
                    yield Until(self.wake, 20.0, minds=False)
                    error.stored = "yes"
                    raise
                return json_of({"written": True})

            return waiting(steps())

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

        def works(call: Call) -> None:
            def steps() -> Steps[Answer]:
                at = [threading.current_thread().name]
                yield Until(self.wake, 20.0)
                at.append(threading.current_thread().name)
                yield BLOCKS
                at.append(threading.current_thread().name)
                return json_of(at)

            call.follow(steps(), inline=True)

        return [
            Way("GET", "/healthz", state, 0, healthz),
            Way("GET", "/works", Kind("works", 1, 4, 4), 0, works),
            Way("GET", "/slow-state", Kind("slow", 1, 4), 0, within_s=0.3),
            Way("GET", "/(wait|write|written|pieces|endless)", Kind("wait", 2, 100, 50), 0),
            Way("GET", "/hold", Kind("hold", 1, 1), 0),
            Way("GET", "/big", Kind("big", 2, 100, answer_bytes=20 << 20), 0),
            Way("", ".*", Kind("other", 2, 100), 64 << 10),
        ]
