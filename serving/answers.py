"""Answers of the services: JSON, and problems (RFC 9457) for whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import structlog
from flask import Flask, Response, request
from pydantic import ValidationError
from werkzeug.exceptions import HTTPException

from lakequeue import wire
from lakequeue.errors import Broken, InvalidRequest, LakequeueError, SentOn, Stored, TryAgain

log = structlog.get_logger(__name__)

_DEFAULT_RETRY_S = 1.0


def json_answer(body: Any, status: int = 200, content_type: str = wire.JSON) -> Response:
    """`body` as JSON."""
    return Response(orjson.dumps(body), status=status, content_type=content_type)


def problem_answer(error: LakequeueError) -> Response:
    """An error, with `Retry-After` where another try may help."""
    if isinstance(error, TryAgain) and error.retry_after_s is None:
        error.retry_after_s = _DEFAULT_RETRY_S
    response = json_answer(error.to_problem(), error.http_status, wire.PROBLEM)
    if isinstance(error, SentOn) and "location" in error.extra:
        response.headers["Location"] = str(error.extra["location"])
    if error.retry_after_s is not None:
        # Whole seconds, as the header wants them, and never 0; the body has the exact time.
        response.headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    return response


def bad_path(error: ValidationError) -> Response:
    """A part of the path cannot be what stands there: an offset that is no number."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    said = f"{field} {str(first['input'])[:100]!r} in the path: {first['msg']}"
    return problem_answer(
        InvalidRequest(said, hint="see /openapi.json for the calls there are", field=field)
    )


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
        body = InvalidRequest(said, hint="see /openapi.json for the calls there are").to_problem()
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
