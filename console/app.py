"""The application: who may come in, what each page is answered with, and its safe headers."""

from __future__ import annotations

import secrets
from hashlib import blake2b
from urllib.parse import quote

from flask import Flask, Response, g, render_template, request
from markupsafe import Markup, escape
from werkzeug.exceptions import HTTPException

from console.context import Context
from console.pages import (
    dead_letters,
    doing,
    groups,
    overview,
    records,
    sending,
    sign_in,
    sign_in_elsewhere,
    topics,
    webhooks,
)
from console.pages.sign_in import local
from console.rules.charts import short
from console.rules.texts import ago, amount, harmless, moment
from console.sessions import COOKIE
from lakequeue import __version__
from lakequeue.errors import LakequeueError, Unauthenticated
from serving.front.messages import problem_of

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With `no-referrer` browsers would say of our own forms that they come from nowhere.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_OPEN = (
    "static",
    "sign_in.show",
    "sign_in.begin",
    "sign_in_elsewhere.away",
    "sign_in_elsewhere.back",
)
LIVE = "X-Live"
"""A part of a page is asked for by the page itself; it says which state it has."""


def create_app(context: Context, *, secure: bool = False) -> Flask:
    """The WSGI application; `secure`: browsers reach it by https alone."""
    app = Flask(__name__)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters |= {
        "short": short, "ago": ago, "amount": amount, "moment": moment, "harmless": harmless,
        "worded": worded, "url": lambda text: quote(str(text), safe=""),
    }  # fmt: skip
    _let_in(app, context)
    _answer(app, secure=secure)
    app.context_processor(lambda: _shared(context))
    app.register_blueprint(overview.pages(context))
    for room in (
        topics,
        records,
        groups,
        doing,
        webhooks,
        dead_letters,
        sign_in,
        sign_in_elsewhere,
    ):
        app.register_blueprint(room.pages(context))
    app.register_blueprint(sending.pages())
    return app


def worded(text: object) -> Markup:
    """A sentence of the product: what stands between backticks is code."""
    parts = [escape(part) for part in harmless(text).split("`")]
    if len(parts) % 2 == 0:
        return Markup("`").join(parts)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else part
        for number, part in enumerate(parts)
    )


def _let_in(app: Flask, context: Context) -> None:
    @app.before_request
    def who() -> Response | None:
        g.cookie = request.cookies.get(COOKIE, "") or secrets.token_urlsafe(32)
        g.new_cookie = COOKIE not in request.cookies
        context.look_around()
        found = context.sessions.find(g.cookie)
        g.session = found or context.sessions.everybody
        if _comes_from_elsewhere() and request.endpoint != "sign_in_elsewhere.back":
            return _once_more()
        if request.endpoint in _OPEN:
            return None
        if context.locked and found is None:
            if LIVE in request.headers:
                return Response("sign in", 401)
            return _to_sign_in()
        if request.method not in {"GET", "HEAD"}:
            return _check_form(context)
        return None


def _comes_from_elsewhere() -> bool:
    """Somebody follows a link of another site: then the browser has kept our cookie back."""
    said = request.headers.get
    return (
        request.method == "GET"
        and COOKIE not in request.cookies
        and (said("Sec-Fetch-Site"), said("Sec-Fetch-Dest")) == ("cross-site", "document")
    )


def _once_more() -> Response:
    """Let the page ask by itself. A new cookie would end the session that there may be."""
    g.new_cookie = False
    there = local(request.full_path.rstrip("?"))
    page = render_template("onward.html", there=there, title="One moment")
    return Response(page, content_type="text/html; charset=utf-8")


def _to_sign_in() -> Response:
    path = request.full_path.rstrip("?") if request.method == "GET" else "/"
    return Response(status=303, headers={"Location": f"/sign-in?next={quote(path)}"})


def _check_form(context: Context) -> Response | None:
    if not context.sessions.is_token(g.cookie, request.form.get("csrf", "")):
        return _said(403, "This form was not made for this browser.", "load the page again")
    if context.read_only and request.endpoint != "sign_in.end":
        return _said(403, "This console only shows.", "it was started with --read-only")
    return None


def _answer(app: Flask, *, secure: bool) -> None:
    @app.after_request
    def finish(response: Response) -> Response:
        for name, value in _HEADERS.items():
            response.headers[name] = value
        if request.endpoint == "static":
            response.headers["Cache-Control"] = "max-age=3600"
            return response
        response.headers["Cache-Control"] = "no-store"
        if g.get("new_cookie") and response.mimetype == "text/html" and LIVE not in request.headers:
            response.set_cookie(COOKIE, g.cookie, httponly=True, samesite="Strict", secure=secure)
        if LIVE in request.headers and response.status_code == 200:
            return _if_new(response)
        return response

    @app.errorhandler(LakequeueError)
    def ours(error: LakequeueError) -> Response:
        if isinstance(error, Unauthenticated):
            return _to_sign_in()
        answer = problem_of(error)
        return _said(answer.status, error.detail, error.hint or "")

    @app.errorhandler(HTTPException)
    def of_http(error: HTTPException) -> Response:
        return _said(error.code or 500, error.description or error.name, "")

    @app.errorhandler(Exception)
    def unexpected(error: Exception) -> Response:
        app.logger.error("page.failed %s", request.path, exc_info=error)
        said = f"Unexpected {type(error).__name__}."
        return _said(500, said, "the log of the console has the details")


def _if_new(response: Response) -> Response:
    """Nothing, if the page has it already."""
    state = blake2b(response.get_data(), digest_size=12).hexdigest()
    if request.headers[LIVE] == state:
        return Response(status=204)
    response.headers[LIVE] = state
    return response


def _said(status: int, detail: str, hint: str) -> Response:
    page = render_template("said.html", title=detail, detail=detail, hint=hint)
    return Response(page, status, content_type="text/html; charset=utf-8")


def _shared(context: Context) -> dict[str, object]:
    signed = g.get("session") is not None and g.session.id
    return {
        "csrf": context.sessions.token(g.cookie) if "cookie" in g else "",
        "read_only": context.read_only,
        "locked": context.locked,
        "who": g.session.who if signed else "",
        "version": __version__,
        "root": context.tables.uri,
    }
