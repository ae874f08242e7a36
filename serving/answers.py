"""Answers of the services: JSON, and problems (RFC 9457) for whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import orjson
import structlog
from flask import Flask, Response, request
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException

from lakequeue import wire
from lakequeue.errors import Broken, InvalidRequest, LakequeueError, Overloaded, Stored
from serving.front import wsgi
from serving.front.messages import Answer, problem_of
from serving.front.parking import Pieces, Steps, finish, patience

log = structlog.get_logger(__name__)


def json_answer(body: Any, status: int = 200, content_type: str = wire.JSON) -> Response:
    """`body` as JSON."""
    return Response(orjson.dumps(body), status=status, content_type=content_type)


def made_once(make: Callable[[], Any]) -> Callable[[], Response]:
    """What answers with `make()` as JSON: an OpenAPI document takes 30 ms of Python to make."""
    document = cache(lambda: orjson.dumps(make()))
    return lambda: Response(document(), content_type=wire.JSON)


def problem_answer(error: LakequeueError) -> Response:
    """An error, with `Retry-After` where another try may help."""
    return _response(problem_of(error))


def waiting(steps: Steps[Answer]) -> Response:
    """The answer of a call that may have to wait; see `serving.front.parking`."""
    return Waiting(steps)


def in_pieces(pieces: Pieces, content_type: str, headers: Mapping[str, str]) -> Response:
    """An answer that is written piece by piece, and may wait in between."""
    return _InPieces(Answer(200, b"", content_type, [*headers.items()]), pieces)


class Waiting(Response):
    """What the application answers with in place of an answer: who serves it waits for that."""

    def __init__(self, steps: Steps[Answer]) -> None:
        super().__init__()
        self._steps = steps

    def tell(self, ended: Callable[[Answer], object]) -> None:
        """Call `ended` with the answer, before that is written."""
        self._steps = _told(self._steps, ended)

    def __call__(self, environ: Any, start_response: Any) -> Any:
        if wsgi.CALL in environ:
            return wsgi.Parked(self._steps)
        try:
            answer = finish(self._steps)
        except LakequeueError as error:
            answer = problem_of(error)
        return _response(answer)(environ, start_response)


def _told(steps: Steps[Answer], ended: Callable[[Answer], object]) -> Steps[Answer]:
    try:
        answer = yield from steps
    except LakequeueError as error:
        ended(problem_of(error))
        raise
    except GeneratorExit:
        given_up = "it was given up while it waited: answers of its kind had no room"
        ended(problem_of(Overloaded(given_up, stored="unknown")))
        raise
    except BaseException as error:
        ended(problem_of(Broken(f"unexpected {type(error).__name__}", stored="unknown")))
        raise
    ended(answer)
    return answer


class _InPieces(Response):
    def __init__(self, head: Answer, pieces: Pieces) -> None:
        super().__init__()
        self._head = head
        self._pieces = pieces

    def __call__(self, environ: Any, start_response: Any) -> Any:
        if wsgi.CALL in environ:
            return wsgi.Streamed(self._head, self._pieces)
        whole = Response(_one_by_one(self._pieces), content_type=self._head.content_type)
        whole.headers.extend(self._head.headers)
        return whole(environ, start_response)


def _one_by_one(pieces: Pieces) -> Iterator[bytes]:
    for one in pieces:
        if isinstance(one, bytes):
            yield one
        else:
            one.signal.wait(patience(one))


def _response(answer: Answer) -> Response:
    response = Response(bytes(answer.body), status=answer.status, content_type=answer.content_type)
    response.headers.extend(answer.headers)
    return response


def bad_path(error: ValidationError) -> Response:
    """A part of the path cannot be what stands there: an offset that is no number."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    said = f"{field} {str(first['input'])[:100]!r} in the path: {first['msg']}"
    return problem_answer(InvalidRequest(said, hint="/openapi.json lists all calls", field=field))


def answer_errors(
    app: Flask, unknown: Stored | None = None, finish: Callable[[], None] = lambda: None
) -> None:
    """Turn every exception of a request into a problem.

    `unknown`: what to say of the storing of records when anything at all may have happened.
    `finish` is called before a problem is answered: a request may not be read to its end.
    """

    @app.errorhandler(LakequeueError)
    def ours(error: LakequeueError) -> Response:
        finish()
        return problem_answer(error)

    @app.errorhandler(HTTPException)
    def of_http(error: HTTPException) -> Response:
        finish()
        status = error.code or 500
        said = error.description or error.name
        body = InvalidRequest(said, hint="/openapi.json lists all calls").to_problem()
        code = error.name.lower().replace(" ", "_")
        body |= {"status": status, "code": code, "title": error.name}
        body["type"] = f"urn:lakequeue:error:{code}"
        if unknown is not None:
            body["stored"] = "no"
        response = json_answer(body, status, wire.PROBLEM)
        for name, value in error.get_headers():
            if name.lower() == "allow":
                response.headers[name] = value
        return response

    @app.errorhandler(Exception)
    def unexpected(error: Exception) -> Response:
        # The caller gets a problem like any other; the trace is for the operator.
        log.error("request.failed", path=request.path, exc_info=error)
        finish()
        said = f"unexpected {type(error).__name__}; the log of this node has the details"
        return problem_answer(Broken(said, hint="report it, with the log", stored=unknown))
