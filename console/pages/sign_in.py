"""Signing in by an API key or a token, and out."""

from __future__ import annotations

from flask import Blueprint, Response, g, render_template, request

from console.context import Context
from console.sessions import COOKIE
from lakequeue.errors import LakequeueError, Unauthenticated

_MOST_CHARS = 16_384


def pages(context: Context) -> Blueprint:
    """The pages."""
    made = Blueprint("sign_in", __name__)

    @made.get("/sign-in")
    def show() -> str:
        return _page("", local(request.args.get("next", "/")))

    @made.post("/sign-in")
    def begin() -> Response | str | tuple[str, int]:
        there = local(request.form.get("next", "/"))
        if not context.sessions.is_token(g.cookie, request.form.get("csrf", "")):
            return _page("This form was not made for this browser; try again.", there), 403
        key = request.form.get("key", "").strip()
        if not key or len(key) > _MOST_CHARS or not key.isascii():
            return _page("That is not a key.", there), 401
        session = context.sessions.of(key)
        try:
            session.desk.services.get("consumer", "/v1/nodes")
        except LakequeueError as error:
            session.desk.close()
            known = isinstance(error, Unauthenticated)
            return _page(error.detail, there), 401 if known else 503
        if g.session.id:
            context.sessions.end(g.cookie)
        context.sessions.keep(session)
        response = Response(status=303, headers={"Location": there})
        response.set_cookie(
            COOKIE, session.id, httponly=True, samesite="Strict", secure=_is_https()
        )
        g.new_cookie = False
        return response

    @made.post("/sign-out")
    def end() -> Response:
        context.sessions.end(g.cookie)
        response = Response(status=303, headers={"Location": "/sign-in"})
        response.delete_cookie(COOKIE, httponly=True, samesite="Strict")
        return response

    return made


def local(path: str) -> str:
    """The path, if it is one of this console: else the first page. Pure."""
    good = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if good and path.isprintable() and "\\" not in path else "/"


def _is_https() -> bool:
    return request.headers.get("Origin", "").startswith("https:")


def _page(wrong: str, there: str) -> str:
    return render_template("sign_in.html", wrong=wrong, there=there)
