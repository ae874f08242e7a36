"""What the calls of an application ask of who calls, and the audit of what they change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import orjson
from flask import Flask, Response, g, request

from queue_access.audit_line import Line, Sink, kept
from queue_access.calls import CallRight
from queue_access.doors import ANYBODY, Caller, forbidden
from queue_access.rights import Kind, Right
from serving.answers import Waiting
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


def says(body: bytes) -> None:
    """What the body of a change says, if it came packed: for the audit."""
    g.says = body


def audit_changes(app: Flask, audit: Sink) -> None:
    """Write a line for each call that changes something, before it is answered."""

    @app.after_request
    def changed(response: Response) -> Response:
        call = _call()
        if call is None or call.request.call is None or not call.request.call.changes:
            return response
        line = _line(call, call.request.call)
        if isinstance(response, Waiting):
            response.tell(lambda answer: audit.changed(_ended(line, answer.status, answer.body)))
        else:
            problem = response.get_data() if response.is_json else b""
            audit.changed(_ended(line, response.status_code, problem))
        return response


def _outcome(status: int) -> str:
    if status == _FORBIDDEN:
        return "refused"
    return "failed" if status >= _UNTIL_FAILED else "done"


def _line(call: Call, declared: CallRight) -> Line:
    asked = call.request
    return Line(
        principal=asked.caller.principal,
        call=f"{declared.method} {declared.path}",
        outcome="",
        name=asked.about,
        how=asked.caller.how,
        address=asked.address,
        before=g.get("before"),
        after=kept(g.get("says", asked.body)),
    )


def _ended(line: Line, status: int, body: bytes) -> Line:
    problem = orjson.loads(body) if status >= _UNTIL_FAILED and body else {}
    return replace(
        line, outcome=_outcome(status), status=status, detail=str(problem.get("code", ""))
    )
