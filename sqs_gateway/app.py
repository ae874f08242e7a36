"""The application: all of SQS is one address, and a request says which operation it is.

Calls about messages are most of all calls. They are small, and wait for what goes together with
others. So the event loop answers them itself, if nothing has to be asked of the services first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from flask import Flask, Response, request

from lakequeue.errors import Overloaded, Unauthenticated
from serving.answers import answer_errors, waiting
from serving.front import wsgi
from serving.front.call import Call as FrontCall
from serving.front.messages import Answer
from serving.front.parking import Steps, finish
from serving.meters import CONTENT_TYPE
from sqs_gateway.gateway import Call, Gateway
from sqs_gateway.metrics import Metrics
from sqs_gateway.protocols.incoming import Raw, Written

_INLINE_BYTES = 32 << 10
"""Of a request that the event loop reads itself: a larger one would hold up all others."""


class Waits:
    """How many receives wait. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._there = 0

    def enter(self) -> None:
        """One more. Raises `Overloaded`."""
        with self._lock:
            if self._there >= self._most:
                raise Overloaded(
                    f"{self._there} receives wait at this gateway, which is the most",
                    hint="ask another gateway, or raise sqs.max_waits",
                    retry_after_s=1.0,
                )
            self._there += 1

    def leave(self) -> None:
        """One less."""
        with self._lock:
            self._there -= 1


def create_app(
    gateway: Gateway, metrics: Metrics, *, url: str | None, waits: Waits, scheme: str = "http"
) -> Flask:
    """The WSGI application. `url`: the base of the queues' URLs; None: as each client asks."""
    app = Flask(__name__, static_folder=None)
    answer_errors(app)

    @app.get("/metrics")
    def shown() -> Response:
        if not gateway.may_watch(request.headers.get("Authorization", "")):
            raise Unauthenticated(
                "the metrics of this gateway need an API key",
                hint="show one of sqs.keys_file: Authorization: Bearer lq_…",
            )
        return Response(metrics.text(), content_type=CONTENT_TYPE)

    @app.route("/", methods=["GET", "POST"])
    @app.route("/<path:path>", methods=["GET", "POST"])
    def ask(path: str = "") -> Response:
        raw = Raw(
            request.method,
            f"/{path}",
            str(request.environ.get("RAW_URI") or request.path),
            request.query_string.decode("latin-1"),
            {name.lower(): value for name, value in request.headers.items()},
            request.get_data(cache=False),
        )
        call = gateway.read(raw, url or f"{scheme}://{request.host}")
        if isinstance(call, Written):
            return _response(call)
        if not call.parks:
            return _response(finish(gateway.answer(call)))
        front = request.environ.get(wsgi.CALL)
        gone = front.gone if isinstance(front, FrontCall) else _stays
        return waiting(_steps(gateway, call, gone, waits))

    return app


def entrance(gateway: Gateway, waits: Waits) -> Callable[[FrontCall], None]:
    """Answers calls about messages in the event loop, and lets the application answer others."""

    def enter(front: FrontCall) -> None:
        asked = front.request
        if asked.method != "POST" or len(asked.body) > _INLINE_BYTES:
            front.to_application()
            return
        headers: dict[str, str] = {}
        for name, value in asked.headers:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            headers[key] = f"{headers[key]},{text}" if key in headers else text
        target = asked.target.decode("latin-1")
        raw = Raw("POST", asked.path, target, asked.query, headers, asked.body)
        if not gateway.may_be_quick(raw):
            front.to_application()
            return
        call = gateway.read(raw, "")
        if isinstance(call, Written):
            front.done(_answer(call))
        elif gateway.is_quick(call):
            asked.body = b""
            front.follow(_steps(gateway, call, front.gone, waits), inline=True)
        else:
            front.to_application()

    return enter


def _stays() -> bool:
    return False


def _steps(gateway: Gateway, call: Call, gone: Callable[[], bool], waits: Waits) -> Steps[Answer]:
    if not call.waits:
        return _answer((yield from gateway.answer(call, gone)))
    try:
        waits.enter()
    except Overloaded as error:
        return _answer(gateway.refused(call, error))
    try:
        return _answer((yield from gateway.answer(call, gone)))
    finally:
        waits.leave()


def _answer(written: Written) -> Answer:
    return Answer(written.status, written.body, written.content_type, written.headers)


def _response(written: Written) -> Response:
    response = Response(written.body, status=written.status, content_type=written.content_type)
    for name, value in written.headers:
        response.headers[name] = value
    return response
