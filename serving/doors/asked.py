"""What the calls of an application ask of who calls, and the audit of what they change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast

import orjson
from flask import Flask, Response, current_app, g, request

from queue_access.audit_line import Line, Sink, kept, shortened
from queue_access.calls import CallRight
from queue_access.doors import ANYBODY, Caller, forbidden
from queue_access.rights import Kind, Right
from serving.answers import Waiting
from serving.front import wsgi
from serving.front.call import Call
from serving.front.messages import Answer

_AUDIT = "lakequeue.audit"
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
    g.before = shortened(orjson.dumps(before).decode())


def came_to(after: object) -> None:
    """What a change has led to, beside what was asked: for the audit."""
    g.came_to = after


def tells_of_new() -> Callable[[object], None]:
    """Writes a line if this call, which changes nothing by itself, makes something new.

    For any thread: a call that waits makes it when its request is over. A change has its own line.
    """
    call = _call()
    if call is None or call.request.call is None or call.request.call.changes:
        return _nothing_to_tell
    sink, asked, declared = (
        cast(Sink, current_app.extensions[_AUDIT]),
        call.request,
        call.request.call,
    )

    def tell(made: object) -> None:
        sink.changed(
            Line(
                principal=asked.caller.principal,
                call=f"{declared.method} {declared.path}",
                outcome="done",
                name=asked.about,
                how=asked.caller.how,
                address=asked.address,
                detail="made",
                after=shortened(orjson.dumps(made).decode()),
            )
        )

    return tell


def _nothing_to_tell(_made: object) -> None:
    pass


def says(body: bytes) -> None:
    """What the body of a change says, if it came packed: for the audit."""
    g.says = body


def audit_changes(app: Flask, audit: Sink) -> None:
    """Write a line for each call that changes something, before it is answered."""
    app.extensions[_AUDIT] = audit

    @app.after_request
    def changed(response: Response) -> Response:
        call = _call()
        if call is None or call.request.call is None or not call.request.call.changes:
            return response
        line = _line(call, call.request.call)
        if isinstance(response, Waiting):
            response.tell(lambda answer: audit.changed(_waited(line, answer)))
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
        after=_after(kept(g.get("says", asked.body))),
    )


def _after(asked: str | None) -> str | None:
    """What was asked, and what it led to where that does not say it."""
    if "came_to" not in g:
        return asked
    led_to = orjson.dumps(g.came_to).decode()
    return shortened(f'{{"asked":{asked or "null"},"led_to":{led_to}}}')


def _waited(line: Line, answer: Answer) -> Line:
    """A call that waited: what it has led to stands in its answer."""
    body = bytes(answer.body)
    ended = _ended(line, answer.status, body)
    if answer.status >= _UNTIL_FAILED or not body:
        return ended
    led_to = f'{{"asked":{line.after or "null"},"led_to":{body.decode()}}}'
    return replace(ended, after=shortened(led_to))


def _ended(line: Line, status: int, body: bytes) -> Line:
    problem = orjson.loads(body) if status >= _UNTIL_FAILED and body else {}
    return replace(
        line, outcome=_outcome(status), status=status, detail=str(problem.get("code", ""))
    )
