"""Signing in by an API key or a token, and out."""

from __future__ import annotations

import threading
import time

from flask import Blueprint, Response, g, render_template, request
from flask.typing import ResponseReturnValue

from console.context import Context
from console.sessions import COOKIE, Session
from lakequeue.errors import LakequeueError, TryAgain, Unauthenticated

_MOST_CHARS = 16_384
_KNOWN_S = 8.0
"""A service that does not know the key of a new token asks the issuer first."""
_AGAIN_S = 0.5


def pages(context: Context) -> Blueprint:
    """The pages."""
    made = Blueprint("sign_in", __name__)

    @made.get("/sign-in")
    def show() -> str:
        return page(context, "", local(request.args.get("next", "/")))

    @made.post("/sign-in")
    def begin() -> ResponseReturnValue:
        there = local(request.form.get("next", "/"))
        if not context.sessions.is_token(g.cookie, request.form.get("csrf", "")):
            return page(context, "This form was not made for this browser; try again.", there), 403
        key = request.form.get("key", "").strip()
        if not key or len(key) > _MOST_CHARS or not key.isascii():
            return page(context, "That is not a key.", there), 401
        try:
            session = let_in(context, key, None)
        except LakequeueError as error:
            known = isinstance(error, Unauthenticated)
            return page(context, error.detail, there), 401 if known else 503
        response = Response(status=303, headers={"Location": there})
        return with_cookie(response, session, secure=_is_https())

    @made.post("/sign-out")
    def end() -> Response:
        context.sessions.end(g.cookie)
        response = Response(status=303, headers={"Location": "/sign-in"})
        response.delete_cookie(COOKIE, httponly=True, samesite="Strict")
        return response

    return made


def page(context: Context, wrong: str, there: str) -> str:
    """The page to sign in at, with what went wrong."""
    issuer = None if context.issuer is None else context.issuer.client.issuer
    return render_template("sign_in.html", wrong=wrong, there=there, issuer=issuer)


def let_in(context: Context, key: str, lasts_s: float | None) -> Session:
    """A session, if a service knows the key. Raises what the service says of it."""
    session = context.sessions.of(key, lasts_s)
    until = time.monotonic() + (0.0 if lasts_s is None else _KNOWN_S)
    while True:
        try:
            session.desk.services.get("consumer", "/v1/nodes")
            break
        except LakequeueError as error:
            if not isinstance(error, TryAgain) or time.monotonic() > until:
                session.desk.close()
                raise
            threading.Event().wait(_AGAIN_S)
    if g.session.id:
        context.sessions.end(g.cookie)
    return context.sessions.keep(session)


def with_cookie(response: Response, session: Session, *, secure: bool) -> Response:
    """The answer to somebody whose session that is."""
    response.set_cookie(COOKIE, session.id, httponly=True, samesite="Strict", secure=secure)
    g.new_cookie = False
    return response


def local(path: str) -> str:
    """The path, if it is one of this console: else the first page. Pure."""
    good = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if good and path.isprintable() and "\\" not in path else "/"


def _is_https() -> bool:
    return request.headers.get("Origin", "").startswith("https:")
