"""What the calls of an application ask of who calls, and the audit of what they change."""

from __future__ import annotations

from collections.abc import Iterable

import orjson
from flask import Flask, Response, g, request

from queue_access.audit_line import Line, Sink, kept
from queue_access.doors import ANYBODY, Caller, forbidden
from queue_access.rights import Kind, Right
from serving.front import wsgi
from serving.front.call import Call

_UNTIL_FAILED = 400
_FORBIDDEN = 403


def caller() -> Caller:
    """Who calls. Under a server that is not the front, authentication does not exist."""
    call = _call()
    return ANYBODY if call is None else call.request.caller


def _call() -> Call | None:
    call = request.environ.get(wsgi.CALL)
    return call if isinstance(call, Call) else None


def must(right: Right, kind: Kind, names: Iterable[str | None]) -> None:
    """Raise `Forbidden` unless the caller has that right over each of these names.

    A call that waits is asked again when it goes on.
    """
    who, call = caller(), _call()
    for name in names:
        if name is not None:
            who.must(right, kind, name)
            if call is not None:
                call.request.also.append((right, kind, name))


def may_work(topics: Iterable[str], dead_letters: str | None = None) -> None:
    """Raise `Forbidden` unless the caller may consume these topics, and send to that one."""
    must(Right.CONSUME, Kind.TOPIC, topics)
    must(Right.PRODUCE, Kind.TOPIC, [dead_letters])


def may_know(kind: Kind, name: str) -> bool:
    """Whether the caller has any right over that name."""
    return caller().rights.allow_any(kind, name)


def must_know(kind: Kind, names: Iterable[str]) -> None:
    """Raise `Forbidden` unless the caller has any right over each of these names."""
    who = caller()
    for name in names:
        if not who.rights.allow_any(kind, name):
            raise forbidden(who.principal, Right.READ, kind, name)


def was(before: object) -> None:
    """What is about to be changed, as it is now: for the audit."""
    g.before = orjson.dumps(before).decode()


def audit_changes(app: Flask, audit: Sink) -> None:
    """Write a line for each call that changes something, before it is answered."""

    @app.after_request
    def changed(response: Response) -> Response:
        call = _call()
        if call is not None and call.request.call is not None and call.request.call.changes:
            audit.changed(_line(call, response))
        return response


def _outcome(status: int) -> str:
    if status == _FORBIDDEN:
        return "refused"
    return "failed" if status >= _UNTIL_FAILED else "done"


def _line(call: Call, response: Response) -> Line:
    asked, declared = call.request, call.request.call
    failed = response.status_code >= _UNTIL_FAILED
    problem = orjson.loads(response.get_data()) if failed and response.is_json else {}
    return Line(
        principal=asked.caller.principal,
        call="" if declared is None else f"{declared.method} {declared.path}",
        outcome=_outcome(response.status_code),
        name=asked.about,
        how=asked.caller.how,
        address=asked.address,
        status=response.status_code,
        detail=str(problem.get("code", "")),
        before=g.get("before"),
        after=kept(asked.body),
    )
