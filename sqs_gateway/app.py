"""The application: all of SQS is one address, and a request says which operation it is."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from flask import Flask, Response, request

from lakequeue.errors import Overloaded, Unauthenticated
from serving.answers import answer_errors, waiting
from serving.front import wsgi
from serving.front.call import Call as FrontCall
from serving.front.limits.shares import Pool
from serving.front.messages import Answer
from serving.front.parking import Done, Steps, Until
from serving.meters import CONTENT_TYPE
from sqs_gateway.gateway import Call, Gateway
from sqs_gateway.metrics import Metrics
from sqs_gateway.protocols.incoming import Raw, Written

_LONGEST_S = 90.0
"""A receive waits for at most 20 s, and is repeated for a while if a node fails."""


def create_app(gateway: Gateway, metrics: Metrics, *, url: str | None, max_waits: int) -> Flask:
    """The WSGI application. `url`: the base of the queues' URLs; None: as each client asks."""
    app = Flask(__name__, static_folder=None)
    answer_errors(app)
    waits = Waits(max_waits)

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
        call = gateway.read(raw, url or request.host_url.rstrip("/"))
        if isinstance(call, Written):
            return _response(call)
        if not call.waits:
            return _response(gateway.answer(call))
        front = request.environ.get(wsgi.CALL)
        gone = front.gone if isinstance(front, FrontCall) else _stays
        return waiting(_steps(gateway, call, gone, waits))

    return app


def _stays() -> bool:
    return False


class Waits:
    """Threads for receives: those that wait must not hold up what sends and deletes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._pool = Pool("receive", most)
        self._busy = 0

    def run(self, work: Callable[[], Written]) -> Future[Written]:
        """Do it in a thread. Raises `Overloaded`."""
        if self._busy >= self._most:
            raise Overloaded(
                f"{self._busy} receives wait at this gateway, which is the most",
                hint="ask another gateway, or raise sqs.max_waits",
                retry_after_s=1.0,
            )
        self._busy += 1
        future: Future[Written] = Future()

        def there() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 -- whoever waits gets it
                future.set_exception(error)
            finally:
                self._busy -= 1

        self._pool.submit(there)
        return future


def _steps(gateway: Gateway, call: Call, gone: Callable[[], bool], waits: Waits) -> Steps[Answer]:
    try:
        future = waits.run(partial(gateway.answer, call, gone))
    except Overloaded as error:
        return _answer(gateway.refused(call, error))
    while not future.done():
        yield Until(Done(future), _LONGEST_S, minds=False)
    return _answer(future.result())


def _answer(written: Written) -> Answer:
    return Answer(written.status, written.body, written.content_type, written.headers)


def _response(written: Written) -> Response:
    response = Response(written.body, status=written.status, content_type=written.content_type)
    for name, value in written.headers:
        response.headers[name] = value
    return response
